package channels

import (
	"context"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var ackScript = lua.Must("channels/ack")

// Ack runs ack.lua.
func (s *Store) Ack(ctx context.Context, r channel.AckRequest) error {
	ch := s.keys(r.Receipt.Channel)
	args := append(receiptArgs(r.Receipt), ttlMillis(r.Policy), strconv.Itoa(r.Policy.MaxMessages))
	rep, err := s.conn.Run(ctx, ackScript, ackKeys(ch, r.Receipt), args)
	if err != nil {
		return err
	}
	return refusals.Check(rep, redis.OK, statusStale)
}

func ackKeys(ch Keys, r receipt.Receipt) []string {
	keys := append(ch.ForSubscriber(r.Subscriber), ch.Message(r.Clock))
	if r.MessageID != "" {
		keys = append(keys, ch.MessageID(r.MessageID))
	}
	return keys
}

func receiptArgs(r receipt.Receipt) []string {
	return append(make([]string, 0, 10), r.Clock.String(), r.Epoch.String(), r.MessageID)
}
