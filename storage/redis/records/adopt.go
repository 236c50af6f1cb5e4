package records

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/adopt"
	"github.com/tidemark-dev/tidemark/records/settings"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of records that are taken over.
var (
	takeOverScript = lua.Must("records/adopt/take")
	removeScript   = lua.Must("records/adopt/remove")
	forgetScript   = lua.Must("records/adopt/forget")
)

var adoptRefusals = redis.Refusals{"CHANGED": adopt.ErrChanged}

// OldRecords reads and removes the records that applications have written to a Redis.
type OldRecords struct {
	*KeySource
}

var _ adopt.Source = (*OldRecords)(nil)

// NewOldRecords returns the records with the prefix of a connection.
func NewOldRecords(conn *redis.Conn) *OldRecords { return &OldRecords{NewKeySource(conn)} }

// Pages implements adopt.Source.
func (s *OldRecords) Pages(ctx context.Context, wait adopt.Wait,
	do func(ctx context.Context, names []string) error) error {
	return s.pages(ctx, wait, func(ctx context.Context, _ rueidis.Client, names []string) error {
		for i, name := range names {
			names[i] = strings.TrimPrefix(name, s.conn.Prefix())
		}
		return do(ctx, names)
	})
}

// Read implements adopt.Source.
func (s *OldRecords) Read(ctx context.Context, keys []string, most int) ([]adopt.Text, error) {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = s.conn.Prefix() + key
	}
	return readTexts(ctx, s.conn, full, most)
}

// fieldsAtOnce is the approximate number of fields that one HSCAN returns.
const fieldsAtOnce = 1000

