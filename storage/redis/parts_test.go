package redis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartsOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, 12739, slotOf("123456789")) // of the Cluster specification
	all := partsOf("server", []slotRange{
		{first: 0, last: 0, primary: "a"}, {first: 1, last: 99, primary: "b"}, {first: 100, last: 101, primary: "a"},
		{first: 102, last: 8000, primary: "a"}, {first: 8002, last: slotCount - 1, primary: "b"},
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

	var spread []slotRange
	for slot := range slotCount {
		spread = append(spread, slotRange{first: slot, last: slot, primary: "ab"[slot%2 : slot%2+1]})
	}
	for _, p := range partsOf("server", spread) {
		require.LessOrEqual(t, len(p.slots), maxSlotsText+10)
		require.True(t, strings.HasSuffix(p.slots, ",…"), p.slots)
	}
}
