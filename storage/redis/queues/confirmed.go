package queues

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// What must be on replicas before it counts runs in a session, and a whole batch is waited for once. If a repeat writes
// nothing, because the first try has done everything, the end of the outbox's life is moved.

// runConfirmed runs a script that writes also when it is repeated, and returns once enough replicas have what it wrote, if
// the queues must wait for any.
func (s *Store) runConfirmed(ctx context.Context, script *lua.Script, keys, args []string) (redis.Reply, error) {
	if s.confirmations == 0 {
		return s.conn.Run(ctx, script, keys, args)
	}
	var r redis.Reply
	err := s.conn.Retry(ctx, script.Name(), func(ctx context.Context) error {
		return s.conn.Session(func(own *redis.Session) (err error) {
			if r, err = own.Run(ctx, script, keys, args); err != nil || r.Status != redis.OK {
				return err
			}
			return own.Confirm(ctx, s.confirmations)
		})
	})
	return r, err
}

// outboxLife is how long the outbox lives after its last entry, as in assign.lua.
const outboxLife = 24 * time.Hour

// prolongOutbox returns a command that sets the end of the outbox's life: a write that comes after those of its entries.
func (s *Store) prolongOutbox(b rueidis.Builder, queue string) rueidis.Completed {
	return b.Pexpire().Key(s.keys(queue).outbox()).Milliseconds(outboxLife.Milliseconds()).Build()
}

// runManyConfirmed returns a function like Conn.RunMany for the assignments of a queue, whose calls also fail if too few
// replicas have what they wrote.
func (s *Store) runManyConfirmed(queue string) func(context.Context, *lua.Script, []redis.Call) []redis.Result {
	return func(ctx context.Context, script *lua.Script, calls []redis.Call) []redis.Result {
		return s.conn.RetryMany(ctx, script, calls, func(ctx context.Context, calls []redis.Call) []redis.Result {
			var results []redis.Result
			err := s.conn.Session(func(own *redis.Session) error {
				results = own.RunMany(ctx, script, calls)
				return s.confirm(ctx, own, queue, results)
			})
			if err == nil {
				return results
			}
			return unknown(results, len(calls), err)
		})
	}
}

// confirm waits until enough replicas have the matches that the calls of a session assigned.
func (s *Store) confirm(ctx context.Context, own *redis.Session, queue string, results []redis.Result) error {
	made := false
	var touch []rueidis.Completed
	for _, r := range results {
		made = made || r.Err == nil && r.Reply.Status != statusConflict
		if r.Err == nil && r.Reply.Status == statusExists && touch == nil {
			touch = append(touch, s.prolongOutbox(own.B(), queue))
		}
	}
	if !made {
		return nil
	}
	return own.Confirm(ctx, s.confirmations, touch...)
}

// unknown returns the results of n calls if replicas didn't confirm them in time: err for all, with the replies. What a reply
// says was assigned isn't known to be assigned for good; what it refuses is.
func unknown(results []redis.Result, n int, err error) []redis.Result {
	all := make([]redis.Result, n)
	copy(all, results)
	for i := range all {
		all[i].Err = err
	}
	return all
}
