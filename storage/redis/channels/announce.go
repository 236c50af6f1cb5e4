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
