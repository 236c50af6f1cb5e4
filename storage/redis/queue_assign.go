package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// Assign runs assign.lua for each match, all in one pipeline. Those that failed for now are tried again together.
func (q *Queues) Assign(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	outcomes := make([]matchmaking.AssignOutcome, len(r.Matches))
	calls := make([]rueidis.LuaExec, len(r.Matches))
	open := make([]int, len(r.Matches)) // indices of the matches whose outcome isn't known
	for i, m := range r.Matches {
		open[i], calls[i] = i, q.assignCall(r, m)
	}
	if len(open) == 0 {
		return outcomes
	}
	err := q.store.retry(ctx, assignScript.Name(), func(ctx context.Context) error {
		some := make([]rueidis.LuaExec, len(open))
		for i, at := range open {
			some[i] = calls[at]
		}
		var again []int
		var failed error
		for i, answer := range q.assignAll(ctx, r, some) {
			at := open[i]
			if answer.err != nil && transient(answer.err) {
				again, failed = append(again, at), answer.err
				continue
			}
			outcomes[at] = assigned(answer)
		}
		open = again
		return failed
	})
	for _, at := range open {
		outcomes[at].Err = fmt.Errorf("assign match %s: %w", r.Matches[at].ID, err)
	}
	return outcomes
}

func (q *Queues) assignCall(r matchmaking.AssignRequest, m matchmaking.AssignMatch) rueidis.LuaExec {
	k := q.keys(r.Queue)
	c := rueidis.LuaExec{
		Keys: make([]string, 0, 8+2*len(m.Assignments)),
		Args: make([]string, 0, 3+4*len(m.Assignments)),
	}
	c.Keys = append(c.Keys, k.waiting(), k.expiries(), k.proposed(), k.claims(), k.outbox(), k.matched(), k.stats(), k.match(m.ID))
	c.Args = append(c.Args, m.ID, r.Token, milliseconds(r.Keep))
	for _, a := range m.Assignments {
		c.Keys = append(c.Keys, k.ticket(a.ID), k.assignment(a.ID))
		c.Args = append(c.Args, a.ID, createdText(a.Created), epochText(a.Epoch), string(a.Content))
	}
	return c
}

// mayPass reports whether an outcome is of the storage's state and not of what it was asked.
func mayPass(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrStorageFull)
}

// createdText returns when a ticket was made as scripts get it: empty for any time.
func createdText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatInt(at.UnixMicro(), 10)
}

// assigned decodes what assign.lua returns.
func assigned(a answer) matchmaking.AssignOutcome {
	if a.err != nil {
		err := asTold(a.err)
		if _, replied := errors.AsType[*rueidis.RedisError](a.err); replied && !mayPass(err) {
			err = fmt.Errorf("%w: %w", matchmaking.ErrNotAssigned, err)
		}
		return matchmaking.AssignOutcome{Err: fmt.Errorf("%s: %w", assignScript.Name(), err)}
	}
	var o matchmaking.AssignOutcome
	d := a.reply.decoder()
	switch a.reply.status {
	case statusOK:
		o.Entries = d.texts()
		for _, us := range d.numbers() {
			o.Waits = append(o.Waits, time.Duration(us)*time.Microsecond)
		}
	case statusConflict:
		list := d.list()
		for len(list.values) > 0 && list.err == nil {
			o.Conflicts = append(o.Conflicts, matchmaking.Conflict{ID: list.text(), Reason: list.reason()})
		}
		d.fail(list.err)
	case statusExists:
	default:
		return matchmaking.AssignOutcome{Err: a.reply.refusal()}
	}
	if err := d.end(); err != nil {
		return matchmaking.AssignOutcome{Err: err}
	}
	return o
}

func (d *decoder) reason() matchmaking.ConflictReason {
	reason := matchmaking.ConflictReason(d.text())
	switch reason {
	case matchmaking.ConflictGone, matchmaking.ConflictClaim:
	default:
		d.fail(fmt.Errorf("reason %q", reason))
	}
	return reason
}

func (d *decoder) numbers() []int64 {
	list := d.list()
	var found []int64
	for len(list.values) > 0 && list.err == nil {
		found = append(found, list.int64())
	}
	d.fail(list.err)
	return found
}

// answer is what became of one call of a pipeline.
type answer struct {
	reply reply
	err   error
}

// pipeline runs a script several times in one round trip. A node that doesn't know the script gets it with the first
// call that it refused for that; the others follow one by one.
func (s *Store) pipeline(ctx context.Context, sc *lua.Script, calls []rueidis.LuaExec) []answer {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = sc.Evalsha(s.client.B(), c.Keys, c.Args)
	}
	answers := make([]answer, len(calls))
	for i, result := range s.client.DoMulti(ctx, commands...) {
		if unknown, ok := errors.AsType[*rueidis.RedisError](result.Error()); ok && unknown.IsNoScript() {
			result = sc.Exec(ctx, s.client, calls[i].Keys, calls[i].Args)
		}
		answers[i] = newAnswer(sc.Name(), result)
	}
	return answers
}

func newAnswer(script string, result rueidis.RedisResult) answer {
	values, err := result.ToArray()
	if err != nil {
		return answer{err: err}
	}
	r, err := newReply(script, values)
	return answer{reply: r, err: err}
}
