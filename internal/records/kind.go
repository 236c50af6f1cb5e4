package records

import (
	"regexp"
	"strings"
	"time"
)

// Type is the Redis type of a value, as the command TYPE names it.
type Type string

// The types.
const (
	String    Type = "string"
	Hash      Type = "hash"
	Set       Type = "set"
	SortedSet Type = "zset"
	Stream    Type = "stream"
)

// Instance is the Redis that has the keys of a kind. All three can be one.
type Instance string

// The instances.
const (
	Records  Instance = "records"  // that of the channels
	Sessions Instance = "sessions" // --sessions-redis: must not evict
	Cache    Instance = "cache"    // --cache-redis: may evict
)

// Kind is one pattern of keys. It is immutable.
type Kind struct {
	Name string // such as "user-sessions"
	// such as "session:{<user>}:<hash>": <…> is a placeholder; the braces are part of the key, as its hash tag
	Pattern  string
	Type     Type          // of the value
	Form     string        // description of the value, for documentation
	TTL      time.Duration // the longest; 0: the key is permanent
	Why      string        // a permanent key is permanent
	Secret   bool          // the value must not be shown
	MaxBytes int           // the longest value, with its members and fields
	Instance Instance      // which Redis has it
	Quotes   bool          // quotes and backslashes in parts are encoded, too: xargs takes the keys as they are
	Cached                 // of cached values only

	plain    *Kind    // see Plain; the kind itself if its keys are plain
	loads    bool     // quotes are encoded if they are in keys of the kind that its last part names
	cached   bool     // NewCache has made it
	names    []string // of the placeholders
	literals []string // around them: one more
}

var placeholder = regexp.MustCompile(`<([a-z ]+)>`)

// own are the kinds of the service's own records, in the order in which they are declared.
var own []*Kind

// define returns a kind that is one of own.
func define(k Kind) *Kind {
	made := compile(k)
	own = append(own, made)
	return made
}

// withoutBraces makes the pattern of plain keys.
var withoutBraces = strings.NewReplacer("{", "", "}", "")

// compile returns a kind that can make keys, of both forms.
func compile(k Kind) *Kind {
	made := parsed(k)
	k.Pattern, k.Quotes = withoutBraces.Replace(k.Pattern), false
	made.plain = parsed(k)
	made.plain.plain = made.plain
	return made
}

// parsed returns a kind with the parts of its pattern.
func parsed(k Kind) *Kind {
	k.literals = placeholder.Split(k.Pattern, -1)
	for _, m := range placeholder.FindAllStringSubmatch(k.Pattern, -1) {
		k.names = append(k.names, m[1])
	}
	return &k
}

// In returns the kind with keys in the form that a Redis has: plain, or with braces. Plain keys are as applications
// write them that don't use a Cluster: the parts of one key can be in different slots. White space, quotes and
// backslashes aren't encoded in them.
func (k *Kind) In(plain bool) *Kind {
	if plain {
		return k.plain
	}
	return k
}

// isPlain reports whether the keys of the kind have no braces.
func (k *Kind) isPlain() bool { return k.plain == k }

// Parts returns the names of the pattern's placeholders, in order.
func (k *Kind) Parts() []string { return append([]string(nil), k.names...) }

// Key returns the key with these parts, in the order of the pattern, without the prefix of the connection. Different
// parts have different keys, and the hash tag is that of the pattern, whatever the parts are: braces, percent signs,
// white space, control characters, invalid UTF-8, and the character that follows the part in the pattern, unless it is
// the last part, are percent-encoded, and quotes and backslashes if k.Quotes. See In for plain keys. It panics if the
// number of parts is wrong.
func (k *Kind) Key(parts ...string) string {
	return k.key(k.Quotes, parts)
}

// LoadKey returns the key of kind CacheLoadKind for the value with an ID, in the value's slot.
func (k *Kind) LoadKey(id string) string {
	tag, rest := k.SplitID(id)
	name := k.Name
	if rest != "" {
		name += ":" + rest
	}
	return CacheLoadKind.In(k.isPlain()).key(k.Quotes, []string{tag, name})
}

func (k *Kind) key(quotes bool, parts []string) string {
	if len(parts) != len(k.names) {
		panic("records: the key of a " + k.Name + " has the parts " + strings.Join(k.names, ", "))
	}
	size, also := len(k.Pattern), ""
	for _, part := range parts {
		size += len(part)
	}
	if quotes {
		also = `'"\`
	}
	key := append(make([]byte, 0, size), k.literals[0]...)
	for i, part := range parts {
		key = appendEncoded(key, part, k.after(i)+also, !k.isPlain())
		key = append(key, k.literals[i+1]...)
	}
	return string(key)
}

// after returns the character that ends a part, or "" for the last one, which ends where the text after it begins.
func (k *Kind) after(part int) string {
	if part == len(k.names)-1 {
		return ""
	}
	return k.literals[part+1][:1]
}

// Parse returns the parts of a key without prefix, and whether Key makes this key of them.
func (k *Kind) Parse(key string) (parts []string, ok bool) {
	rest, ok := strings.CutPrefix(key, k.literals[0])
	if !ok {
		return nil, false
	}
	for i := range k.names {
		end := len(rest) - len(k.literals[i+1])
		if c := k.after(i); c != "" {
			end = strings.Index(rest, c)
		}
		if end < 0 {
			return nil, false
		}
		part, ok := decode(rest[:end])
		if !ok {
			return nil, false
		}
		if rest, ok = strings.CutPrefix(rest[end:], k.literals[i+1]); !ok {
			return nil, false
		}
		parts = append(parts, part)
	}
	return parts, rest == "" && (k.Key(parts...) == key || k.loads && k.key(true, parts) == key)
}
