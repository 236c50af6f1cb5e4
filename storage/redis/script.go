package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// Call is the keys and arguments of one call of a script.
type Call struct {
	Keys, Args []string
}

// Result is the outcome of one call: a reply or an error.
type Result struct {
	Reply Reply
	Err   error
}

// ErrMoving reports that a script could not run because its slot is being moved. Only RunUnlessMoving and Try return
// it.
var ErrMoving = errors.New("the slot is being moved")

// Run runs a script, which must be safe to run twice, and tries again after errors that may pass. A script that returns
// AGAIN is called again at once. While its slot is being moved it is tried again.
func (c *Conn) Run(ctx context.Context, script *lua.Script, keys, args []string) (Reply, error) {
	var r Reply
	err := c.Retry(ctx, script.Name(), func(ctx context.Context) (err error) {
		r, err = c.Try(ctx, script, keys, args)
		return err
	})
	return r, err
}

// Try runs a script without trying again after errors: call it inside Retry.
func (c *Conn) Try(ctx context.Context, script *lua.Script, keys, args []string) (Reply, error) {
	for {
		c.metrics.sent(script.Name(), 1)
		r, err := NewReply(script.Name(), script.Exec(ctx, c.At(ctx, c.client, keys[0]), keys, args))
		switch {
		case err != nil:
			return Reply{}, err
		case r.Status == Moving:
			return r, ErrMoving
		case r.Status != Again:
			return r, nil
		}
	}
}

// RunUnlessMoving is Run, except that it returns ErrMoving at once while the script's slot is being moved.
func (c *Conn) RunUnlessMoving(ctx context.Context, script *lua.Script, keys, args []string) (Reply, error) {
	var r Reply
	err := c.Retry(ctx, script.Name(), func(ctx context.Context) (err error) {
		if r, err = c.Try(ctx, script, keys, args); errors.Is(err, ErrMoving) || refusal.Is(err, refusal.TryAgain) {
			r, err = Reply{Status: Moving}, nil
		}
		return err
	})
	if err == nil && r.Status == Moving {
		return Reply{}, ErrMoving
	}
	return r, err
}

// RunMany runs a script once for each call, all in one round trip, and returns the results in the same order. Calls
// that failed with errors that may pass are tried again together, and those that return AGAIN at once. The calls must
// be independent of each other; they may be for different slots.
func (c *Conn) RunMany(ctx context.Context, script *lua.Script, calls []Call) []Result {
	return c.RetryMany(ctx, script, calls, func(ctx context.Context, calls []Call) []Result {
		return c.TryEach(ctx, script, calls)
	})
}

// TryEach is RunMany without trying again after errors: call it inside RetryEach or RetryMany.
func (c *Conn) TryEach(ctx context.Context, script *lua.Script, calls []Call) []Result {
	results, _ := c.TryMany(ctx, script, calls, nil)
	for i, r := range results {
		if status := r.Reply.Status; status == Again || status == Moving {
			results[i].Reply, results[i].Err = c.Try(ctx, script, calls[i].Keys, calls[i].Args)
		}
	}
	return results
}

// TryMany runs a script once for each call, and then commands whose first argument is a key, all in one round trip and
// without trying again: call it inside RetryEach or RetryMany. A reply may have the status Moving or Again. If Redis
// doesn't know the script, it runs after the commands.
func (c *Conn) TryMany(
	ctx context.Context, script *lua.Script, calls []Call, then rueidis.Commands,
) ([]Result, []rueidis.RedisResult) {
	commands := make(rueidis.Commands, len(calls), len(calls)+len(then))
	for i, l := range calls {
		commands[i] = script.Evalsha(c.client.B(), l.Keys, l.Args)
	}
	if len(calls) > 0 {
		c.metrics.sent(script.Name(), len(calls))
	}
	answers := c.Send(ctx, c.client, append(commands, then...))
	results := make([]Result, len(calls))
	for i, l := range calls {
		if refusal.Is(answers[i].Error(), refusal.NoScript) {
			answers[i] = script.Exec(ctx, c.At(ctx, c.client, l.Keys[0]), l.Keys, l.Args)
		}
		results[i].Reply, results[i].Err = NewReply(script.Name(), answers[i])
	}
	return results, answers[len(calls):]
}

// RetryMany calls try with all calls of a script, and then again with those whose results are errors that may pass. try
// returns a result for each call that it gets.
func (c *Conn) RetryMany(
	ctx context.Context, script *lua.Script, calls []Call, try func(context.Context, []Call) []Result,
) []Result {
	results := make([]Result, len(calls))
	errs := c.RetryEach(ctx, script.Name(), len(calls), func(ctx context.Context, pending []int) []error {
		some, errs := make([]Call, len(pending)), make([]error, len(pending))
		for i, at := range pending {
			some[i] = calls[at]
		}
		for i, r := range try(ctx, some) {
			results[pending[i]], errs[i] = r, r.Err
		}
		return errs
	})
	for i, err := range errs {
		results[i].Err = err
	}
	return results
}

// Milliseconds returns a duration as an argument of a script.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
