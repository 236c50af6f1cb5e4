package records

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of settings.
var (
	markScript   = lua.Must("records/settings/mark")
	unmarkScript = lua.Must("records/settings/unmark")
)

const (
	// grace is the time after its mark within which a value may still be written. The mark isn't removed before.
	grace = time.Minute
	// putTime limits a put, so that its value is never written later.
	putTime = grace / 2
	// atOnce is the number of keys that a sweep looks up in one pipeline.
	atOnce = 100
	// smallIndex is the number of marks that are read without regard to memory, and markBytes the largest size of one
	// with its name.
	smallIndex, markBytes = 500, 176
	// stableTries limits how often values are read again because their marks changed during the read. Then they count
	// as secret.
	stableTries = 3
)

// The statuses of mark.lua, besides those that all scripts have.
const (
	statusFull redis.Status = "FULL"
	statusOpen redis.Status = "OPEN"
)

// Settings keeps settings in Redis. It may be used by many goroutines.
type Settings struct {
	conn  *redis.Conn
	limit int
}

var _ records.SettingStore = (*Settings)(nil)

// NewSettings returns the settings in the Redis of a connection.
func NewSettings(conn *redis.Conn) *Settings {
	return &Settings{conn: conn, limit: records.MaxSettings}
}

func (s *Settings) index() string { return key(s.conn, records.SettingsKind) }

func (s *Settings) value(name string) string { return key(s.conn, records.SettingKind, name) }

// Put implements records.SettingStore: the mark first, then the value, then the mark again if the setting is or was a
// secret. After a crash in between, the setting is as secret as before or more so, and a repeat completes it.
func (s *Settings) Put(ctx context.Context, p records.SettingPut) (records.Secrecy, error) {
	return s.put(ctx, p, func(ctx context.Context) error {
		c := s.conn.Client()
		return s.conn.Retry(ctx, "write a setting", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Set().Key(s.value(p.Name)).Value(p.Value).Build()).Error()
		})
	})
}

// put is Put with a function that writes the value.
func (s *Settings) put(ctx context.Context, p records.SettingPut, write func(context.Context) error) (records.Secrecy,
	error) {
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	mark, alone, err := s.mark(ctx, p, "")
	if err != nil {
		return "", err
	}
	err = write(ctx)
	if err == nil && alone && secrecy(mark) == records.Secret {
		p.Want = cmp.Or(p.Want, records.Secret)
		mark, _, err = s.mark(ctx, p, mark)
	}
	return secrecy(mark), err
}

// mark marks a setting. since is the caller's mark from before it wrote the value. alone is false if another put may
// still write a secret value. If the index is full, mark sweeps it and tries again.
func (s *Settings) mark(ctx context.Context, p records.SettingPut, since string) (mark string, alone bool, err error) {
	args := []string{p.Name, string(p.Want), string(p.Usual), since, strconv.Itoa(s.limit),
		strconv.FormatInt(grace.Microseconds(), 10)}
	for swept := false; ; swept = true {
		reply, err := s.conn.Run(ctx, markScript, []string{s.index()}, args)
		if err != nil {
			return "", false, fmt.Errorf("mark a setting: %w", err)
		}
		if reply.Status != statusFull || swept {
			mark, err := markOf(reply)
			return mark, reply.Status != statusOpen, err
		}
		if err := s.sweep(ctx); err != nil {
			return "", false, err
		}
	}
}

// markOf decodes the reply of mark.lua.
func markOf(reply redis.Reply) (string, error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK, statusOpen:
		mark := d.Text()
		return mark, d.End()
	case statusFull:
		return "", records.ErrManySettings
	default:
		return "", redis.Refusals(nil).Error(reply)
	}
}

// secrecy returns the secrecy in a mark. Unmarked settings are secret.
func secrecy(mark string) records.Secrecy {
	if is, _, _ := strings.Cut(mark, " "); is == string(records.Public) {
		return records.Public
	}
	return records.Secret
}

// Delete implements records.SettingStore: the value first, then its mark, unless another put has marked it since or may
// still be writing. A mark that stays has no value, so that lists leave it out, and is removed when room is needed.
func (s *Settings) Delete(ctx context.Context, name string) error {
	marks, err := s.marks(ctx, []string{name})
	if err != nil {
		return err
	}
	c := s.conn.Client()
	err = s.conn.Retry(ctx, "delete a setting", func(ctx context.Context) error {
		return c.Do(ctx, c.B().Del().Key(s.value(name)).Build()).Error()
	})
	if err != nil || marks[0] == "" {
		return err
	}
	return s.unmark(ctx, []string{name, marks[0]})
}

