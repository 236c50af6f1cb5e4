package records

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the kinds of cached values.
const (
	MaxCaches        = 100 // kinds in a table
	MaxCacheNameSize = 64  // bytes
	MaxCacheBytes    = mib // of a value
	MaxCacheTTL      = 365 * day
)

var (
	cacheName    = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	cachePattern = regexp.MustCompile(`^[0-9A-Za-z_.:/-]+\{<[a-z]+>\}([0-9A-Za-z_.:/-]*|:<[a-z]+>)$`)
)

// IsCached reports whether NewCache has made a kind: its keys have an ID.
func (k *Kind) IsCached() bool { return k.cached }

// Owned reports whether IDs are an owner, a colon and a name.
func (k *Kind) Owned() bool { return k.cached && len(k.names) == 2 }

// SplitID returns the part of an ID that is the hash tag of its key, and the rest: "" unless the kind is Owned.
func (k *Kind) SplitID(id string) (tag, rest string) {
	if !k.Owned() {
		return id, ""
	}
	tag, rest, _ = strings.Cut(id, ":")
	return tag, rest
}

// KeyOf returns the key of a cached value, without the prefix of the connection. IDs of Owned kinds have a colon.
func (k *Kind) KeyOf(id string) string {
	if !k.Owned() {
		return k.Key(id)
	}
	return k.Key(k.SplitID(id))
}

// IDOf returns the ID of the cached value with a key, and whether KeyOf makes this key of it.
func (k *Kind) IDOf(key string) (id string, ok bool) {
	parts, ok := k.Parse(key)
	if !ok || !k.cached {
		return "", false
	}
	if k.Owned() {
		return parts[0] + ":" + parts[1], !strings.Contains(parts[0], ":")
	}
	return parts[0], true
}

// Table is the kinds of an installation: those of the service, and those of cached values. It is immutable.
type Table struct {
	records []*Kind
	caches  []*Kind

	byStart map[string][]*Kind // by the text before the hash tag, of keys that have one
	others  []*Kind            // the others; those of one key come first
}

// NewTable returns the table with some kinds of cached values, which NewCache has made. Errors: two kinds with one
// name, or with keys in common; more than MaxCaches.
func NewTable(caches ...*Kind) (*Table, error) {
	if len(caches) > MaxCaches {
		return nil, fmt.Errorf("there are %d kinds of cached values, at most %d are allowed", len(caches), MaxCaches)
	}
	at := slices.Index(own, CacheLoadKind) // the order of the documentation
	t := tableOf(slices.Concat(own[:at], caches, own[at:]), slices.Clone(caches))
	for i, k := range caches {
		if err := t.check(i, k); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// tableOf returns the table of some kinds, which it doesn't check.
func tableOf(records, caches []*Kind) *Table {
	t := &Table{records: records, caches: caches, byStart: map[string][]*Kind{}}
	for _, k := range t.All() {
		if before, _, tagged := strings.Cut(k.Pattern, "{"); tagged {
			t.byStart[before] = append(t.byStart[before], k)
		} else {
			t.others = append(t.others, k)
		}
	}
	slices.SortStableFunc(t.others, func(a, b *Kind) int { return cmp.Compare(min(1, len(a.names)), min(1, len(b.names))) })
	return t
}

// Plain returns the table with plain keys of records. Errors: DuplicateError, if keys of a kind of cached values begin
// like those of another kind: without the braces, an ID could make a key of one kind that of the other.
func (t *Table) Plain() (*Table, error) {
	plain := tableOf(allPlain(t.records), allPlain(t.caches))
	for i, k := range plain.caches {
		for _, other := range plain.All() {
			start, another := k.literals[0], other.literals[0] // the key itself if it has no parts
			shared := strings.HasPrefix(another, start) || len(other.names) > 0 && strings.HasPrefix(start, another)
			if shared && !slices.Contains(plain.caches[i:], other) {
				return nil, &DuplicateError{i, "key", fmt.Sprintf("%s without braces can be a key of %s, which is %s",
					t.caches[i].Pattern, other.Name, other.Pattern)}
			}
		}
	}
	return plain, nil
}

func allPlain(kinds []*Kind) []*Kind {
	plain := make([]*Kind, len(kinds))
	for i, k := range kinds {
		plain[i] = k.plain
	}
	return plain
}

// DuplicateError is the error of a kind of cached values whose name or keys another kind has.
type DuplicateError struct {
	At     int    // index of the kind
	Field  string // name or key
	Detail string
}

// Error returns the field and the detail.
func (e *DuplicateError) Error() string { return e.Field + ": " + e.Detail }

// check refuses a kind of cached values that has something in common with one before it, or one of the service. Two
// patterns with the same text before and after the tag have the same keys, and so may those with text after it that
// callers choose.
func (t *Table) check(i int, k *Kind) error {
	later := t.caches[i:]
	for _, other := range t.All() {
		if other.Name == k.Name && !slices.Contains(later, other) {
			return &DuplicateError{i, "name", fmt.Sprintf("%s is the name of two kinds", k.Name)}
		}
	}
	if k.Name == Unknown {
		return &DuplicateError{i, "name", Unknown + " is the name of keys of no kind"}
	}
	before, rest, _ := strings.Cut(k.Pattern, "{")
	_, after, _ := strings.Cut(rest, "}")
	for _, other := range t.byStart[before] {
		_, rest, _ := strings.Cut(other.Pattern, "{")
		_, end, _ := strings.Cut(rest, "}")
		chosen := strings.Contains(end+after, "<") || !other.cached
		if !slices.Contains(later, other) && (end == after || chosen) {
			return &DuplicateError{i, "key", fmt.Sprintf("%s has keys of %s, which is %s", k.Pattern, other.Name,
				other.Pattern)}
		}
	}
	return nil
}

// Unknown is the name of the kind of all keys that belong to none, in diagnostics.
const Unknown = "unknown"

// Records returns the kinds of records, in the order of the documentation. It must not be changed.
func (t *Table) Records() []*Kind { return t.records }

// Caches returns the kinds of cached values, which are some of Records. It must not be changed.
func (t *Table) Caches() []*Kind { return t.caches }

// All returns the kinds of records, and Others.
func (t *Table) All() []*Kind { return slices.Concat(t.records, Others) }

// Of returns the kind of a key without prefix, or nil.
func (t *Table) Of(key string) *Kind {
	list := t.others
	if before, _, tagged := strings.Cut(key, "{"); tagged {
		list = t.byStart[before]
	}
	for _, k := range list {
		if _, ok := k.Parse(key); ok {
			return k
		}
	}
	return nil
}

// Cache returns the kind of cached values with a name. Errors: ErrNoKind.
func (t *Table) Cache(name string) (*Kind, error) {
	for _, k := range t.caches {
		if k.Name == name {
			return k, nil
		}
	}
	return nil, ErrNoKind
}
