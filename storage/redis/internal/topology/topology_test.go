package topology

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestParseInfo(t *testing.T) {
	t.Parallel()
	found := parseInfo(
		"# Server\r\nredis_version:7.0.15\r\nexecutable:/a:b\r\n\r\n# Empty\r\nused:\r\nno colon\r\nmaxmemory:12\n")
	require.Equal(t, Info{"redis_version": "7.0.15", "executable": "/a:b", "used": "", "maxmemory": "12"}, found)
	require.EqualValues(t, 12, found.Number("maxmemory"))
	require.Zero(t, found.Number("used"))
	require.Zero(t, found.Number("not there"))
	require.Empty(t, parseInfo(""))
}

func dial(t *testing.T, addresses ...string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addresses, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// A slot that is being moved shows in the topology, and one that has moved makes it another version. All slots have a
// primary throughout.
func TestSlotsThatMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1})
	client := dial(t, cluster.Addrs()...)
	read := func() Topology {
		t.Helper()
		found, err := Read(t.Context(), client)
		require.NoError(t, err)
		require.Len(t, found.Primaries, 3)
		ranges, err := ReadSlots(t.Context(), client)
		require.NoError(t, err)
		require.Empty(t, Uncovered(ranges))
		return found
	}
	before := read()
	require.False(t, before.Moving)
	for i, first := range []int{0, 5461, 10922} {
		require.Equal(t, first, before.Primaries[i].FirstSlot, "by the lowest slot")
	}
	move := cluster.OpenSlot(t, 0, cluster.Nodes()[0], cluster.Nodes()[1])
	require.True(t, read().Moving)
	move.CloseSlot(t)
	after := read()
	require.False(t, after.Moving)
	require.NotEqual(t, before.Version, after.Version)
	require.Equal(t, after.Version, read().Version)
}

// Slots without a primary are named, and a reader of all primaries learns that some are missing.
func TestSlotsWithoutPrimary(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1})
	client := dial(t, cluster.Addrs()...)
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Do(t, "CLUSTER", "DELSLOTS", "0", "1", "7").Error())
	}
	ranges, err := ReadSlots(t.Context(), client)
	require.NoError(t, err)
	require.Equal(t, "0-1,7", Uncovered(ranges))
	_, err = Read(t.Context(), client)
	require.ErrorContains(t, err, "have "+strconv.Itoa(SlotCount-3)+" of the Cluster's 16384 slots")
}

// Without a Cluster the primary is the client.
func TestStandalone(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Standalone(t).Addr())
	found, err := Read(t.Context(), client)
	require.NoError(t, err)
	require.Equal(t, Topology{Primaries: []Primary{{Client: client}}}, found)
}

func TestParseNodes(t *testing.T) {
	t.Parallel()
	const others = "07c3 127.0.0.1:30004@31004 slave e7d1 0 1426238317239 4 connected\n"
	for text, want := range map[string]Primary{
		"67ed 127.0.0.1:30002@31002 myself,master - 0 1426238316232 2 connected 5461-10922 3": {
			FirstSlot: 3, slots: 5463, version: "67ed 2 5461-10922 3"},
		"67ed 127.0.0.1:30002@31002 myself,master - 0 1426238316232 2 connected 7 [93-<-2923]": {
			FirstSlot: 7, slots: 1, moving: true, version: "67ed 2 7 [93-<-2923]"},
		"67ed 127.0.0.1:30002@31002 myself,master - 0 1426238316232 2 connected": {
			FirstSlot: SlotCount, version: "67ed 2 "},
	} {
		var p Primary
		isPrimary, err := p.parse(others + text + "\n")
		require.NoError(t, err)
		require.True(t, isPrimary)
		require.Equal(t, want, p)
	}
	var p Primary
	isPrimary, err := p.parse(strings.Replace(others, "slave", "myself,slave", 1))
	require.NoError(t, err)
	require.False(t, isPrimary)
	for _, text := range []string{"", others, "67ed :1 myself,master - 0 1 2 connected x-y"} {
		_, err := p.parse(text)
		require.Error(t, err, text)
	}
}
