package records

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/records/sessions"
)

// Find implements sessions.Store. Both keys are read in one round trip; they have different slots.
func (s *Sessions) Find(ctx context.Context, l sessions.Legacy) (found sessions.Found, err error) {
	c := s.conn.Client()
	err = s.conn.Retry(ctx, "find a session of the source", func(ctx context.Context) error {
		replies := c.DoMulti(ctx, c.B().Hgetall().Key(s.keys.source(l)).Build(),
			c.B().Exists().Key(s.keys.legacy(l)).Build())
		fields, err := replies[0].AsStrMap()
		if err != nil {
			return err
		}
		there, err := replies[1].AsBool()
		switch {
		case err != nil:
			return err
		case fields[fieldUser] == l.User:
			found = foundOf(fields)
		case !there:
			return sessions.ErrNotFound
		}
		return nil
	})
	return found, err
}

// foundOf returns the data in the fields of the source's key.
func foundOf(fields map[string]string) sessions.Found {
	var found sessions.Found
	if at, err := strconv.ParseInt(fields[fieldCreated], 10, 64); err == nil {
		found.Created = time.Unix(at, 0)
	}
	if text := fields[fieldDevice]; text != "" {
		found.Device = json.RawMessage(text)
	}
	if text := fields[fieldAuth]; text != "" {
		found.AuthData = json.RawMessage(text)
	}
	return found
}

// Forget implements sessions.Store. The keys have different slots, and each command can be repeated by itself.
func (s *Sessions) Forget(ctx context.Context, l sessions.Legacy) error {
	c := s.conn.Client()
	commands := []func() rueidis.Completed{
		func() rueidis.Completed { return c.B().Del().Key(s.keys.source(l)).Build() },
		func() rueidis.Completed { return c.B().Del().Key(s.keys.legacy(l)).Build() },
		func() rueidis.Completed { return c.B().Srem().Key(s.keys.sourceSet(l)).Member(l.Token).Build() },
	}
	errs := s.conn.RetryEach(ctx, "remove a session of the source", len(commands),
		func(ctx context.Context, left []int) []error {
			var some rueidis.Commands
			for _, at := range left {
				some = append(some, commands[at]())
			}
			errs := make([]error, len(left))
			for i, reply := range c.DoMulti(ctx, some...) {
				errs[i] = reply.Error()
			}
			return errs
		})
	return errors.Join(errs...)
}
