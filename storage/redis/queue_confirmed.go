package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// What must be on replicas before it counts is done on a connection of its own, since WAIT counts only the writes of its
// connection, and would hold up what others send on the shared one. A whole batch is waited for once. Where a repeat
// writes nothing, because the first try has done it all, the end of the outbox is moved.

// runConfirmed runs a script that writes also when it is repeated, and returns once enough replicas have what it wrote, if
// the queues must wait for any.
func (q *Queues) runConfirmed(ctx context.Context, sc *lua.Script, keys, args []string) (reply, error) {
	if q.confirmations == 0 {
		return q.store.exec(ctx, sc, keys, args)
	}
	var r reply
	err := q.store.retry(ctx, sc.Name(), func(ctx context.Context) error {
		return q.store.bulk.Dedicated(func(c rueidis.DedicatedClient) error {
			a := pipelineOn(ctx, c, sc, []rueidis.LuaExec{{Keys: keys, Args: args}})[0]
			if r = a.reply; a.err != nil || r.status != statusOK {
				return a.err
			}
			return q.store.awaitReplicas(ctx, c, q.confirmations)
		})
	})
	return r, err
}

// touched runs commands that write something as it is, and waits for replicas.
func (q *Queues) touched(ctx context.Context, c rueidis.DedicatedClient, commands ...rueidis.Completed) error {
	for _, result := range c.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	return q.store.awaitReplicas(ctx, c, q.confirmations)
}

// outboxLife is how long the outbox lives after its last entry, as assign.lua has it.
const outboxLife = 24 * time.Hour

// prolongOutbox makes a command that lets the outbox live on: a write that comes after those of its entries.
func (q *Queues) prolongOutbox(c rueidis.DedicatedClient, queue string) rueidis.Completed {
	return c.B().Pexpire().Key(q.keys(queue).outbox()).Milliseconds(outboxLife.Milliseconds()).Build()
}

// assignAll runs assign.lua for some matches. Where replicas don't confirm them in time it isn't known of any match
// whether it is assigned for good.
func (q *Queues) assignAll(ctx context.Context, r matchmaking.AssignRequest, calls []rueidis.LuaExec) []answer {
	if q.confirmations == 0 {
		return q.store.pipeline(ctx, assignScript, calls)
	}
	var answers []answer
	err := q.store.bulk.Dedicated(func(c rueidis.DedicatedClient) error {
		answers = pipelineOn(ctx, c, assignScript, calls)
		made, again := false, []rueidis.Completed{}
		for _, a := range answers {
			made = made || a.err == nil && a.reply.status != statusConflict
			if a.err == nil && a.reply.status == statusExists && len(again) == 0 {
				again = append(again, q.prolongOutbox(c, r.Queue))
			}
		}
		if !made {
			return nil
		}
		return unconfirmed(q.touched(ctx, c, again...))
	})
	if err == nil {
		return answers
	}
	unknown := make([]answer, len(calls))
	for i := range unknown {
		unknown[i].err = err
		if i < len(answers) && answers[i].err == nil && answers[i].reply.status == statusConflict {
			unknown[i] = answers[i]
		}
	}
	return unknown
}

// unconfirmed returns the error of waiting for replicas so that it isn't taken for one of the scripts, which have run.
func unconfirmed(err error) error {
	if is := (*fault.Error)(nil); err == nil || transient(err) || errors.As(err, &is) {
		return err
	}
	return &fault.Error{
		Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, RetryAfter: retryAfter,
		Detail: "what was written is stored, but it isn't known whether replicas have it: " + err.Error(),
	}
}

// pipelineOn is pipeline on one connection.
func pipelineOn(ctx context.Context, c rueidis.DedicatedClient, sc *lua.Script, calls []rueidis.LuaExec) []answer {
	commands := make(rueidis.Commands, len(calls))
	for i, l := range calls {
		commands[i] = sc.Evalsha(c.B(), l.Keys, l.Args)
	}
	results, answers := c.DoMulti(ctx, commands...), make([]answer, len(calls))
	for i, l := range calls {
		result := results[i]
		if code(result.Error()) == "NOSCRIPT" {
			result = c.Do(ctx, sc.Eval(c.B(), l.Keys, l.Args))
		}
		answers[i] = newAnswer(sc.Name(), result)
	}
	return answers
}

// asTold returns the error of an answer as it is told: one that is a *fault.Error already, or what it means.
func asTold(err error) error {
	if is := (*fault.Error)(nil); errors.As(err, &is) {
		return err
	}
	return outcome(err)
}
