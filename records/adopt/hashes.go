package adopt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tidemark-dev/tidemark/records/counters"
)

// maxFields is the maximum number of fields of a hash that is taken over.
const maxFields = counters.MaxMigrate + 2

// fields returns the fields of a hash.
func (r *run) fields(ctx context.Context, key string) (map[string]string, error) {
	fields, err := r.source.Hash(ctx, key, maxFields, r.wait)
	if len(fields) > maxFields {
		return nil, refusal(fmt.Sprintf("it has more than %d fields", maxFields))
	}
	return fields, err
}

// compare returns those of some fields that the service doesn't have, and the number of those that have other values
// there.
func (r *run) compare(ctx context.Context, of Ref, fields map[string]string) (missing []string, differ int, err error) {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(fields)), counters.MaxPart) {
		found, err := r.target.Fields(ctx, of, names)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range names {
			if has, ok := found[name]; !ok {
				missing = append(missing, name)
			} else if has != fields[name] {
				differ++
			}
		}
	}
	return missing, differ, nil
}

// imported takes over an import of views, all of it. The latest import is the one that counts, whatever the order.
func imported(ctx context.Context, r *run, one record) outcome {
	fields, err := r.fields(ctx, one.key)
	if err != nil || len(fields) == 0 {
		return outcome{gone: err == nil, err: err}
	}
	done := outcome{was: strconv.Itoa(len(fields)), fields: maps.Clone(fields)}
	parts, err := partsOf(one, fields)
	if err != nil {
		return outcome{err: err}
	}
	missing, differ, err := r.compare(ctx, one.ref, fields)
	switch {
	case err != nil:
		return outcome{err: err}
	case differ > 0:
		return outcome{err: refusal(fmt.Sprintf("the service has an import of this time with %d other values", differ))}
	}
	if done.adopted = len(missing) > 0; !r.Apply {
		return done
	}
	if !done.adopted {
		parts = parts[:1] // makes it the current one, if an earlier run has died before
	}
	for _, part := range parts {
		if _, err := r.target.Import(ctx, part); err != nil {
			return outcome{err: err}
		}
	}
	return done
}

// partsOf returns the parts of an import, and leaves the views in fields. The error is a refusal.
func partsOf(one record, fields map[string]string) (parts []counters.Part, err error) {
	delete(fields, counters.FieldTimestamp)
	delete(fields, counters.FieldTotal)
	at, err := strconv.ParseInt(one.ref.Parts[0], 10, 64)
	if err != nil {
		return nil, refusal("its timestamp is too large")
	}
	if len(fields) == 0 {
		return nil, refusal("it has no views")
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(fields)), counters.MaxPart) {
		part := counters.Part{At: at, Total: len(fields), Views: make(map[string]int64, len(ids))}
		for _, id := range ids {
			n, ok := countOf(fields[id])
			if !ok {
				return nil, refusal(fmt.Sprintf("the views of %.64q aren't a number", id))
			}
			part.Views[id], fields[id] = n, strconv.FormatInt(n, 10)
		}
		if err := part.Check(); err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// slugs takes over the IDs of the slugs that the service doesn't have.
func slugs(ctx context.Context, r *run, one record) outcome {
	fields, err := r.fields(ctx, one.key)
	if err != nil || len(fields) == 0 {
		return outcome{gone: err == nil, err: err}
	}
	for slug, id := range fields {
		if err := counters.CheckSlug(slug, id); err != nil {
			return outcome{err: err}
		}
	}
	missing, differ, err := r.compare(ctx, one.ref, fields)
	if err != nil {
		return outcome{err: err}
	}
	for some := range slices.Chunk(missing, counters.MaxPart) {
		if !r.Apply {
			break
		}
		add := make(map[string]string, len(some))
		for _, slug := range some {
			add[slug] = fields[slug]
		}
		if err := r.target.AddNewSlugs(ctx, add); err != nil {
			return outcome{err: err}
		}
	}
	if differ > 0 {
		return outcome{err: refusal(fmt.Sprintf("the service has other IDs for %d of its %d slugs, which stay", differ,
			len(fields)))}
	}
	return outcome{adopted: len(missing) > 0}
}
