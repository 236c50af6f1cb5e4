package records_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// set writes values of authors, which end after a time that isn't 0.
func set(t *testing.T, client rueidis.Client, prefix string, ttl time.Duration, values map[string]string) {
	t.Helper()
	for id, value := range values {
		command := client.B().Set().Key(prefix + site.Kind("author").Key(id)).Value(value)
		if ttl > 0 {
			require.NoError(t, client.Do(t.Context(), command.Px(ttl).Build()).Error())
		} else {
			require.NoError(t, client.Do(t.Context(), command.Build()).Error())
		}
	}
}

// rest returns the IDs that a scan still finds, each once.
func rest(t *testing.T, w domain.Walk) []string {
	t.Helper()
	found := map[string]bool{}
	for {
		ids, _, err := w.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return slices.Sorted(maps.Keys(found))
		}
		require.NoError(t, err)
		for _, id := range ids {
			found[id] = true
		}
	}
}

// On all kinds of Redis a scan finds the IDs of its kind and prefix, and their values are read with their remaining
// TTLs.
func TestValues(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		prefix := redistest.Prefix(t) + `*[a-z]?\`
		values := redisrecords.NewValues(storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: prefix}))
		many := map[string]string{"{ é}": "x", "large": strings.Repeat("x", site.Kind("author").MaxBytes),
			"larger": strings.Repeat("x", site.Kind("author").MaxBytes+1), "empty": ""}
		for i := range 2000 {
			many[fmt.Sprint("many", i)] = fmt.Sprint(i)
		}
		set(t, r.Client, prefix, 0, many)
		set(t, r.Client, prefix, time.Hour, map[string]string{"ends": "y"})
		set(t, r.Client, strings.ReplaceAll(prefix, `*[a-z]?\`, "xay"), 0, map[string]string{"other": "z"})
		for _, key := range []string{site.Kind("topic").Key("topic"), site.Kind("author-slug").Key("slug"),
			"author:id:{%41}", "author:id:{a}b"} {
			require.NoError(t,
				r.Client.Do(t.Context(), r.Client.B().Set().Key(prefix+key).Value("foreign").Build()).Error())
		}
		require.NoError(t,
			r.Client.Do(t.Context(), r.Client.B().Rpush().Key(prefix+site.Kind("author").Key("list")).Element(
				"x").Build()).Error())

		want := append(slices.Collect(maps.Keys(many)), "ends", "list")
		slices.Sort(want)
		require.Equal(t, want, rest(t, values.Walk(site.Kind("author"))))

		read, err := values.Read(t.Context(), site.Kind("author"), []string{"{ é}", "none", "ends", "list", "large",
			"larger", "empty"})
		require.NoError(t, err)
		require.Equal(t, "x", string(read[0].Bytes))
		require.InDelta(t, time.Hour, read[2].Left, float64(time.Minute))
		for i, found := range []bool{true, false, true, false, true, false, false} {
			require.Equal(t, found, read[i].Found, i)
			if i != 2 {
				require.Zero(t, read[i].Left)
			}
		}
		life, err := values.Life(t.Context())
		require.NoError(t, err)
		again, err := values.Life(t.Context())
		require.NoError(t, err)
		require.Equal(t, life, again)
		require.GreaterOrEqual(t, len(life), 40)
	})
}

// Plain keys are found, and those with braces aren't.
func TestPlainValues(t *testing.T) {
	t.Parallel()
	node, prefix, kind := redistest.Standalone(t), redistest.Prefix(t), site.Kind("author").In(true)
	values := redisrecords.NewValues(storetest.Connect(t, redis.Options{URL: node.URL(), KeyPrefix: prefix,
		PlainKeys: true}))
	for _, key := range []string{"author:id:a b", "author:id:7:8", "author:id:{7}", "author:slug:9"} {
		require.NoError(t, node.Do(t, "SET", prefix+key, "of "+key).Error())
	}
	require.Equal(t, []string{"7:8", "a b"}, rest(t, values.Walk(kind)))
	read, err := values.Read(t.Context(), kind, []string{"a b"})
	require.NoError(t, err)
	require.Equal(t, "of author:id:a b", string(read[0].Bytes))
}

// A scan finds all keys even if slots move to nodes that it has already scanned.
func TestWalkWhileSlotsMove(t *testing.T) {
	t.Parallel()
	nodes := storetest.StartTwoNodes(t)
	values := redisrecords.NewValues(nodes.Connect(t, redis.Options{}))
	first := nodes.Nodes()[0]
	here, there := "1", "2"
	for i := 3; nodes.Owner(t, nodes.SlotOf(here)) != first; i++ {
		here = fmt.Sprint(i)
	}
	for i := 3; nodes.Owner(t, nodes.SlotOf(there)) == first; i++ {
		there = fmt.Sprint(i)
	}
	want := []string{here, there}
	slices.Sort(want)
	set(t, nodes.Direct, "", 0, map[string]string{here: "x", there: "y"})

	// One key moves to the node that the walk visits later, and one in the other direction: first while their slots
	// remain half moved, then with the whole slots.
	halves := []*redistest.SlotMove{nodes.OpenMove(t, here), nodes.OpenMove(t, there)}
	w := values.Walk(site.Kind("author"))
	_, _, err := w.Next(t.Context())
	require.NoError(t, err)
	for _, half := range halves {
		half.MoveKeys(t, 2)
	}
	require.Equal(t, want, rest(t, w))
	for _, half := range halves {
		half.CloseSlot(t)
	}

	w = values.Walk(site.Kind("author"))
	_, _, err = w.Next(t.Context())
	require.NoError(t, err)
	nodes.Move(t, here)
	nodes.Move(t, there)
	require.Equal(t, want, rest(t, w))
}

// A value that ends within the millisecond in which it is read isn't one without an end.
func TestValueThatEndsNow(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]domain.Value{
		-2: {}, 0: {}, -1: {Found: true}, 1: {Found: true, Left: time.Millisecond},
	} {
		want.Bytes = []byte("x")
		require.Equal(t, want, redisrecords.ValueOf(ms, []byte("x"), 1), ms)
	}
}
