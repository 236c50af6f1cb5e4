package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
)

// tryReplicated publishes once, on a connection of its own, since WAIT counts only the writes of its connection, and
// answers when as many replicas as the policy asks for have what was written. A repeat finds the dedup records and waits
// again. With an error it returns the script's reply too, where there was one.
func (s *Store) tryReplicated(ctx context.Context, keys, args []string, replicas int) (reply, error) {
	var r reply
	err := s.bulk.Dedicated(func(c rueidis.DedicatedClient) error {
		var err error
		for r.status = statusAgain; r.status == statusAgain; {
			if r, err = s.publishOn(ctx, c, keys, args); err != nil {
				return err
			}
		}
		if r.status != statusOK {
			return nil
		}
		return s.awaitReplicas(ctx, c, replicas)
	})
	return r, err
}

func (s *Store) publishOn(ctx context.Context, c rueidis.DedicatedClient, keys, args []string) (reply, error) {
	a := pipelineOn(ctx, c, publishScript, []rueidis.LuaExec{{Keys: keys, Args: args}})[0]
	r, err := a.reply, a.err
	if err == nil && r.status == statusMoving {
		return reply{}, errMoving
	}
	if err == nil && r.status == statusOK {
		err = touch(ctx, c, keys[len(keys)-1], r)
	}
	return r, err
}

// touch writes the last message's dedup record once more, as it is. Where all messages were duplicates the
// connection hasn't written anything, and WAIT would wait for nothing.
func touch(ctx context.Context, c rueidis.DedicatedClient, record string, r reply) error {
	if len(r.values) < 2 {
		return nil
	}
	at, err := r.values[len(r.values)-2].ToString()
	if err != nil {
		return fmt.Errorf("%w: %s: clock: %w", errReply, r.script, err)
	}
	err = c.Do(ctx, c.B().Set().Key(record).Value(at).Xx().Keepttl().Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

func (s *Store) awaitReplicas(ctx context.Context, c rueidis.DedicatedClient, replicas int) error {
	limit := s.timeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/2)
	}
	wait := c.B().Wait().Numreplicas(int64(replicas)).Timeout(max(1, limit.Milliseconds())).Build()
	have, err := c.Do(ctx, wait).AsInt64()
	if err != nil {
		return err
	}
	if have < int64(replicas) {
		return &fault.Error{
			Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, RetryAfter: retryAfter,
			Detail: "what was written is stored, but only " + strconv.FormatInt(have, 10) + " of " + strconv.Itoa(replicas) +
				" replicas confirmed it; the same request, with the same ID, is safe",
		}
	}
	return nil
}
