package channels

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var announceScript = lua.Must("channels/announce")

// Announcement has the configuration of a server, for the other servers on its Redis.
type Announcement struct {
	Server        string // a ULID
	Configuration string
	Life          time.Duration // how long the announcement lasts; 0: it is withdrawn
}

// CountAnnouncements returns how many servers have announced their configuration, and may be running. One that was
// killed counts for a while. Errors: ErrUnavailable.
func (s *Store) CountAnnouncements(ctx context.Context) (n int, err error) {
	name := configurationsKey(s.conn.Prefix())
	err = s.conn.Retry(ctx, "configurations", func(ctx context.Context) error {
		found, err := s.conn.Client().Do(ctx, s.conn.Client().B().Hlen().Key(name).Build()).AsInt64()
		n = int(found)
		return err
	})
	return n, err
}

// Announced is the announcement of another server.
type Announced struct {
	Configuration string
	Ends          time.Time // unless it is announced again, by the clock of Redis
}

// Announce replaces the announcement of a server, and returns those of the other servers, and the time of Redis.
// Errors: ErrUnavailable and ErrStorageFull.
func (s *Store) Announce(ctx context.Context, a Announcement) (others []Announced, now time.Time, err error) {
	keys := []string{configurationsKey(s.conn.Prefix())}
	args := []string{a.Server, a.Configuration, redis.Milliseconds(a.Life)}
	reply, err := s.conn.Run(ctx, announceScript, keys, args)
	if err != nil {
		return nil, now, err
	}
	if reply.Status != redis.OK {
		return nil, now, refusals.Error(reply)
	}
	d := reply.Decoder()
	configurations, ends := d.Texts(), d.List()
	for _, text := range configurations {
		others = append(others, Announced{Configuration: text, Ends: ends.Millis()})
	}
	now = d.Millis()
	return others, now, errors.Join(ends.End(), d.End())
}
