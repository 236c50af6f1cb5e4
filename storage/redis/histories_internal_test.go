package redis

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// A history that was left at offset 1,000 is seen there, and after some seconds with more bytes.
func TestPingsAreNoLoss(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 28, 15, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		seconds, bytes int
		lost           bool
	}{
		{1, 0, false},
		{1, 14, false},
		{1, 28, true}, // two PINGs take 10 s
		{9, 28, true},
		{10, 28, false},
		{25, 42, false},
		{25, 56, true},
		{100, 32, true}, // no number of PINGs
		{100, 13, true},
	} {
		h := &history{began: began, marks: []mark{{began, 1000}}}
		h.add(mark{began.Add(time.Duration(tt.seconds) * time.Second), int64(1000 + tt.bytes)})
		lost, since, bytes := h.lostAfter(1000)
		require.Equal(t, tt.lost, lost, tt)
		if lost {
			require.Equal(t, began, since)
			require.EqualValues(t, tt.bytes, bytes)
		}
	}
}

// primaryInfo is what a primary says of its history.
func primaryInfo(run, id string, offset int, before string, end int) topology.Info {
	return topology.Info{"role": "master", "run_id": run, "master_replid": id, "master_repl_offset": strconv.Itoa(offset),
		"master_replid2": before, "second_repl_offset": strconv.Itoa(end + 1)}
}

// What was written after the offset at which a history was left is lost, since the last mark up to it. An ID that
// changes because a primary gets its first replica is no fail-over, nor is a primary that isn't known to continue
// another one.
func TestHistories(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 28, 15, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	none := "0000000000000000000000000000000000000000"
	seen := histories{}
	expect := func(second int, address string, fields topology.Info, want Failover) {
		t.Helper()
		f, found := seen.observe(at(second), address, fields)
		require.Equal(t, want, f)
		require.Equal(t, want != Failover{}, found)
	}
	expect(0, "a", primaryInfo("A", "x", 0, none, -2), Failover{})
	expect(1, "a", primaryInfo("A", "y", 10, none, -2), Failover{}) // it has a replica now
	for second := 2; second < 5000; second++ {                      // idle, and then cut off
		expect(second, "a", primaryInfo("A", "y", 10+max(0, second-900), none, -2), Failover{})
	}
	require.LessOrEqual(t, len(seen["y"].marks), historyMarks)
	expect(5000, "b", topology.Info{"role": "slave", "master_replid": "z"}, Failover{})
	f, _ := seen.observe(at(5001), "b", primaryInfo("B", "z", 10, "y", 10))
	require.WithinDuration(t, at(900), f.LostSince, 8*time.Second, "marks are thinned out")
	require.False(t, f.LostSince.After(at(900)))
	f.LostSince = time.Time{}
	require.Equal(t, Failover{From: "a", To: "b", At: at(5001), Lost: true, LostBytes: 4099}, f)
	expect(5002, "a", primaryInfo("A", "w", 20, "z", 20), Failover{From: "b", To: "a", At: at(5002)})
	expect(5003, "c", primaryInfo("C", "v", 20, "unknown", 20), Failover{})
	expect(5003, "hosted", topology.Info{"role": "master"}, Failover{})
	seen.forget(at(5003).Add(historyKept))
	require.Len(t, seen, 1)
}
