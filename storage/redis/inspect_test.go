package redis

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		redis, valkey    string
		product, version string
		newEnough        bool
	}{
		{"7.0.0", "", "redis", "7.0.0", true},
		{"7.4.2", "", "redis", "7.4.2", true},
		{"8.0.0", "", "redis", "8.0.0", true},
		{"10.0.0", "", "redis", "10.0.0", true},
		{"255.255.255", "", "redis", "255.255.255", true},
		{"7", "", "redis", "7", true},
		{"7.2.4", "7.2.5", "valkey", "7.2.5", true},
		{"7.2.4", "8.1.0", "valkey", "8.1.0", true},
		{"6.2.14", "", "redis", "6.2.14", false},
		{"6.3.4", "", "redis", "6.3.4", false},
		{"0.7.0", "", "redis", "0.7.0", false},
		{"", "", "redis", "", false},
		{"x", "", "redis", "x", false},
		{"v7.0", "", "redis", "v7.0", false},
		{"-7.0", "", "redis", "-7.0", false},
	} {
		i := topology.Info{"redis_version": c.redis, "valkey_version": c.valkey}
		product, version := product(i)
		require.Equal(t, []string{c.product, c.version}, []string{product, version}, "%v", c)
		require.Equal(t, c.newEnough, newEnough(i), "%v", c)
	}
}

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info topology.Info
		want error
	}{
		{topology.Info{"redis_version": "7.0.0", "arch_bits": "64"}, nil},
		{topology.Info{"redis_version": "7.0.0"}, nil}, // hosted Redis often tells little
		{topology.Info{"redis_version": "7.0.0", "arch_bits": "32"}, Err32Bit},
		{topology.Info{"redis_version": "6.2.14", "arch_bits": "64"}, ErrTooOld},
	} {
		require.ErrorIs(t, unfit(c.info), c.want, "%v", c)
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		appendOnly  bool
		fsync, save string
		want        storage.DurabilityLevel
	}{
		{true, "always", "", storage.DurableAlways},
		{true, "everysec", "", storage.DurableEverysec},
		{true, "everysec", "900 1", storage.DurableEverysec},
		{true, "no", "", storage.DurableSnapshot},
		{true, unreadable, "900 1", storage.DurableUnknown},
		{true, unreadable, unreadable, storage.DurableUnknown},
		{false, "everysec", "900 1", storage.DurableSnapshot},
		{false, "always", "", storage.DurableMemory},
		{false, unreadable, "", storage.DurableMemory},
		{false, unreadable, unreadable, storage.DurableUnknown},
		{false, "everysec", unreadable, storage.DurableUnknown},
	} {
		require.Equal(t, c.want, level(storage.Durability{AppendOnly: c.appendOnly, Fsync: c.fsync}, c.save), "%v", c)
	}
}

// TestInspectServers looks at real servers of different configurations.
func TestInspectServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want storage.Durability
	}{
		"nothing on disk": {nil, storage.Durability{Level: storage.DurableMemory, Fsync: "everysec",
			EvictionPolicy: "noeviction"}},
		"always": {
			[]string{"--appendonly", "yes", "--appendfsync", "always"},
			storage.Durability{Level: storage.DurableAlways, AppendOnly: true, Fsync: "always",
				EvictionPolicy: "noeviction"},
		},
		"every second": {
			[]string{"--appendonly", "yes", "--appendfsync", "everysec"},
			storage.Durability{Level: storage.DurableEverysec, AppendOnly: true, Fsync: "everysec",
				EvictionPolicy: "noeviction"},
		},
		"when the system likes": {
			[]string{"--appendonly", "yes", "--appendfsync", "no"},
			storage.Durability{Level: storage.DurableSnapshot, AppendOnly: true, Fsync: "no",
				EvictionPolicy: "noeviction"},
		},
		"snapshots, and eviction": {
			[]string{"--save", "900", "1", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"},
			storage.Durability{
				Level: storage.DurableSnapshot, Fsync: "everysec", EvictionPolicy: "allkeys-lru",
				MaxMemoryBytes: 64 << 20,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connectTo(t, Options{URL: redistest.Start(t, redistest.Options{Args: c.args}).URL()})
			found, err := s.Inspect(t.Context())
			require.NoError(t, err)
			require.Equal(t, "standalone", found.Kind)
			require.Contains(t, []string{"redis", "valkey"}, found.Product)
			require.True(t, newEnough(topology.Info{"redis_version": found.Version}))
			require.Equal(t, c.want, found.Durability)
		})
	}
}

func TestInspectCountsReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	s := connectTo(t, Options{URL: primary.URL(), Kind: "mine"})
	for n := range 2 {
		found, err := s.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, found.Durability.Replicas)
		require.Equal(t, n, found.Durability.MostReplicas)
		require.Equal(t, "mine", found.Kind)
		if n == 0 {
			redistest.StartReplica(t, primary)
		}
	}
}

// TestInspectWithoutCONFIG inspects a Redis that hides its configuration, as some hosted ones do.
func TestInspectWithoutCONFIG(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes"}})
	require.NoError(t, node.Do(t, "ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-config").Error())
	u := url.URL{Scheme: "redis", Host: node.Addr(), User: url.UserPassword("guest", "pw")}
	found, err := connectTo(t, Options{URL: u.String()}).Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, storage.DurableUnknown, found.Durability.Level)
	require.Equal(t, unreadable, found.Durability.Fsync)
	require.True(t, found.Durability.AppendOnly, "INFO tells it")
	require.Equal(t, "noeviction", found.Durability.EvictionPolicy)
}

func TestInspectCluster(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	found, err := connectTo(t, Options{URL: c.Addrs()[0]}).Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "cluster", found.Kind)
	require.Equal(t, 1, found.Durability.Replicas, "each primary has one")
	require.Equal(t, storage.DurableMemory, found.Durability.Level)
}

func TestInspectSentinel(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t, redistest.Options{})
	s := connectTo(t, Options{URL: strings.Join(group.Addrs(), ","), Sentinel: Sentinel{Master: redistest.MasterName}})
	found, err := s.Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "sentinel", found.Kind)
	require.Equal(t, 1, found.Durability.Replicas)
}

func TestInspectValkey(t *testing.T) {
	t.Parallel()
	node, there := redistest.Valkey(t)
	if !there {
		return // make test says so
	}
	found, err := connectTo(t, Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t)}).Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "valkey", found.Product)
	require.True(t, newEnough(topology.Info{"valkey_version": found.Version}))
}
