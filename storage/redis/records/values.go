package records

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// valuesPage is the approximate number of keys that one SCAN examines.
const valuesPage = 500

// Values reads the values of the cache. Its methods may be called by many goroutines.
type Values struct{ conn *redis.Conn }

var _ tier.Values = (*Values)(nil)

// NewValues returns the values in the cache's Redis.
func NewValues(conn *redis.Conn) *Values { return &Values{conn} }

// Life implements tier.Values.
func (v *Values) Life(ctx context.Context) (string, error) { return Life(ctx, v.conn) }

// Read implements tier.Values. The time that is left is read first: a value that is replaced in between ends too early
// rather than too late, and its replacement is announced. An empty value counts as none.
func (v *Values) Read(ctx context.Context, kind *records.Kind, ids []string) ([]tier.Value, error) {
	values := make([]tier.Value, len(ids))
	errs := v.conn.RetryEach(ctx, "read values", len(ids), func(ctx context.Context, pending []int) []error {
		client, commands := v.conn.Bulk(), make(rueidis.Commands, 0, 2*len(pending))
		for _, i := range pending {
			key := v.conn.Prefix() + kind.KeyOf(ids[i])
			commands = append(commands,
				client.B().Pttl().Key(key).Build(),
				client.B().Getrange().Key(key).Start(0).End(int64(kind.MaxBytes)).Build())
		}
		results, errs := v.conn.Send(ctx, client, commands), make([]error, len(pending))
		for n, i := range pending {
			values[i], errs[n] = decodeEntry(results[2*n], results[2*n+1], kind.MaxBytes)
		}
		return errs
	})
	return values, errors.Join(errs...)
}

func decodeEntry(ttl, text rueidis.RedisResult, limit int) (tier.Value, error) {
	ms, err := ttl.AsInt64()
	if err != nil {
		return tier.Value{}, err
	}
	data, err := text.AsBytes()
	if refusal.Is(err, refusal.WrongType) {
		return tier.Value{}, nil
	}
	return valueOf(ms, data, limit), err
}

// noKey is the reply of PTTL for a missing key. -1 means that the key has no TTL, and 0 that it expires within the same
// millisecond.
const noTierKey = -2

// valueOf returns a value from the reply to PTTL and its text.
func valueOf(ms int64, data []byte, limit int) tier.Value {
	return tier.Value{
		Found: ms != noTierKey && ms != 0 && len(data) > 0 && len(data) <= limit, Bytes: data,
		Left: time.Duration(max(0, ms)) * time.Millisecond,
	}
}

// Walk implements tier.Values.
func (v *Values) Walk(kind *records.Kind) tier.Walk {
	pattern := redis.Literal(v.conn.Prefix() + kind.Pattern)
	for _, name := range kind.Parts() {
		pattern = strings.Replace(pattern, "<"+name+">", "*", 1)
	}
	return &walk{conn: v.conn, kind: kind, pattern: pattern}
}

// walk goes from primary to primary. If slots move meanwhile, a key can move to a node that the walk has already
// passed. As each key moves once in that time, the first or a second walk finds it.
type walk struct {
	conn    *redis.Conn
	kind    *records.Kind
	pattern string

	started bool
	second  bool
	before  topology.Topology // when it began
	node    int
	cursor  uint64
}

// Next implements tier.Walk.
func (w *walk) Next(ctx context.Context) (ids []string, looked int, err error) {
	if !w.started {
		if w.before, err = readTopology(ctx, w.conn); err != nil {
			return nil, 0, err
		}
		w.started = true
	}
	if w.node == len(w.before.Primaries) {
		return nil, 0, w.end(ctx)
	}
	node, found := w.before.Primaries[w.node].Client, rueidis.ScanEntry{}
	err = w.conn.Retry(ctx, "scan", func(ctx context.Context) (err error) {
		found, err = node.Do(ctx,
			node.B().Scan().Cursor(w.cursor).Match(w.pattern).Count(valuesPage).Build()).AsScanEntry()
		return err
	})
	if err != nil {
		return nil, 0, w.restart(ctx, err)
	}
	if w.cursor = found.Cursor; w.cursor == 0 {
		w.node++
	}
	for _, key := range found.Elements {
		if id, ok := w.kind.IDOf(strings.TrimPrefix(key, w.conn.Prefix())); ok {
			ids = append(ids, id)
		}
	}
	return ids, valuesPage, nil
}

// restart begins the walk again if the nodes have changed, since a removed one would never answer. Otherwise the walk
// can continue.
func (w *walk) restart(ctx context.Context, failed error) error {
	if now, err := readTopology(ctx, w.conn); err == nil && now.Version != w.before.Version {
		w.started, w.node, w.cursor = false, 0, 0
	}
	return failed
}

// end returns io.EOF, or nil if a second walk is needed.
func (w *walk) end(ctx context.Context) error {
	now, err := readTopology(ctx, w.conn)
	switch {
	case err != nil:
		return err
	case w.second, now.Version == w.before.Version && !now.Moving && !w.before.Moving:
		return io.EOF
	}
	w.started, w.second, w.node, w.cursor = false, true, 0, 0
	return nil
}
