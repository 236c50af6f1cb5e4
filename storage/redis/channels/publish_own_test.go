package channels

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// cutStore is a store behind a proxy that can lose answers.
type cutStore struct {
	*Store
	direct *Store // without the proxy
	proxy  *redistest.Proxy
}

func openCut(t *testing.T, n *redistest.Node) cutStore {
	t.Helper()
	c := cutStore{proxy: redistest.NewProxy(t, n)}
	o := redis.Options{URL: c.proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: time.Minute}
	c.Store = open(t, o)
	o.URL = n.URL()
	c.direct = open(t, o)
	require.NoError(t, storagetest.ErrorOf(c.direct.Publish(t.Context(), publishOf("loads-the-script", "m1"))))
	return c
}

// loseAnswers cuts all connections after each of the next runs of a script, so that their answers are lost. It returns
// the number of answers that remain to be lost.
func (c cutStore) loseAnswers(sc *lua.Script, times int64) *atomic.Int64 {
	var lost atomic.Int64
	lost.Store(times)
	c.proxy.Fail(func(command []string) string {
		if strings.HasPrefix(command[0], "EVAL") && (command[1] == sc.SHA1() || command[1] == sc.Source()) &&
			lost.Add(-1) >= 0 {
			c.proxy.Cut()
		}
		return ""
	})
	return &lost
}

// publish publishes drafts and returns which of them were reported as duplicates.
func (c cutStore) publish(t *testing.T, r channel.PublishRequest) []bool {
	t.Helper()
	published, err := c.Publish(t.Context(), r)
	require.NoError(t, err)
	duplicates := make([]bool, len(published))
	for i, p := range published {
		require.Equal(t, r.Drafts[i].ID, p.ID)
		duplicates[i] = p.Duplicate
	}
	return duplicates
}

// TestOwnRetryIsNoDuplicate loses the answers of publishes that Redis has executed. The store tries again, finds the
// message, and doesn't report it as a duplicate.
func TestOwnRetryIsNoDuplicate(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int64{"one answer lost": 1, "three answers lost": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openCut(t, redistest.Standalone(t))
			lost := c.loseAnswers(publishScript, times)
			require.Equal(t, []bool{false}, c.publish(t, publishOf("x", "m1")))
			require.LessOrEqual(t, lost.Load(), int64(-1), "the call was tried again")
			require.Equal(t, []bool{true}, c.publish(t, publishOf("x", "m1")), "a call of its own is a repeat")
			at, err := c.Position(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, clock.Clock(1), at.Clock)
		})
	}
}

// TestRepeatIsADuplicateAlsoWhenRetried publishes a message again that another call has published before, or at the
// same time with another content, and loses the answer.
func TestRepeatIsADuplicateAlsoWhenRetried(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	require.NoError(t, storagetest.ErrorOf(c.direct.Publish(t.Context(), publishOf("x", "m1"))))
	lost := c.loseAnswers(publishScript, 1)
	require.Equal(t, []bool{true}, c.publish(t, publishOf("x", "m1")))
	require.Negative(t, lost.Load())

	// Another publisher publishes between the call's beginning and its first try.
	lost = c.loseAnswers(publishScript, 1)
	other := publishOf("x", "m2")
	other.Drafts[0].Content = []byte(`"of another"`)
	require.NoError(t, storagetest.ErrorOf(c.direct.Publish(t.Context(), other)))
	require.Equal(t, []bool{true}, c.publish(t, publishOf("x", "m2")))
	require.Negative(t, lost.Load())
}

// TestOwnRetryOfABatch decides the origin of each message of a batch.
func TestOwnRetryOfABatch(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	require.NoError(t, storagetest.ErrorOf(c.direct.Publish(t.Context(), publishOf("x", "a"))))
	batch := publishOf("x", "a")
	batch.Drafts = drafted("a", "b", "c", "b")
	lost := c.loseAnswers(publishScript, 1)
	require.Equal(t, []bool{true, false, false, true}, c.publish(t, batch))
	require.Negative(t, lost.Load())
	require.Equal(t, []bool{true, true, true, true}, c.publish(t, batch))
}

// TestOwnRetryOfAReplicatedPublish loses the answer of WAIT: the message is known to be stored.
func TestOwnRetryOfAReplicatedPublish(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	redistest.StartReplica(t, n)
	c := openCut(t, n)
	r := publishOf("x", "m1")
	r.Policy.Replicas = 1
	var lost atomic.Bool
	c.proxy.Fail(func(command []string) string {
		if command[0] == "WAIT" && lost.CompareAndSwap(false, true) {
			c.proxy.Cut()
		}
		return ""
	})
	require.Equal(t, []bool{false}, c.publish(t, r))
	require.True(t, lost.Load())
	require.Equal(t, []bool{true}, c.publish(t, r))
}

// TestUnknownOriginIsADuplicate: a message whose origin can't be read stays a duplicate.
func TestUnknownOriginIsADuplicate(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	var lost atomic.Bool
	c.proxy.Fail(func(command []string) string {
		switch {
		case strings.HasPrefix(command[0], "EVAL") && lost.CompareAndSwap(false, true):
			c.proxy.Cut()
		case command[0] == "GET":
			return "ERR not now"
		}
		return ""
	})
	require.Equal(t, []bool{true}, c.publish(t, publishOf("x", "m1")))
	require.True(t, lost.Load())
}
