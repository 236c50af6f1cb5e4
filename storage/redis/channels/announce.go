package channels

import (
	"context"
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

// Announce replaces the announcement of a server, and returns the configurations that the other servers announce.
// Errors: ErrUnavailable and ErrStorageFull.
func (s *Store) Announce(ctx context.Context, a Announcement) ([]string, error) {
	keys := []string{configurationsKey(s.conn.Prefix())}
	args := []string{a.Server, a.Configuration, redis.Milliseconds(a.Life)}
	reply, err := s.conn.Run(ctx, announceScript, keys, args)
	if err != nil {
		return nil, err
	}
	if reply.Status != redis.OK {
		return nil, refusals.Error(reply)
	}
	d := reply.Decoder()
	others := d.Texts()
	return others, d.End()
}
