package records

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// Bounds of calls for values.
const (
	MaxMany      = 256     // IDs or tags in a call
	MaxManyBytes = 4 << 20 // of the values in an answer; one is always returned
	manyFirst    = 4       // values that are read first
	manyStep     = 64      // values that are read at a time after these, at most
)

// Values keeps values of the cache as bytes, and checks what is put. The IDs that its methods take are those of
// Kind.ID.
type Values struct {
	store   CacheStore
	metrics CacheMetrics
}

// NewValues returns values on a store. m counts reads, by the events of their entries; nil: they aren't counted.
func NewValues(store CacheStore, m CacheMetrics) *Values { return &Values{store, m} }

// count counts an entry that is answered.
func (v *Values) count(k *Kind, e Entry) {
	if v.metrics != nil {
		v.metrics.Count(k, e.Event())
	}
}

// read is Read of the store, in which values that aren't JSON, or UTF-8 if they are plain texts, count as missing: an
// answer with one could not be parsed. Another program has written it, or its storage is damaged.
func (v *Values) read(ctx context.Context, k *Kind, ids []string) ([]Entry, error) {
	entries, err := v.store.Read(ctx, k, ids)
	for i := range entries {
		if e := &entries[i]; e.Found && !k.isReadable(e.Bytes) {
			e.Found, e.Bytes = false, nil
		}
	}
	return entries, err
}

func (k *Kind) isReadable(value []byte) bool {
	if k.JSON() {
		return strictjson.Valid(value)
	}
	return utf8.Valid(value)
}

// Get returns a value, which must not be changed. Errors: ErrNotCached.
func (v *Values) Get(ctx context.Context, k *Kind, id string) ([]byte, error) {
	entries, err := v.read(ctx, k, []string{id})
	if err != nil {
		return nil, err
	}
	v.count(k, entries[0])
	if !entries[0].Found {
		return nil, ErrNotCached
	}
	return entries[0].Bytes, nil
}

// CheckMany refuses an empty list of IDs and one of more than MaxMany.
func CheckMany(ids []string) error {
	if len(ids) == 0 || len(ids) > MaxMany {
		return refused("ids", fmt.Sprintf("has %d, from 1 to %d are allowed", len(ids), MaxMany))
	}
	return nil
}

// GetMany returns the entries of the first IDs, in order: of all, or of as many as fit in MaxManyBytes. It reads as
// many at a time as should fit, by the average of those before. Errors: those of the store, and of the memory of
// answers.
func (v *Values) GetMany(ctx context.Context, k *Kind, ids []string) ([]Entry, error) {
	if err := CheckMany(ids); err != nil {
		return nil, err
	}
	var all []Entry
	answer, bytes := unsent.From(ctx), 0
	for step := manyFirst; len(all) < len(ids); step = nextStep(bytes, len(all)) {
		entries, err := v.read(ctx, k, ids[len(all):min(len(ids), len(all)+step)])
		if err != nil {
			return nil, err
		}
		full := false
		for _, e := range entries {
			if full = bytes+len(e.Bytes) > MaxManyBytes && len(all) > 0; full {
				break
			}
			all, bytes = append(all, e), bytes+len(e.Bytes)
			v.count(k, e)
		}
		if err := answer.Grow(int64(bytes)); err != nil || full {
			return all, err
		}
	}
	return all, nil
}

// nextStep returns how many values to read when some, with a number of bytes, have been read.
func nextStep(bytes, values int) int {
	average := bytes/values + 1
	return max(1, min(manyStep, (MaxManyBytes-bytes)/average))
}

// Put stores a value, with the automatic tags of its kind besides its own. One with tags ends after 30 days at the
// latest. Errors: those of Kind.Check and of the store, and invalid tags and TTLs.
func (v *Values) Put(ctx context.Context, value Value) error {
	kind, tags := value.Key.Kind, value.Tags
	err := kind.Check(value.Bytes)
	if value.Checked != nil {
		value.Checked()
	}
	if err != nil {
		return err
	}
	if err := checkTags(tags, maxTags); err != nil {
		return err
	}
	value.Tags, value.Prefixed = append(kind.TagsOf(value.Key.ID), tags...), kind.Prefixes
	if err := setTTL(&value); err != nil {
		return err
	}
	return v.store.Put(ctx, value)
}

// setTTL sets or checks the TTL of a value.
func setTTL(v *Value) error {
	limit := v.Key.Kind.TTL
	if v.Indexed() && (limit == 0 || limit > MaxTaggedTTL) {
		limit = MaxTaggedTTL
	}
	switch {
	case v.TTL == 0:
		v.TTL = limit
	case v.TTL < time.Second || limit > 0 && v.TTL > limit:
		return &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidQuery, Field: "ttl",
			Detail: fmt.Sprintf("ttl is %s, it must be at least 1s, and at most %s for this value", v.TTL, limit),
		}
	}
	return nil
}

// Delete removes a value.
func (v *Values) Delete(ctx context.Context, k *Kind, id string) error {
	return v.store.Invalidate(ctx, k, []string{id})
}

// InvalidateTags removes the values of all kinds that have one of the tags, and returns how many there were.
func (v *Values) InvalidateTags(ctx context.Context, tags []string) (int, error) {
	if err := checkTags(tags, MaxMany); err != nil {
		return 0, err
	}
	all := 0
	for _, tag := range tags {
		n, err := v.store.InvalidateTag(ctx, tag)
		if err != nil {
			return all, err
		}
		all += n
	}
	return all, nil
}

// InvalidatePrefix removes the values whose IDs begin with a prefix, and returns how many there were. Errors: one with
// fault.SlugInvalidID for a kind without Prefixes.
func (v *Values) InvalidatePrefix(ctx context.Context, k *Kind, prefix string) (int, error) {
	if !k.Prefixes {
		return 0, refused("kind", "has no values that can be invalidated by a prefix")
	}
	if len(prefix) > MaxQueryBytes {
		return 0, refused("prefix", fmt.Sprintf("has %d bytes, at most %d are allowed", len(prefix),
			MaxQueryBytes))
	}
	return v.store.InvalidatePrefix(ctx, k, prefix)
}

// maxTags is how many tags a put may give a value.
const maxTags = 8

func checkTags(tags []string, limit int) error {
	if len(tags) > limit {
		return refused("tags", fmt.Sprintf("has %d, at most %d are allowed", len(tags), limit))
	}
	for _, tag := range tags {
		if err := CheckID("tags", tag); err != nil {
			return err
		}
	}
	return nil
}

func refused(field, wrong string) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: field, Detail: field + " " + wrong}
}
