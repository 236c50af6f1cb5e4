package records

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// page is the approximate number of keys that one SCAN examines.
const page = 250

// KeySource scans the keys with the connection's prefix. It implements keyspace.Source.
type KeySource struct {
	conn *redis.Conn
}

// NewKeySource returns the source of a connection.
func NewKeySource(conn *redis.Conn) *KeySource { return &KeySource{conn: conn} }

// Count returns how many keys the primaries have, whatever their prefix.
func (s *KeySource) Count(ctx context.Context) (total int64, err error) {
	err = s.eachPrimary(ctx, func(node rueidis.Client) error {
		return s.conn.Retry(ctx, "count keys", func(ctx context.Context) error {
			n, err := node.Do(ctx, node.B().Dbsize().Build()).AsInt64()
			total += n
			return err
		})
	})
	return total, err
}

// Walk visits all keys. The errors are those of package fault. Keys that end meanwhile, or whose slot moves, are left
// out.
func (s *KeySource) Walk(ctx context.Context, v keyspace.Visitor) error {
	return s.pages(ctx, v.Wait, func(ctx context.Context, node rueidis.Client, names []string) error {
		keys, err := s.look(ctx, node, names, v)
		if err == nil {
			v.Visit(keys, page)
		}
		return err
	})
}

// pages calls do with the names of all keys, in pages, and with the node that has them. It calls wait before each.
func (s *KeySource) pages(ctx context.Context, wait func(ctx context.Context, keys int) error,
	do func(ctx context.Context, node rueidis.Client, names []string) error) error {
	pattern := redis.Literal(s.conn.Prefix()) + "*"
	return s.eachPrimary(ctx, func(node rueidis.Client) error {
		for cursor := uint64(0); ; {
			if err := wait(ctx, page); err != nil {
				return err
			}
			var found rueidis.ScanEntry
			err := s.conn.Retry(ctx, "scan", func(ctx context.Context) (err error) {
				found, err = node.Do(ctx,
					node.B().Scan().Cursor(cursor).Match(pattern).Count(page).Build()).AsScanEntry()
				return err
			})
			if err != nil {
				return err
			}
			if err := do(ctx, node, found.Elements); err != nil {
				return err
			}
			if cursor = found.Cursor; cursor == 0 {
				return nil
			}
		}
	})
}

// eachPrimary calls do with each primary. The client of a Cluster shows the replicas that are in sync, too.
func (s *KeySource) eachPrimary(ctx context.Context, do func(rueidis.Client) error) error {
	client := s.conn.Client()
	for _, node := range client.Nodes() {
		if client.Mode() == rueidis.ClientModeCluster {
			replica, err := s.isReplica(ctx, node)
			if err != nil {
				return err
			}
			if replica {
				continue
			}
		}
		if err := do(node); err != nil {
			return err
		}
	}
	return nil
}

func (s *KeySource) isReplica(ctx context.Context, node rueidis.Client) (replica bool, err error) {
	err = s.conn.Retry(ctx, "ask for the role", func(ctx context.Context) error {
		fields, err := topology.ReadInfo(ctx, node, "replication")
		replica = fields.IsReplica()
		return err
	})
	return replica, err
}

// look reads the properties of the keys of interest in a page.
func (s *KeySource) look(ctx context.Context, node rueidis.Client, names []string, v keyspace.Visitor) ([]keyspace.Key,
	error) {
	var keys []keyspace.Key
	var commands []rueidis.Completed
	var measured []bool
	for _, name := range names {
		short := strings.TrimPrefix(name, s.conn.Prefix())
		wanted, measure := v.Wants(short)
		if !wanted {
			continue
		}
		keys, measured = append(keys, keyspace.Key{Name: short}), append(measured, measure)
		commands = append(commands, node.B().Type().Key(name).Build(), node.B().Pttl().Key(name).Build())
		if measure {
			commands = append(commands, node.B().MemoryUsage().Key(name).Build())
		}
	}
	if len(commands) == 0 {
		return nil, nil
	}
	for i := range commands {
		commands[i] = commands[i].Pin() // a retry sends them again
	}
	var found []keyspace.Key
	err := s.conn.Retry(ctx, "look at keys", func(ctx context.Context) (err error) {
		found, err = decode(keys, measured, node.DoMulti(ctx, commands...))
		return err
	})
	return found, err
}

// decode returns the keys that are still there.
func decode(keys []keyspace.Key, measured []bool, replies []rueidis.RedisResult) ([]keyspace.Key, error) {
	found := make([]keyspace.Key, 0, len(keys))
	for i, key := range keys {
		of, err := replies[0].ToString()
		ttl, errTTL := replies[1].AsInt64()
		if err = errors.Join(err, errTTL); err == nil && measured[i] {
			key.Bytes, _ = replies[2].AsInt64() // the user may lack the right, and the key may have expired
		}
		replies = replies[2:]
		if measured[i] {
			replies = replies[1:]
		}
		switch {
		case refusal.Is(err, refusal.Moved, refusal.Ask):
			continue
		case err != nil:
			return nil, err
		case of == "none" || ttl == noKey:
			continue
		}
		key.Type, key.TTL = records.Type(of), time.Duration(ttl)*time.Millisecond
		found = append(found, key)
	}
	return found, nil
}

// noKey is the reply of PTTL for a missing key. -1 means that the key has no TTL.
const noKey = -2