// unmark removes marks, given with their names, of settings that were found to have no value.
func (s *Settings) unmark(ctx context.Context, seen []string) error {
	args := append([]string{strconv.FormatInt(grace.Microseconds(), 10)}, seen...)
	reply, err := s.conn.Run(ctx, unmarkScript, []string{s.index()}, args)
	if err != nil {
		return fmt.Errorf("remove marks: %w", err)
	}
	return redis.Refusals(nil).Check(reply, redis.OK)
}

// sweep removes the marks of settings that have no value.
func (s *Settings) sweep(ctx context.Context) error {
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(all)), atOnce) {
		values, err := s.values(ctx, names)
		if err != nil {
			return err
		}
		var seen []string
		for i, name := range names {
			if values[i] == nil {
				seen = append(seen, name, all[name])
			}
		}
		if len(seen) == 0 {
			continue
		}
		if err := s.unmark(ctx, seen); err != nil {
			return err
		}
	}
	return nil
}

// all returns the index. Concurrent reads of a large one are limited.
func (s *Settings) all(ctx context.Context) (marks map[string]string, err error) {
	var entries int64
	c := s.conn.Bulk()
	err = s.conn.Retry(ctx, "count the settings", func(ctx context.Context) (err error) {
		entries, err = c.Do(ctx, c.B().Hlen().Key(s.index()).Build()).AsInt64()
		return err
	})
	if err != nil {
		return nil, err
	}
	if entries > smallIndex {
		_, release, err := s.conn.LargeRead(ctx, s.index(), int(entries)*markBytes)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	err = s.conn.Retry(ctx, "read the index of settings", func(ctx context.Context) (err error) {
		marks, err = c.Do(ctx, c.B().Hgetall().Key(s.index()).Build()).AsStrMap()
		return err
	})
	return marks, err
}

// Names implements records.SettingStore.
func (s *Settings) Names(ctx context.Context) ([]string, error) {
	all, err := s.all(ctx)
	return slices.Sorted(maps.Keys(all)), err
}

// Read implements records.SettingStore.
func (s *Settings) Read(ctx context.Context, names []string) ([]records.StoredSetting, error) {
	if len(names) == 0 {
		return nil, nil
	}
	before, err := s.marks(ctx, names)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		values, err := s.values(ctx, names)
		if err != nil {
			return nil, err
		}
		after, err := s.marks(ctx, names)
		if err != nil {
			return nil, err
		}
		if try == stableTries || slices.Equal(before, after) {
			return stored(values, before, after), nil
		}
		before = after
	}
}

// stored returns the settings that were read. A value whose mark changed during its read counts as secret: it may be
// about to be replaced.
func stored(values []*string, before, after []string) []records.StoredSetting {
	found := make([]records.StoredSetting, len(values))
	for i, value := range values {
		if value == nil {
			continue
		}
		found[i] = records.StoredSetting{Exists: true, Value: *value, Is: records.Secret}
		if before[i] == after[i] {
			found[i].Is = secrecy(after[i])
		}
	}
	return found
}

// marks returns the marks of settings, "" for those that have none.
func (s *Settings) marks(ctx context.Context, names []string) (marks []string, err error) {
	c := s.conn.Client()
	err = s.conn.Retry(ctx, "read marks of settings", func(ctx context.Context) error {
		found, err := c.Do(ctx, c.B().Hmget().Key(s.index()).Field(names...).Build()).ToArray()
		if err != nil {
			return err
		}
		marks = make([]string, len(names))
		for i, m := range found {
			if marks[i], err = m.ToString(); err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
		}
		return nil
	})
	return marks, err
}

// values returns the values of settings, nil for those that have none, by one pipeline to each node.
func (s *Settings) values(ctx context.Context, names []string) ([]*string, error) {
	c, values := s.conn.Bulk(), make([]*string, len(names))
	if len(names) > 1 {
		_, release, err := s.conn.LargeRead(ctx, s.index(), len(names)*records.SettingKind.MaxBytes)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	errs := s.conn.RetryEach(ctx, "read settings", len(names), func(ctx context.Context, pending []int) []error {
		commands := make(rueidis.Commands, len(pending))
		for i, at := range pending {
			commands[i] = c.B().Get().Key(s.value(names[at])).Build()
		}
		errs := make([]error, len(pending))
		for i, result := range c.DoMulti(ctx, commands...) {
			value, err := result.ToString()
			switch {
			case err == nil:
				values[pending[i]] = &value
			case !rueidis.IsRedisNil(err):
				errs[i] = err
			}
		}
		return errs
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}
