package storetest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Lab is a connection, and direct access to its Redis.
type Lab struct {
	Conn *redis.Conn
	Node *redistest.Node
}

// NewLab connects to the shared standalone Redis, under a prefix of its own.
func NewLab(t testing.TB) *Lab {
	t.Helper()
	conn, node := Standalone(t)
	return &Lab{Conn: conn, Node: node}
}

// Found returns all keys of the lab, without their prefix.
func (l *Lab) Found(t *testing.T) []string {
	t.Helper()
	keys, err := l.Node.Do(t, "KEYS", l.Conn.Prefix()+"*").AsStrSlice()
	require.NoError(t, err)
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], l.Conn.Prefix())
	}
	slices.Sort(keys)
	return keys
}

// Value returns a string, or the members of a set in the page's form.
func (l *Lab) Value(t *testing.T, key string) string {
	t.Helper()
	kind, err := l.Node.Do(t, "TYPE", l.Conn.Prefix()+key).ToString()
	require.NoError(t, err)
	if kind != "set" {
		value, err := l.Node.Do(t, "GET", l.Conn.Prefix()+key).ToString()
		require.NoError(t, err, key)
		return value
	}
	members, err := l.Node.Do(t, "SMEMBERS", l.Conn.Prefix()+key).AsStrSlice()
	require.NoError(t, err)
	slices.Sort(members)
	return strings.Join(members, "` `")
}

// Life returns the TTL of a key.
func (l *Lab) Life(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := l.Node.Do(t, "PTTL", l.Conn.Prefix()+key).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// Ends returns when a key expires, in Redis's time.
func (l *Lab) Ends(t *testing.T, key string) int64 {
	t.Helper()
	at, err := l.Node.Do(t, "PEXPIRETIME", l.Conn.Prefix()+key).AsInt64()
	require.NoError(t, err)
	require.Positive(t, at, "%s has an end", key)
	return at
}

// Pass shortens the TTLs of all keys, as if a time had passed.
func (l *Lab) Pass(t *testing.T, d time.Duration) {
	t.Helper()
	for _, key := range l.Found(t) {
		at := strconv.FormatInt(l.Ends(t, key)-d.Milliseconds(), 10)
		require.NoError(t, l.Node.Do(t, "PEXPIREAT", l.Conn.Prefix()+key, at).Error())
	}
}

// RequireStep expects the lab to hold the keys of a step and no others: values of a shape, and TTLs up to a difference.
// read returns a key's value in the page's form, and life reads a TTL of the page.
func (l *Lab) RequireStep(t *testing.T, step Step, slack time.Duration, read func(key string) string,
	life func(ttl string) time.Duration) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(step.Keys)), l.Found(t), "the keys after %s", step.Title)
	for key, k := range step.Keys {
		require.Regexp(t, Shape(k.Value), read(key), "%s after %s", key, step.Title)
		require.InDelta(t, life(k.TTL), l.Life(t, key), float64(slack), "the TTL of %s after %s", key, step.Title)
	}
}

// placeholders are the placeholders in the page's values, each with its pattern.
var placeholders = map[string]string{
	"<ULID>": "[0-7][0-9A-HJKMNP-TV-Z]{25}", "<ms>": "[0-9]{13}", "<µs>": "[0-9]{16}", "<fence>": "[0-9]{16}",
	"<write>":   "[0-9A-Za-z_-]{11}",
	"<n>":       "[0-9]+",
	"<attempt>": "[0-9A-Z]{26}", "<epoch>": "[0-9A-Z]{26}", "<SHA-1>": "[0-9a-f]{40}",
}

// Shape returns the pattern of a value of the page, which may have placeholders.
func Shape(value string) string {
	pattern := regexp.QuoteMeta(value)
	for placeholder, text := range placeholders {
		pattern = strings.ReplaceAll(pattern, placeholder, text)
	}
	return "^" + pattern + "$"
}

// Dump returns each key of a server with its contents and its end.
func Dump(t *testing.T, n *redistest.Node) map[string]string {
	t.Helper()
	keys, err := n.Do(t, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	found := map[string]string{}
	for _, key := range keys {
		value, err := n.Do(t, "DUMP", key).ToString()
		require.NoError(t, err)
		ends, err := n.Do(t, "PEXPIRETIME", key).AsInt64()
		require.NoError(t, err)
		found[key] = fmt.Sprintf("%q until %d", value, ends)
	}
	return found
}

// Values returns a dump without ends: the TTLs of a channel may be renewed before an operation that lacks a permission
// fails.
func Values(dump map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range dump {
		kept[key], _, _ = strings.Cut(value, "\" until ")
	}
	return kept
}
