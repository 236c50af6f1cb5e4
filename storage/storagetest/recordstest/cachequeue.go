package recordstest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
)

var queueCases = []storagetest.Case[*queue]{
	{Name: "values are read in order until they are done",
		Notice: "a write-behind value is lost, or overwritten by an older one", Run: inOrder},
	{Name: "the last value is pending", Notice: "a reader loads what was overwritten", Run: pending},
	{Name: "a repeat adds nothing", Notice: "a value is written twice after a lost reply", Run: repeats},
	{Name: "the backlog is bounded", Notice: "a writer that fails fills the storage", Run: bounded},
	{Name: "watchers are notified of values", Notice: "values wait although nothing fails", Run: notifies},
}

// RunCacheQueue runs the cases of cache.Queue.
func RunCacheQueue(t *testing.T, open func(t testing.TB) cache.Queue) {
	t.Helper()
	storagetest.Run(t, queueCases, func(t testing.TB) *queue {
		t.Helper()
		return &queue{t: t, Queue: open(t)}
	})
}

type queue struct {
	cache.Queue

	t testing.TB
}

func (q *queue) add(id, token, data string) {
	q.t.Helper()
	require.NoError(q.t, q.Add(q.t.Context(), cache.Value{Key: key(id), Token: token, Bytes: []byte(data)}))
}

func (q *queue) all(of *records.Kind, after string, n int) (found []cache.Queued, texts []string) {
	q.t.Helper()
	found, err := q.Read(q.t.Context(), of, after, n)
	require.NoError(q.t, err)
	for _, e := range found {
		texts = append(texts, e.ID+"="+string(e.Bytes))
	}
	return found, texts
}

func (q *queue) pending(id string) string {
	q.t.Helper()
	data, found, err := q.Pending(q.t.Context(), key(id))
	require.NoError(q.t, err)
	if !found {
		return "none"
	}
	return string(data)
}

func inOrder(q *queue) {
	q.add("a", "1", "\x00")
	q.add("b", "2", "")
	q.add("a", "3", "x")
	found, texts := q.all(kind, "", 10)
	require.Equal(q.t, []string{"a=\x00", "b=", "a=x"}, texts)
	_, texts = q.all(kind, found[0].Position, 1)
	require.Equal(q.t, []string{"b="}, texts)
	_, texts = q.all(second, "", 10)
	require.Empty(q.t, texts)
	for range 2 {
		require.NoError(q.t, q.Done(q.t.Context(), kind, found[1:2]))
		_, texts = q.all(kind, "", 10)
		require.Equal(q.t, []string{"a=\x00", "a=x"}, texts)
	}
	require.NoError(q.t, q.Done(q.t.Context(), kind, found))
	_, texts = q.all(kind, "", 10)
	require.Empty(q.t, texts)
	q.add("a", "4", "y")
	_, texts = q.all(kind, "", 10)
	require.Equal(q.t, []string{"a=y"}, texts)
}

func pending(q *queue) {
	require.Equal(q.t, "none", q.pending("a"))
	q.add("a", "1", "x")
	q.add("a", "2", "y")
	q.add("b", "3", "z")
	require.Equal(q.t, "y", q.pending("a"))
	found, _ := q.all(kind, "", 10)
	require.NoError(q.t, q.Done(q.t.Context(), kind, found[:1]))
	require.Equal(q.t, "y", q.pending("a"))
	require.NoError(q.t, q.Done(q.t.Context(), kind, found[1:2]))
	require.Equal(q.t, "none", q.pending("a"))
	require.Equal(q.t, "z", q.pending("b"))
}

func repeats(q *queue) {
	q.add("a", "1", "x")
	q.add("a", "1", "x")
	_, texts := q.all(kind, "", 10)
	require.Len(q.t, texts, 1)
}

func bounded(q *queue) {
	large := strings.Repeat("x", 1<<20)
	n := 0
	for err := error(nil); err == nil; n++ {
		err = q.Add(q.t.Context(), cache.Value{Key: key("a"), Token: large[:n], Bytes: []byte(large)})
		require.NoError(q.t, storagetest.Ignoring(err, cache.ErrBacklogFull))
	}
	require.Equal(q.t, cache.MaxBacklogBytes>>20+1, n)
	first, _ := q.all(kind, "", 1)
	require.NoError(q.t, q.Done(q.t.Context(), kind, first))
	q.add("b", "next", large)
}

func notifies(q *queue) {
	notified, _ := storagetest.Watch(q.t, func(changed func()) func() { return q.Watch(kind, changed) })
	q.add("a", "1", "x")
	storagetest.Await(q.t, notified)
	found, _ := q.all(kind, "", 1)
	require.NoError(q.t, q.Done(q.t.Context(), kind, found))
	storagetest.Await(q.t, notified)
}