// Hash implements adopt.Source.
func (s *OldRecords) Hash(ctx context.Context, key string, most int, wait adopt.Wait) (map[string]string, error) {
	fields, client := map[string]string{}, s.conn.Bulk()
	for cursor := uint64(0); ; {
		if err := wait(ctx, fieldsAtOnce); err != nil {
			return nil, err
		}
		var found rueidis.ScanEntry
		isHash := true
		err := s.conn.Retry(ctx, "read a hash of the application", func(ctx context.Context) (err error) {
			found, err = client.Do(ctx, client.B().Hscan().Key(s.conn.Prefix()+key).Cursor(cursor).
				Count(fieldsAtOnce).Build()).AsScanEntry()
			if isHash = !isWrongType(err); !isHash {
				return nil // a repeat doesn't help
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case !isHash:
			return nil, adopt.ErrNoHash
		}
		for i := 0; i+1 < len(found.Elements); i += 2 {
			fields[found.Elements[i]] = found.Elements[i+1]
		}
		if cursor = found.Cursor; cursor == 0 || len(fields) > most {
			return fields, nil
		}
	}
}

// Remove implements adopt.Source.
func (s *OldRecords) Remove(ctx context.Context, key, was string) error {
	reply, err := s.conn.Run(ctx, removeScript, []string{s.conn.Prefix() + key}, []string{was})
	if err != nil {
		return fmt.Errorf("remove a record of the application: %w", err)
	}
	return adoptRefusals.Check(reply, redis.OK)
}

// readTexts reads strings in one pipeline to each node.
func readTexts(ctx context.Context, conn *redis.Conn, keys []string, most int) ([]adopt.Text, error) {
	const each = 3 // commands of a key
	texts := make([]adopt.Text, len(keys))
	errs := conn.RetryEach(ctx, "read records", len(keys), func(ctx context.Context, left []int) []error {
		client, commands := conn.Bulk(), make(rueidis.Commands, 0, each*len(left))
		for _, i := range left {
			commands = append(commands, client.B().Exists().Key(keys[i]).Build(),
				client.B().Getrange().Key(keys[i]).Start(0).End(int64(most)).Build(),
				client.B().Pttl().Key(keys[i]).Build())
		}
		results, errs := conn.Send(ctx, client, commands), make([]error, len(left))
		for n, i := range left {
			var exists, ms int64
			var value string
			if exists, errs[n] = results[each*n].AsInt64(); errs[n] != nil {
				continue
			}
			if ms, errs[n] = results[each*n+2].AsInt64(); errs[n] != nil {
				continue
			}
			value, errs[n] = results[each*n+1].ToString()
			if isWrongType(errs[n]) {
				texts[i], errs[n] = adopt.Text{Found: true, WrongType: true}, nil
				continue
			}
			texts[i] = textOf(exists, value, ms)
		}
		return errs
	})
	return texts, cmp.Or(errs...)
}

// textOf returns a text from the replies of EXISTS, GETRANGE and PTTL, in this order: a key that began or ended in
// between isn't there. Without EXISTS, one that began would have an empty value. A life of 0 ms has ended.
func textOf(exists int64, value string, ms int64) adopt.Text {
	if exists == 0 || ms == noKey || ms == 0 {
		return adopt.Text{}
	}
	return adopt.Text{Found: true, Value: value, Left: time.Duration(ms) * time.Millisecond}
}

// Adopted writes records that are taken over. It may be used by many goroutines.
type Adopted struct {
	*Counters // for imports

	to       Instances
	settings *Settings
}

var _ adopt.Target = (*Adopted)(nil)

// NewAdopted returns the records in some Redis.
func NewAdopted(to Instances) *Adopted {
	return &Adopted{NewCounters(to.Records), to, NewSettings(to.Records)}
}

// keys returns the keys of a record, and of what was taken over from the application's key of it.
func (a *Adopted) keys(of adopt.Ref) (conn *redis.Conn, keys []string) {
	conn = a.to.Of(of.Kind)
	name := strings.Join(append([]string{of.Kind.Name}, of.Parts[1:]...), ":")
	return conn, []string{key(conn, of.Kind, of.Parts...), key(conn, records.Adopted, of.Parts[0], name)}
}

// States implements adopt.Target.
func (a *Adopted) States(ctx context.Context, refs []adopt.Ref) ([]adopt.State, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	values, adopted := make([]string, len(refs)), make([]string, len(refs))
	var conn *redis.Conn
	for i, of := range refs {
		var keys []string
		conn, keys = a.keys(of)
		values[i], adopted[i] = keys[0], keys[1]
	}
	before, err := readTexts(ctx, conn, adopted, records.Adopted.MaxBytes)
	if err != nil {
		return nil, err
	}
	found, err := readTexts(ctx, conn, values, refs[0].Kind.MaxBytes)
	if err != nil {
		return nil, err
	}
	states := make([]adopt.State, len(refs))
	for i := range refs {
		states[i] = adopt.State{Text: found[i], Adopted: before[i].Value, Keeps: before[i].Left}
	}
	return states, nil
}

// Put implements adopt.Target. A setting is marked as Settings.Put does.
func (a *Adopted) Put(ctx context.Context, of adopt.Ref, was adopt.State, c adopt.Change) error {
	conn, keys := a.keys(of)
	args := []string{"", was.Adopted, "", redis.Milliseconds(c.Life), c.Adopted, redis.Milliseconds(c.Keep)}
	if was.Found {
		args[0] = "=" + was.Value
	}
	if c.Writes {
		args[2] = "=" + c.Value
	}
	write := func(ctx context.Context) error {
		reply, err := conn.Run(ctx, takeOverScript, keys, args)
		if err != nil {
			return fmt.Errorf("take over a record: %w", err)
		}
		return adoptRefusals.Check(reply, redis.OK)
	}
	if of.Kind != records.Setting || !c.Writes {
		return write(ctx)
	}
	p := settings.Put{Name: of.Parts[0], Usual: settings.Public}
	if settings.SecretByName(p.Name) {
		p.Usual = settings.Secret
	}
	_, err := a.settings.put(ctx, p, write)
	return err
}

// Forget implements adopt.Target.
func (a *Adopted) Forget(ctx context.Context, of adopt.Ref, adopted string) error {
	conn, keys := a.keys(of)
	_, err := conn.Run(ctx, forgetScript, keys[1:], []string{adopted})
	return err
}

// Fields implements adopt.Target.
func (a *Adopted) Fields(ctx context.Context, of adopt.Ref, names []string) (fields map[string]string, err error) {
	conn := a.to.Of(of.Kind)
	err = conn.Retry(ctx, "read fields", func(ctx context.Context) error {
		found, err := conn.Bulk().Do(ctx,
			conn.Bulk().B().Hmget().Key(key(conn, of.Kind, of.Parts...)).Field(names...).Build()).ToArray()
		fields = make(map[string]string, len(names))
		for i := range found {
			value, err := found[i].ToString()
			if err == nil {
				fields[names[i]] = value
			} else if !rueidis.IsRedisNil(err) {
				return err
			}
		}
		return err
	})
	return fields, err
}

// AddNewSlugs implements adopt.Target.
func (a *Adopted) AddNewSlugs(ctx context.Context, slugs map[string]string) error {
	conn := a.to.Of(records.MigratedSlugs)
	return conn.Retry(ctx, "slugs", func(ctx context.Context) error {
		var commands rueidis.Commands
		for slug, id := range slugs {
			commands = append(commands,
				conn.Client().B().Hsetnx().Key(key(conn, records.MigratedSlugs)).Field(slug).Value(id).Build())
		}
		for _, result := range conn.Send(ctx, conn.Client(), commands) {
			if err := result.Error(); err != nil {
				return err
			}
		}
		return nil
	})
}
