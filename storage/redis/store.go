package redis

import (
	"context"

	"github.com/tidemark-dev/tidemark/channel"
)

// Store keeps channels in Redis. It may be used by many goroutines.
type Store struct {
	*Conn
	keys        keyspace
	notifyBytes int
}

var _ channel.Store = (*Store)(nil)

// Open is Connect, and returns the channels in that Redis.
func Open(ctx context.Context, o Options) (*Store, error) {
	c, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	return &Store{Conn: c, keys: keyspace{prefix: o.KeyPrefix}, notifyBytes: o.NotifyBytes}, nil
}

func (s *Store) channel(name string) channelKeys { return s.keys.channel(name) }
