package storage

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOlderVersion(t *testing.T) {
	t.Parallel()
	inOrder := []string{"", "6.2.14", "7", "7.0", "7.0.2", "7.0.15", "7.2.4", "7.10.0", "8.0.0", "10.0.0"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			require.Equal(t, i < j, olderVersion(a, b), "%q is older than %q", a, b)
		}
	}
}

// safe is a storage that needs no warning.
func safe() Description {
	return Description{Kind: "cluster", Product: "redis", Version: "7.2.4", Durability: Durability{
		Level: DurableEverysec, AppendOnly: true, Fsync: "everysec", Replicas: 2, MostReplicas: 2, EvictionPolicy: "noeviction",
	}}
}

func TestWeaker(t *testing.T) {
	t.Parallel()
	require.Equal(t, safe(), Weaker(safe(), safe()))
	for name, change := range map[string]func(d *Description){
		"memory": func(s *Description) {
			s.Durability.Level, s.Durability.AppendOnly, s.Durability.Fsync = DurableMemory, false, "no"
		},
		"unknown":           func(s *Description) { s.Durability.Level = DurableUnknown },
		"snapshot":          func(s *Description) { s.Durability.Level = DurableSnapshot },
		"no replica":        func(s *Description) { s.Durability.Replicas = 0 },
		"more replicas":     func(s *Description) { s.Durability.MostReplicas = 3 },
		"eviction":          func(s *Description) { s.Durability.EvictionPolicy = "allkeys-lru" },
		"unknown eviction":  func(s *Description) { s.Durability.EvictionPolicy = "unknown" },
		"a limit of memory": func(s *Description) { s.Durability.MaxMemoryBytes = 5 },
		"older":             func(s *Description) { s.Version = "7.0.15" },
	} {
		weak := safe()
		change(&weak)
		require.Equal(t, weak, Weaker(safe(), weak), name)
		require.Equal(t, weak, Weaker(weak, safe()), name)
	}
	small, large := safe(), safe()
	small.Durability.MaxMemoryBytes, large.Durability.MaxMemoryBytes = 5, 6
	require.Equal(t, small, Weaker(small, large))
	require.Equal(t, small, Weaker(large, small))

	evicts, silent := safe(), safe()
	evicts.Durability.EvictionPolicy, silent.Durability.EvictionPolicy = "volatile-ttl", "unknown"
	require.Equal(t, evicts, Weaker(silent, evicts),
		"what one primary tells isn't hidden by another that tells nothing")
	require.Equal(t, evicts, Weaker(evicts, silent))

	memory, unknown := safe(), safe()
	memory.Durability.Level, unknown.Durability.Level = DurableMemory, DurableUnknown
	require.Equal(t, DurableMemory, Weaker(unknown, memory).Durability.Level,
		"to lose everything for certain is the least")
}

func TestEvicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy        string
		maxMemory     int64
		evicts, known bool
	}{
		{"noeviction", 5, false, true}, {"allkeys-lru", 0, false, true}, {"allkeys-lru", 5, true, true},
		{"volatile-ttl", 5, true, true}, {"unknown", 5, false, false},
	} {
		evicts, known := Durability{EvictionPolicy: c.policy, MaxMemoryBytes: c.maxMemory}.Evicts()
		require.Equal(t, []bool{c.evicts, c.known}, []bool{evicts, known}, c.policy)
	}
}
