package records

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of views.
var (
	countScript   = lua.Must("records/count_views")
	importScript  = lua.Must("records/import_views")
	currentScript = lua.Must("records/current_views")
)

// addAtOnce limits the scripts of one pipeline, so that other requests to the same node aren't delayed for long.
const addAtOnce = 1000

// Add implements records.ViewStore: a script for each ID, in pipelines.
func (s *Counters) Add(ctx context.Context, f records.ViewFlush, counts []records.ViewCount) []error {
	errs := make([]error, 0, len(counts))
	flush, keep := strconv.FormatUint(f.Number, 10), redis.Milliseconds(records.ViewedFlushKind.TTL)
	for part := range slices.Chunk(counts, addAtOnce) {
		calls := make([]redis.Call, len(part))
		for i, c := range part {
			calls[i] = redis.Call{
				Keys: []string{key(s.conn, records.ViewedKind, c.ID), key(s.conn, records.ViewedFlushKind, c.ID, f.Process)},
				Args: []string{number(c.Views), flush, keep, number(records.MaxCounter)},
			}
		}
		for _, result := range s.conn.RunMany(ctx, countScript, calls) {
			if result.Err == nil {
				result.Err = counterRefusals.Check(result.Reply, redis.OK)
			}
			errs = append(errs, result.Err)
		}
	}
	return errs
}

// Totals implements records.ViewStore: one pipeline for the counters and the name of the current import, and then one
// command for the imported views, if there is an import.
func (s *Counters) Totals(ctx context.Context, ids []string) ([]records.ViewTotal, error) {
	c := s.conn.Client()
	totals := make([]records.ViewTotal, len(ids))
	err := s.conn.Retry(ctx, "views", func(ctx context.Context) error {
		commands := make(rueidis.Commands, 0, len(ids)+1)
		for _, id := range ids {
			commands = append(commands, c.B().Get().Key(key(s.conn, records.ViewedKind, id)).Build())
		}
		commands = append(commands, c.B().Get().Key(key(s.conn, records.MigratedCurrentKind)).Build())
		replies := c.DoMulti(ctx, commands...)
		for i, id := range ids {
			views, err := replies[i].AsInt64()
			if err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
			totals[i] = records.ViewTotal{ID: id, Counted: views}
		}
		at, err := replies[len(ids)].ToString()
		if err != nil {
			return none(err)
		}
		return s.migrated(ctx, at, totals)
	})
	return totals, err
}

// migrated adds the imported views of IDs.
func (s *Counters) migrated(ctx context.Context, at string, totals []records.ViewTotal) error {
	c := s.conn.Client()
	ids := make([]string, len(totals))
	for i, t := range totals {
		ids[i] = t.ID
	}
	found, err := c.Do(ctx, c.B().Hmget().Key(key(s.conn, records.MigratedViewsKind, at)).Field(ids...).Build()).ToArray()
	for i := range found {
		if err == nil {
			totals[i].Migrated, err = found[i].AsInt64()
			err = none(err)
		}
	}
	return err
}

// none converts Redis's nil reply to no error.
func none(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

// Resolve implements records.ViewStore.
func (s *Counters) Resolve(ctx context.Context, slugs []string) (ids []string, err error) {
	c := s.conn.Client()
	err = s.conn.Retry(ctx, "slugs", func(ctx context.Context) error {
		found, err := c.Do(ctx, c.B().Hmget().Key(key(s.conn, records.MigratedSlugsKind)).Field(slugs...).Build()).ToArray()
		ids = make([]string, len(found))
		for i := range found {
			if err == nil {
				ids[i], err = found[i].ToString()
				err = none(err)
			}
		}
		return err
	})
	return ids, err
}

// Import implements records.ViewStore. The key of the current import is in another slot, so a second script makes an
// import the current one when all its records are there. If the service dies between the two, a repeat of any part
// completes it.
func (s *Counters) Import(ctx context.Context, p records.ImportPart) (records.Import, error) {
	at := number(p.At)
	args := append(make([]string, 0, 2+2*len(p.Views)), at, strconv.Itoa(p.Total))
	for id, views := range p.Views {
		args = append(args, id, number(views))
	}
	reply, err := s.conn.Run(ctx, importScript, []string{key(s.conn, records.MigratedViewsKind, at)}, args)
	if err != nil {
		return records.Import{}, fmt.Errorf("import views: %w", err)
	}
	if reply.Status != redis.OK {
		return records.Import{}, counterRefusals.Error(reply)
	}
	d := reply.Decoder()
	state := records.Import{Records: int(d.Int64())}
	if err := d.End(); err != nil || state.Records < p.Total {
		return state, err
	}
	state.Complete = true
	reply, err = s.conn.Run(ctx, currentScript, []string{key(s.conn, records.MigratedCurrentKind)}, []string{at})
	if err != nil {
		return records.Import{}, fmt.Errorf("import views: %w", err)
	}
	d = reply.Decoder()
	state.Current = d.Int64() == p.At
	return state, d.End()
}

// AddSlugs implements records.ViewStore.
func (s *Counters) AddSlugs(ctx context.Context, slugs map[string]string) error {
	c := s.conn.Client()
	return s.conn.Retry(ctx, "slugs", func(ctx context.Context) error {
		fields := c.B().Hset().Key(key(s.conn, records.MigratedSlugsKind)).FieldValue()
		for slug, id := range slugs {
			fields = fields.FieldValue(slug, id)
		}
		return c.Do(ctx, fields.Build()).Error()
	})
}
