package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// Session is a connection that one caller has for itself. A write that must be on replicas before it counts needs one:
// WAIT covers only the writes of its own connection, and would delay the other requests of a shared one.
type Session struct {
	conn   *Conn
	client rueidis.DedicatedClient
}

// Session calls use with a session for commands with the slot of a key, which ends when use returns, and returns the
// error of use. It doesn't retry: call it inside Retry or RetryMany.
func (c *Conn) Session(ctx context.Context, key string, use func(*Session) error) error {
	return c.At(ctx, c.bulk, key).Dedicated(func(client rueidis.DedicatedClient) error {
		return use(&Session{conn: c, client: client})
	})
}

// Run runs a script once, or as long as it returns AGAIN. Errors: ErrMoving.
func (s *Session) Run(ctx context.Context, script *lua.Script, keys, args []string) (Reply, error) {
	for {
		r := s.RunMany(ctx, script, []Call{{Keys: keys, Args: args}})[0]
		switch {
		case r.Err != nil:
			return Reply{}, r.Err
		case r.Reply.Status == Moving:
			return Reply{}, ErrMoving
		case r.Reply.Status != Again:
			return r.Reply, nil
		}
	}
}

// RunMany runs a script once for each call, all in one round trip.
func (s *Session) RunMany(ctx context.Context, script *lua.Script, calls []Call) []Result {
	commands := make(rueidis.Commands, len(calls))
	for i, l := range calls {
		commands[i] = script.Evalsha(s.client.B(), l.Keys, l.Args)
	}
	s.conn.metrics.sent(script.Name(), len(calls))
	answers, results := s.client.DoMulti(ctx, commands...), make([]Result, len(calls))
	for i, l := range calls {
		answer := answers[i]
		if refusal.Is(answer.Error(), refusal.NoScript) {
			answer = s.client.Do(ctx, script.Eval(s.client.B(), l.Keys, l.Args))
		}
		results[i].Reply, results[i].Err = NewReply(script.Name(), answer)
	}
	return results
}

// B returns a builder of commands for Confirm.
func (s *Session) B() rueidis.Builder { return s.client.B() }

// Confirm waits until the given number of replicas has the session's last write, for at most half of the remaining
// time. If the session wrote nothing, Confirm needs commands that write something without effect, which it runs first:
// otherwise WAIT would not wait. Errors: one of slug not-replicated, if too few replicas have it by then.
func (s *Session) Confirm(ctx context.Context, replicas int, touch ...rueidis.Completed) error {
	err := s.touch(ctx, touch)
	if err == nil {
		err = s.awaitReplicas(ctx, replicas)
	}
	if err == nil || transient(err) || isFault(err) {
		return err
	}
	return notReplicated("it isn't known whether replicas have it: " + err.Error())
}

func (s *Session) touch(ctx context.Context, commands []rueidis.Completed) error {
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	return nil
}

func (s *Session) awaitReplicas(ctx context.Context, replicas int) error {
	limit := s.conn.timeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/2)
	}
	wait := s.client.B().Wait().Numreplicas(int64(replicas)).Timeout(max(1, limit.Milliseconds())).Build()
	have, err := s.client.Do(ctx, wait).AsInt64()
	if err != nil {
		return err
	}
	if have < int64(replicas) {
		return notReplicated("only " + strconv.FormatInt(have, 10) + " of " + strconv.Itoa(replicas) +
			" replicas confirmed it; the same request, with the same ID, is safe")
	}
	return nil
}

// notReplicated returns the error for a write that is stored, but that too few replicas are known to have.
func notReplicated(why string) error {
	return &fault.Error{
		Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, RetryAfter: refusal.RetryAfter,
		Detail: "what was written is stored, but " + why,
	}
}
