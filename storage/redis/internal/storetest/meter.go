package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Meter is a connection to a private Redis whose commands can be counted on both sides.
type Meter struct {
	Conn *redis.Conn
	Tap  *redistest.Proxy
	Node *redistest.Node
}

// NewMeter starts a Redis that knows all scripts, so that no call has to send one.
func NewMeter(t testing.TB, o redistest.Options) *Meter {
	t.Helper()
	node := redistest.Start(t, o)
	tap := redistest.NewProxy(t, node)
	for _, f := range luatest.Scripts(t) {
		require.NoError(t, node.Do(t, "SCRIPT", "LOAD", f.Script().Source()).Error())
	}
	return &Meter{Conn: Connect(t, redis.Options{URL: tap.Addr()}), Tap: tap, Node: node}
}

// Stats returns Redis's own counts of commands since Reset, without those of the test itself and those about
// connections.
func (m *Meter) Stats(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for field, calls := range m.Node.Numbers(t, "commandstats") {
		if command, ok := strings.CutPrefix(field, "cmdstat_"); ok {
			counts[command] = int(calls)
		}
	}
	for _, other := range []string{"config|resetstat", "info", "hello", "client|setinfo", "ping"} {
		delete(counts, other)
	}
	return counts
}

// Reset resets the counts of Stats.
func (m *Meter) Reset(t testing.TB) {
	t.Helper()
	require.NoError(t, m.Node.Do(t, "CONFIG", "RESETSTAT").Error())
}

// Inside returns how many commands scripts have run since Reset.
func (m *Meter) Inside(t testing.TB) int {
	t.Helper()
	n := 0
	for command, count := range m.Stats(t) {
		if command != "evalsha" {
			n += count
		}
	}
	return n
}

// WithName returns the commands with a name.
func WithName(commands [][]string, name string) [][]string {
	return slices.DeleteFunc(slices.Clone(commands), func(c []string) bool { return c[0] != name })
}
