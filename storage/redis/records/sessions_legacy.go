package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/records/sessions"
)

// Find implements sessions.Store. Both keys, and the end of all sessions, are read in one round trip; they have
// different slots. If the session's time isn't known, or isn't after the end, a second one looks into the list: an end
// that was read earlier can't be one that has emptied the list since.
func (s *Sessions) Find(ctx context.Context, l sessions.Legacy) (found sessions.Found, err error) {
	c := s.conn.Client()
	err = s.conn.Retry(ctx, "find a legacy session", func(ctx context.Context) error {
		found, err = foundOf(c.DoMulti(ctx, c.B().Hgetall().Key(s.keys.source(l)).Build(),
			c.B().Exists().Key(s.keys.legacy(l)).Build(), c.B().Get().Key(s.keys.ended(l.User)).Build()), l)
		return err
	})
	if err != nil || found.Created.After(found.Ended) {
		return found, err
	}
	err = s.conn.Retry(ctx, "find a legacy session in the list", func(ctx context.Context) (err error) {
		found.Listed, err = c.Do(ctx, c.B().Sismember().Key(s.keys.sourceSet(l)).Member(l.Token).Build()).AsBool()
		if isWrongType(err) {
			return nil
		}
		return err
	})
	return found, err
}

// foundOf decodes the replies of Find.
func foundOf(replies []rueidis.RedisResult, l sessions.Legacy) (found sessions.Found, err error) {
	fields, errFields := replies[0].AsStrMap()
	there, errThere := replies[1].AsBool()
	ended, errEnded := replies[2].ToString()
	if err := errors.Join(errFields, errThere, none(errEnded)); err != nil {
		return found, err
	}
	switch {
	case fields[fieldUser] == l.User:
		found = dataOf(fields)
	case !there:
		return found, sessions.ErrNotFound
	}
	found.Ended, found.Emptied, err = endOfAll(ended)
	return found, err
}

// endOfAll decodes the end of all sessions of a user: seconds, with a fraction if the list had been emptied before.
// Earlier versions, which don't empty it, write none.
func endOfAll(text string) (ended time.Time, emptied bool, err error) {
	if text == "" {
		return time.Time{}, false, nil
	}
	since1970, err := time.ParseDuration(text + "s")
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read when all sessions of the user were ended: %w", err)
	}
	return time.UnixMilli(since1970.Milliseconds()), strings.Contains(text, "."), nil
}

// dataOf returns the data in the fields of the application's key.
func dataOf(fields map[string]string) sessions.Found {
	found := sessions.Found{Created: sessions.SourceTime(fields[fieldCreated])}
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
	errs := s.conn.RetryEach(ctx, "remove a legacy session", len(commands),
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

// listedAtOnce is the number of listed sessions that are removed in one pipeline.
const listedAtOnce = 100

// unlist removes the legacy sessions that are listed for a user, and returns how many there were. Each has
// a slot of its own. The list loses only what was removed, as applications may add to it meanwhile.
func (s *Sessions) unlist(ctx context.Context, user string) (removed int, err error) {
	if !sessions.IsSourceUser(user) {
		return 0, nil
	}
	c, set, tokens := s.conn.Client(), s.keys.sourceSet(sessions.Legacy{User: user}), []string(nil)
	err = s.conn.Retry(ctx, "list the legacy sessions", func(ctx context.Context) (err error) {
		if tokens, err = c.Do(ctx, c.B().Smembers().Key(set).Build()).AsStrSlice(); isWrongType(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(tokens, listedAtOnce) {
		errs := s.conn.RetryEach(ctx, "remove a legacy session", len(some),
			func(ctx context.Context, left []int) []error {
				commands, errs := make(rueidis.Commands, len(left)), make([]error, len(left))
				for i, at := range left {
					key := s.keys.source(sessions.Legacy{User: user, Token: some[at]})
					commands[i] = c.B().Del().Key(key).Build()
				}
				for i, reply := range c.DoMulti(ctx, commands...) {
					n, err := reply.AsInt64()
					removed, errs[i] = removed+int(n), err
				}
				return errs
			})
		if err := errors.Join(errs...); err != nil {
			return removed, err
		}
		err := s.conn.Retry(ctx, "remove legacy sessions from their list", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Srem().Key(set).Member(some...).Build()).Error()
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// isWrongType reports whether a command was refused because its key has a value of another type.
func isWrongType(err error) bool {
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "WRONGTYPE ")
}
