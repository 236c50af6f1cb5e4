package access

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// The scripts of keys and revocations.
var (
	createScript  = lua.Must("access/create")
	revokeScript  = lua.Must("access/revoke")
	changesScript = lua.Must("access/changes")
)

const (
	// changesAtOnce limits the changes that a call reads, and so its reply to about 1 MiB.
	changesAtOnce = 64
	// pageSize is the approximate number of keys or revocations in a page of Each.
	pageSize = 250
)

const (
	statusFull    redis.Status = "FULL"
	statusLimited redis.Status = "LIMITED"
)

var refusals = redis.Refusals{
	"EXISTS":  accesskeys.ErrKeyExists,
	"UNKNOWN": accesskeys.ErrNoKey,
	"LOST":    accesskeys.ErrLost,
}

// Store keeps API keys and revocations in Redis. It may be used by many goroutines.
type Store struct {
	conn *redis.Conn
	keys keys
}

var _ accesskeys.Store = (*Store)(nil)

// New returns the API keys and revocations in the Redis of a connection.
func New(conn *redis.Conn) *Store { return &Store{conn: conn, keys: keys(conn.Prefix())} }

func (s *Store) all() []string {
	return []string{s.keys.records(), s.keys.revocations(), s.keys.ends(), s.keys.changes()}
}

// Create implements accesskeys.Store.
func (s *Store) Create(ctx context.Context, r accesskeys.Record, limit int) (accesskeys.Position, error) {
	args := []string{r.ID, string(r.Value), millis(r.Until), strconv.Itoa(limit), id.New(), s.keys.topic()}
	reply, err := s.conn.Run(ctx, createScript, s.all(), args)
	if err != nil {
		return "", fmt.Errorf("create an API key: %w", err)
	}
	return createdOf(reply)
}

// createdOf decodes the reply of create.lua.
func createdOf(reply redis.Reply) (accesskeys.Position, error) {
	switch reply.Status {
	case redis.OK:
		d := reply.Decoder()
		return position(d.Text(), d.Text()), d.End()
	case statusFull:
		return "", accesskeys.ErrTooManyKeys
	default:
		return "", refusals.Error(reply)
	}
}

// Revoke implements accesskeys.Store.
func (s *Store) Revoke(ctx context.Context, r accesskeys.Revocation, limit int) (accesskeys.Revocation,
	accesskeys.Position, error) {
	args := []string{
		string(r.Kind), r.Name, millis(r.At), millis(r.Until), redis.Milliseconds(accesskeys.DefaultLife),
		strconv.Itoa(limit), id.New(), s.keys.topic(),
	}
	reply, err := s.conn.Run(ctx, revokeScript, s.all(), args)
	switch {
	case err != nil:
		return accesskeys.Revocation{}, "", fmt.Errorf("revoke: %w", err)
	case reply.Status == statusFull:
		return accesskeys.Revocation{}, "", accesskeys.ErrTooManyRevocations
	}
	return revokedOf(reply, r)
}

// revokedOf decodes the reply of revoke.lua.
func revokedOf(reply redis.Reply, r accesskeys.Revocation) (accesskeys.Revocation, accesskeys.Position, error) {
	if reply.Status != redis.OK {
		return accesskeys.Revocation{}, "", refusals.Error(reply)
	}
	d := reply.Decoder()
	r.At, r.Until = moment(d.Int64()), moment(d.Int64())
	return r, position(d.Text(), d.Text()), d.End()
}

// Last implements accesskeys.Store.
func (s *Store) Last(ctx context.Context) (at accesskeys.Position, err error) {
	c := s.conn.Client()
	err = s.conn.Retry(ctx, "last change", func(ctx context.Context) error {
		found, err := c.Do(ctx, c.B().Xrevrange().Key(s.keys.changes()).End("+").Start("-").Count(1).Build()).AsXRange()
		if err == nil && len(found) > 0 {
			at = position(found[0].ID, found[0].FieldValues["token"])
		}
		return err
	})
	return at, err
}

