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
	args := append(receiptArgs(&r.Receipt, r.Policy), ttlMillis(r.Policy), strconv.Itoa(r.Policy.MaxMessages))
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

// receiptArgs returns the arguments of a receipt or a position. Its message's life ends with the dedup record's, by
// which scripts recognize one that was trimmed: a policy that has changed since makes the receipt unknown.
func receiptArgs(r *receipt.Receipt, p channel.Policy) []string {
	ends := ""
	if !r.PublishedAt.IsZero() {
		ends = strconv.FormatInt(r.PublishedAt.Add(p.TTL).UnixMilli(), 10)
	}
	return append(make([]string, 0, 12), r.Clock.String(), r.Epoch.String(), r.MessageID, r.Write.String(), ends)
}
