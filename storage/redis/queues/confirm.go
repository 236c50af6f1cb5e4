package queues

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

const (
	// matchedLife is the life of the stream of matches after its last entry, as in assign.lua.
	matchedLife = 24 * time.Hour
	// readPatience limits readStates, which waits for replicas for half of it.
	readPatience = 500 * time.Millisecond
	// readsAtOnce is the number of reads of a queue that share one wait for replicas.
	readsAtOnce = 100
)

// confirmer runs scripts whose writes count only after enough replicas have confirmed them, and reads others' writes
// only after that. Both run in a session, together with the commands that wait for the replicas. It may be used by many
// goroutines.
type confirmer struct {
	conn     *redis.Conn
	replicas int
	reads    *group.Group[string, redis.Call, redis.Reply]
}

// newConfirmer returns a confirmer that waits for the given number of replicas. It must be closed.
func newConfirmer(conn *redis.Conn, replicas int) *confirmer {
	c := &confirmer{conn: conn, replicas: replicas}
	c.reads = group.New(group.Options[string, redis.Call, redis.Reply]{
		Run: c.readAll, Calls: 1, Size: func(redis.Call) int { return 1 }, Items: readsAtOnce, Bytes: readsAtOnce,
		Limit: conn.Timeout(),
	})
	return c
}

// close ends the reads in progress.
func (c *confirmer) close() { c.reads.Close() }

// run runs a script that writes also when it is repeated, and returns once enough replicas have its writes, or at once
// if it refused.
func (c *confirmer) run(ctx context.Context, script *lua.Script, keys, args []string) (redis.Reply, error) {
	var r redis.Reply
	err := c.conn.Retry(ctx, script.Name(), func(ctx context.Context) error {
		return c.conn.Session(ctx, keys[0], func(own *redis.Session) (err error) {
			if r, err = own.Run(ctx, script, keys, args); err != nil || r.Status != redis.OK {
				return err
			}
			return own.Confirm(ctx, c.replicas)
		})
	})
	return r, err
}

// statuses are the statuses of a script for a call without writes that count.
type statuses struct {
	Repeated redis.Status // an earlier call did it
	Refused  redis.Status
}

// runMany returns a function like Conn.RunMany for calls of one queue, which also fail if too few replicas have their
// writes. It waits once for the whole batch.
func (c *confirmer) runMany(matched string, none statuses) func(context.Context, *lua.Script,
	[]redis.Call) []redis.Result {
	return func(ctx context.Context, script *lua.Script, calls []redis.Call) []redis.Result {
		return c.conn.RetryMany(ctx, script, calls, func(ctx context.Context, calls []redis.Call) []redis.Result {
			var results []redis.Result
			err := c.conn.Session(ctx, matched, func(own *redis.Session) error {
				results = own.RunMany(ctx, script, calls)
				changed, repeated := false, false
				for _, r := range results {
					changed = changed || r.Err == nil && r.Reply.Status != none.Refused
					repeated = repeated || r.Err == nil && r.Reply.Status == none.Repeated
				}
				switch {
				case repeated:
					return own.Confirm(ctx, c.replicas, touch(own, matched))
				case changed:
					return own.Confirm(ctx, c.replicas)
				}
				return nil
			})
			if err == nil {
				return results
			}
			return unknown(results, len(calls), err)
		})
	}
}

// unknown returns the results of n calls that replicas didn't confirm in time: err for all, with the replies.
// Assignments in a reply may still be lost; refusals are certain.
func unknown(results []redis.Result, n int, err error) []redis.Result {
	all := make([]redis.Result, n)
	copy(all, results)
	for i := range all {
		all[i].Err = err
	}
	return all
}

// touch returns a command that extends the life of a queue's stream of matches: a write after all earlier assignments.
func touch(own *redis.Session, matched string) rueidis.Completed {
	return own.B().Pexpire().Key(matched).Milliseconds(matchedLife.Milliseconds()).Build()
}

// written returns once enough replicas have all assignments of a queue with the given stream of matches.
func (c *confirmer) written(ctx context.Context, matched string) error {
	return c.conn.Retry(ctx, "written", func(ctx context.Context) error {
		return c.conn.Session(ctx, matched, func(own *redis.Session) error {
			return own.Confirm(ctx, c.replicas, touch(own, matched))
		})
	})
}

// readStates runs states.lua for the queue with this stream of matches, and returns its reply once enough replicas have
// the data. It waits for less time than writes do. Concurrent reads of a queue wait together.
func (c *confirmer) readStates(ctx context.Context, matched string, call redis.Call) (redis.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	var r redis.Reply
	err := c.conn.Retry(ctx, statesScript.Name(), func(ctx context.Context) (err error) {
		if r, err = c.reads.Do(ctx, matched, call); errors.Is(err, group.ErrClosed) {
			return fault.ErrUnavailable.WithCause(err)
		}
		return err
	})
	return r, err
}

func (c *confirmer) readAll(ctx context.Context, matched string, calls []redis.Call) ([]redis.Reply, time.Duration,
	error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	replies := make([]redis.Reply, len(calls))
	err := c.conn.Session(ctx, matched, func(own *redis.Session) error {
		for i, r := range own.RunMany(ctx, statesScript, calls) {
			if r.Err != nil {
				return r.Err
			}
			replies[i] = r.Reply
		}
		return own.Confirm(ctx, c.replicas, touch(own, matched))
	})
	return replies, 0, err
}
