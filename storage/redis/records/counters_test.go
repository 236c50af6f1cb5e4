package records

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

var weekly = records.Series{Name: "a", Timeframe: records.Weekly, Fields: true}

// calls are one of each operation on "a".
func (s *Counters) calls() []storetest.Call {
	flush := uint64(0)
	return []storetest.Call{
		{Name: "add", Do: func(ctx context.Context) error {
			flush++
			return s.Add(ctx, records.ViewFlush{Process: "p", Number: flush}, []records.ViewCount{{ID: "a", Views: 1}})[0]
		}},
		{Name: "change", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(s.Change(ctx, records.StatsChange{Series: weekly, Values: map[string]int64{"n": 1},
				ID: "1", Repeat: time.Hour}))
		}},
		{Name: "range", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(s.Range(ctx, weekly, time.Time{}, time.Time{}))
		}},
		{Name: "patch", Do: func(ctx context.Context) error {
			p := records.StatePatch{Process: "a", ID: "b", Set: map[string]string{"x": "y"}, TTL: time.Hour}
			return storagetest.ErrorOf(s.States().Patch(ctx, p))
		}},
		{Name: "import", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(s.Import(ctx, records.ImportPart{At: 7, Total: 1, Views: map[string]int64{"a": 1}}))
		}},
		{Name: "slugs", Do: func(ctx context.Context) error { return s.AddSlugs(ctx, map[string]string{"slug": "a"}) }},
		{Name: "totals",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Totals(ctx, []string{"a"})) }},
		{Name: "resolve",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Resolve(ctx, []string{"slug"})) }},
		{Name: "get",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.States().Get(ctx, "a", "b")) }},
		{Name: "delete", Do: func(ctx context.Context) error { return s.States().Delete(ctx, "a", "b") }},
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	var ours []luatest.File
	for _, f := range luatest.Scripts(t, "records") {
		switch f.Stem() {
		case "count_views", "import_views", "current_views", "patch_state", "state", "change_stats", "range_stats":
			ours = append(ours, f)
		}
	}
	require.Len(t, ours, 7)
	storetest.RequireRefusals(t, counterRefusals, map[string]error{
		"RANGE": records.ErrCounterRange, "MANY": records.ErrManyFields, "CONFLICT": records.ErrImportConflict,
		"NONE": records.ErrNoState,
	})
}

// TestCost: the commands that each operation sends, and the number of commands in its script.
func TestCost(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	s := NewCounters(m.Conn)
	want := map[string]map[string]int{
		"add":     {"evalsha": 1, "get": 2, "set": 2},
		"change":  {"evalsha": 1, "time": 1, "exists": 1, "hlen": 1, "hget": 1, "hset": 2, "pexpireat": 2, "set": 1},
		"range":   {"evalsha": 1, "time": 1, "hgetall": 1},
		"patch":   {"evalsha": 1, "hgetall": 1, "hset": 1, "pexpire": 1, "pexpiretime": 1},
		"import":  {"evalsha": 2, "hget": 1, "hlen": 1, "hmget": 1, "hset": 2, "get": 1, "set": 1},
		"slugs":   {"hset": 1},
		"totals":  {"get": 2, "hmget": 1},
		"resolve": {"hmget": 1},
		"get":     {"evalsha": 1, "hgetall": 1, "pexpiretime": 1},
		"delete":  {"del": 1},
	}
	for _, c := range s.calls() {
		m.Reset(t)
		require.NoError(t, c.Do(t.Context()), c.Name)
		require.Equal(t, want[c.Name], m.Stats(t), c.Name)
	}
	patch := records.StatePatch{Process: "p", ID: "1", Set: map[string]string{"a": "1", "b": "2"}, TTL: time.Hour}
	require.NoError(t, storagetest.ErrorOf(s.States().Patch(t.Context(), patch)))
	patch.Replace = true
	m.Reset(t)
	require.NoError(t, storagetest.ErrorOf(s.States().Patch(t.Context(), patch)))
	require.Zero(t, m.Stats(t)["hset"], "fields that have the value aren't written")
}

// TestOtherClock: the server's clock may be wrong by years. Windows are those of Redis.
func TestOtherClock(t *testing.T) {
	t.Parallel()
	conn, _ := storetest.Standalone(t)
	s := NewCounters(conn)
	for _, wrong := range []time.Duration{0, -1000 * time.Hour, 1000 * time.Hour, 8 * time.Hour} {
		s.now = func() time.Time { return time.Now().Add(wrong) }
		w, err := s.Change(t.Context(), records.StatsChange{Series: weekly, Values: map[string]int64{"n": 1},
			ID: wrong.String(), Repeat: time.Hour})
		require.NoError(t, err)
		require.WithinRange(t, time.Now(), w.Start, w.Start.Add(7*24*time.Hour))
		for _, from := range []time.Time{{}, time.Unix(0, 0)} {
			found, err := s.Range(t.Context(), weekly, from, time.Time{})
			require.NoError(t, err)
			require.Equal(t, []records.StatsWindow{w}, found)
		}
	}
}

func TestErrorsOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	s := NewCounters(storetest.Connect(t, redis.Options{URL: node.URL()}))
	storetest.FillUp(t, node)
	calls := s.calls()
	for _, c := range calls[:6] {
		if c.Name != "range" {
			storetest.RequireFull(t, c.Do(t.Context()), c.Name)
		}
	}
	storetest.Set(t, node, "maxmemory", "0")
	for _, key := range []string{
		"stats:{a}:weekly", "state:{a}:b", "migrated_views_{7}", "migrated_views_slugs", "viewed_flush:{a}:p",
	} {
		require.NoError(t, node.Do(t, "RPUSH", key, "x").Error())
	}
	for _, c := range storetest.AllBut(calls, "range", "totals", "delete") { // what they read is sound
		var f *fault.Error
		require.ErrorAs(t, c.Do(t.Context()), &f, c.Name)
		require.Equal(t, fault.Internal, f.Kind, c.Name)
	}
	require.NoError(t, storagetest.ErrorOf(s.Totals(t.Context(), []string{"a"})))
	exists, err := node.Do(t, "EXISTS", "viewed:{a}").AsInt64()
	require.NoError(t, err)
	require.Zero(t, exists, "nothing is half done")
}

// TestHalfMovedSlot: while the keys of "a" are on two nodes, operations that need several of them wait for the end of
// the move, and run once.
func TestHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	s := NewCounters(c.Connect(t, redis.Options{Timeout: time.Minute}))
	month := storetest.Call{Name: "several windows", Do: func(ctx context.Context) error {
		return storagetest.ErrorOf(s.Range(ctx, weekly, time.Now().Add(-30*24*time.Hour), time.Time{}))
	}}
	calls := append(storetest.Only(s.calls(), "add", "change"), month)
	for _, call := range calls {
		require.NoError(t, call.Do(t.Context()))
	}
	move := c.OpenMove(t, "a")
	move.MoveKey(t, "viewed:{a}")
	move.MoveKey(t, "stats:{a}:weekly")
	storetest.RequireEach(storetest.Shortly(t), t, calls, storetest.RequireUnavailable)
	done := make(chan []error, 1)
	go func() { done <- storetest.AtOnce(calls, func(c storetest.Call) error { return c.Do(t.Context()) }) }()
	move.CloseSlot(t)
	for i, err := range <-done {
		require.NoError(t, err, calls[i].Name)
	}
	totals, err := s.Totals(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Equal(t, int64(2), totals[0].Counted)
	found, err := s.Range(t.Context(), weekly, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"n": 1}, found[0].Values)
}
