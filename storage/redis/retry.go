package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// retryAfter is what a client is told to wait before it tries again: about as long as a fail-over takes.
const retryAfter = time.Second

func newBackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 4 * time.Millisecond
	b.MaxInterval = 250 * time.Millisecond
	b.Multiplier = 2
	return b
}

// exec runs a script and gives its reply, of which the first element is a status.
func (s *Store) exec(ctx context.Context, sc *lua.Script, keys, args []string) (reply, error) {
	var r reply
	err := s.retry(ctx, sc.Name(), func(ctx context.Context) (err error) {
		r, err = s.try(ctx, sc, keys, args)
		return err
	})
	return r, err
}

// try runs a script once, or until it has removed all marks of an earlier life of its channel, some at each call.
func (s *Store) try(ctx context.Context, sc *lua.Script, keys, args []string) (reply, error) {
	for {
		values, err := sc.Exec(ctx, s.client, keys, args).ToArray()
		if err != nil {
			return reply{}, err
		}
		r, err := newReply(sc.Name(), values)
		switch {
		case err == nil && r.status == statusAgain:
			continue
		case err == nil && r.status == statusMoving:
			err = errMoving
		}
		return r, err
	}
}

// retry calls op until it succeeds, fails for good, or the time for it is over. Every operation of the store is
// safe to repeat. It returns an *fault.Error, or ctx's error where the caller has gone away.
func (s *Store) retry(ctx context.Context, name string, op func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := op(limited)
	if err == nil {
		return nil
	}
	return s.again(ctx, limited, failure{name: name, op: op, err: err})
}

// failure is an operation that failed once.
type failure struct {
	name string
	op   func(context.Context) error
	err  error
}

// again is what retry does after a first failure. It is apart because it needs much of the stack, and most calls of retry
// are made by requests that keep theirs while they wait.
func (s *Store) again(ctx, limited context.Context, f failure) error {
	wait, err := newBackOff(), f.err
	for transient(err) && limited.Err() == nil && !s.closed.Load() {
		delay := wait.NextBackOff()
		if deadline, ok := limited.Deadline(); ok && time.Until(deadline) <= delay {
			break
		}
		s.metrics.retried(code(err))
		select {
		case <-limited.Done():
		case <-time.After(delay):
			last := err
			if err = f.op(limited); err == nil {
				return nil
			}
			if limited.Err() != nil {
				err = fmt.Errorf("%w; then: %w", last, err)
			}
		}
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", f.name, ctx.Err())
	}
	if told := (*fault.Error)(nil); errors.As(err, &told) {
		return err
	}
	s.metrics.failed(code(err))
	return fmt.Errorf("%s: %w", f.name, outcome(err))
}

// errMoving is a script's word that its channel's slot is half moved.
var errMoving = errors.New("the channel's slot is being moved")

// code is the first word of a Redis error, which names it; codeNetwork for an error of the connection.
func code(err error) string {
	if errors.Is(err, errMoving) {
		return "MOVING"
	}
	var e *rueidis.RedisError
	if errors.As(err, &e) {
		return firstWord(e.Error())
	}
	if errors.Is(err, errReply) {
		return "reply"
	}
	return codeNetwork
}

// firstWord returns the code of an error's text. Redis has no code but ERR, which the client cuts off, for some errors:
// firstWord recognizes these by their text. One is a script whose user lacks a right: Redis 7.0 says "The user executing
// the script can't", later versions and Valkey "ACL failure in script".
func firstWord(text string) string {
	switch {
	case strings.HasPrefix(text, "max number of clients"):
		return codeMaxClients
	case strings.HasPrefix(text, "The user executing the script can't"), strings.HasPrefix(text, "ACL failure in script:"):
		return codeNoPermission
	case strings.HasPrefix(text, "WAIT cannot be used with replica"):
		return codeReadOnly
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}

const (
	codeMaxClients   = "MAXCLIENTS"
	codeNetwork      = "network"
	codeNoPermission = "NOPERM"
	codeReadOnly     = "READONLY"
	codeTryAgain     = "TRYAGAIN" // a slot is half moved
)

// transient tells whether the same call may succeed a little later.
func transient(err error) bool {
	switch code(err) {
	case "MOVING", codeTryAgain, "CLUSTERDOWN", "LOADING", codeReadOnly, "MASTERDOWN", "NOREPLICAS", "BUSY", "MOVED", "ASK",
		"UNBLOCKED", codeMaxClients:
		return true
	case codeNetwork:
		return !permanent(err)
	default:
		return false
	}
}

// permanent tells whether an error that isn't Redis's stays, however often the call is repeated. ErrClosing isn't
// one: a cluster or Sentinel client closes the connections to nodes that it leaves.
func permanent(err error) bool {
	var told *fault.Error
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &told) || errors.As(err, &certificate) || errors.Is(err, ErrTooOld) ||
		errors.Is(err, Err32Bit) || errors.Is(err, context.Canceled)
}

// outcome is what an error of Redis means to whoever asked.
func outcome(err error) error {
	switch c := code(err); {
	case c == "OOM":
		return fault.ErrStorageFull.WithCause(err)
	case transient(err), c == codeNetwork, c == "MISCONF", c == "NOAUTH", c == "WRONGPASS", c == codeNoPermission:
		unavailable := fault.ErrUnavailable.WithCause(err)
		unavailable.RetryAfter = retryAfter
		return unavailable
	default:
		return &fault.Error{
			Kind: fault.Internal, Slug: fault.SlugInternal,
			Detail: "the storage gave an answer that wasn't expected", Cause: err,
		}
	}
}
