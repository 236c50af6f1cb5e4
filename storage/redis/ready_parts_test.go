package redis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

func TestPartsOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, 12739, slotOf("123456789")) // of the Cluster specification
	all := partsOf("server", []topology.SlotRange{
		{First: 0, Last: 0, Primary: "a"}, {First: 1, Last: 99, Primary: "b"}, {First: 100, Last: 101, Primary: "a"},
		{First: 102, Last: 8000, Primary: "a"}, {First: 8002, Last: topology.SlotCount - 1, Primary: "b"},
	})
	require.Len(t, all, 3)
	tags := map[string]string{}
	for _, p := range all {
		tags[p.slots] = p.tag
		require.True(t, p.tag == "server" || strings.HasPrefix(p.tag, "server."), p.tag)
	}
	require.Contains(t, tags, "0,100-8000")
	require.Contains(t, tags, "1-99,8002-16383")
	require.Equal(t, 8001, slotOf(tags["8001"]), "no primary has it")
	require.Equal(t, []part{{tag: "server", slots: "0-16383"}}, partsOf("server", nil))

	var spread []topology.SlotRange
	for slot := range topology.SlotCount {
		spread = append(spread, topology.SlotRange{First: slot, Last: slot, Primary: "ab"[slot%2 : slot%2+1]})
	}
	for _, p := range partsOf("server", spread) {
		require.LessOrEqual(t, len(p.slots), topology.MaxSlotsText+10)
		require.True(t, strings.HasSuffix(p.slots, ",…"), p.slots)
	}
}