// Changes implements accesskeys.Store.
func (s *Store) Changes(ctx context.Context, after accesskeys.Position, others ...accesskeys.Position) (
	accesskeys.Changes, error) {
	args := []string{strconv.Itoa(changesAtOnce)}
	for _, position := range append([]accesskeys.Position{after}, others...) {
		at, token, ok := strings.Cut(string(position), " ")
		if !ok {
			return accesskeys.Changes{}, accesskeys.ErrLost // no change precedes the first one
		}
		args = append(args, at, token)
	}
	ks := []string{s.keys.records(), s.keys.revocations(), s.keys.changes()}
	reply, err := s.conn.Run(ctx, changesScript, ks, args)
	if err != nil {
		return accesskeys.Changes{}, fmt.Errorf("read changes: %w", err)
	}
	return changesOf(reply, after)
}

// changesOf decodes the reply of changes.lua.
func changesOf(reply redis.Reply, after accesskeys.Position) (accesskeys.Changes, error) {
	if reply.Status != redis.OK {
		return accesskeys.Changes{}, refusals.Error(reply)
	}
	changes := accesskeys.Changes{At: after}
	d, n := reply.Decoder(), 0
	for ; d.More(); n++ {
		changes.At = position(d.Text(), d.Text())
		entry, err := entryOf(d.Text(), d.Text(), d.Text())
		d.Fail(err)
		changes.Entries = append(changes.Entries, entry)
	}
	changes.More = n == changesAtOnce
	return changes, d.End()
}

// entryOf decodes the API key or the revocation of a change. It is empty if the value has been deleted.
func entryOf(what, name, value string) (accesskeys.Entry, error) {
	switch {
	case what == "revoked":
		return revocationOf(name, value)
	case what != "key":
		return accesskeys.Entry{}, errors.New("a change of an unknown kind")
	case value == "":
		return accesskeys.Entry{}, nil // its deletion is a later change, or it has ended
	}
	return accesskeys.Entry{Record: &accesskeys.Record{ID: name, Value: []byte(value)}}, nil
}

// revocationOf decodes a revocation. One without a value has no times: that of a deleted API key that isn't stored.
func revocationOf(name, value string) (accesskeys.Entry, error) {
	kind, of, _ := strings.Cut(name, ":")
	r := &accesskeys.Revocation{Kind: accesskeys.Kind(kind), Name: of}
	if value == "" {
		return accesskeys.Entry{Revocation: r}, nil
	}
	at, until, _ := strings.Cut(value, " ")
	atMS, err := strconv.ParseInt(at, 10, 64)
	untilMS, errUntil := strconv.ParseInt(until, 10, 64)
	r.At, r.Until = moment(atMS), moment(untilMS)
	return accesskeys.Entry{Revocation: r}, errors.Join(err, errUntil)
}

// Each implements accesskeys.Store.
func (s *Store) Each(ctx context.Context, read func(accesskeys.Entry)) error {
	err := s.eachField(ctx, s.keys.records(), func(id, value string) error {
		read(accesskeys.Entry{Record: &accesskeys.Record{ID: id, Value: []byte(value)}})
		return nil
	})
	if err != nil {
		return err
	}
	return s.eachField(ctx, s.keys.revocations(), func(name, value string) error {
		entry, err := revocationOf(name, value)
		if err == nil {
			read(entry)
		}
		return err
	})
}

// eachField reads a hash in pages, on the connection for large replies. A field may be read twice.
func (s *Store) eachField(ctx context.Context, key string, read func(field, value string) error) error {
	c, cursor := s.conn.Bulk(), uint64(0)
	for {
		var page rueidis.ScanEntry
		err := s.conn.Retry(ctx, "load", func(ctx context.Context) (err error) {
			page, err = c.Do(ctx, c.B().Hscan().Key(key).Cursor(cursor).Count(pageSize).Build()).AsScanEntry()
			return err
		})
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			if err := read(page.Elements[i], page.Elements[i+1]); err != nil {
				return fmt.Errorf("%w: %s: %w", redis.ErrReply, key, err)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// Watch implements accesskeys.Store.
func (s *Store) Watch(changed func()) (stop func()) {
	return s.conn.Listen(s.keys.topic(), pubsub.Listener{
		Confirmed: changed, Message: func(string) { changed() }, Repeats: true,
	})
}

// position returns the position of a change, or "" for none.
func position(id, token string) accesskeys.Position {
	if id == "" {
		return ""
	}
	return accesskeys.Position(id + " " + token)
}

// millis returns a time in milliseconds since 1970; 0 is the zero time.
func millis(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
