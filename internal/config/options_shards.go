package config

import (
	"time"

	"github.com/tidemark-dev/tidemark/records/tier"
)

// shardOptions are those of a service that reads through nodes of shards.
func shardOptions() []option {
	reads := func(field func(*ShardReads) *string) func(*Config, string) error {
		return into(func(c *Config) *string { return field(&c.Shards.Reads) }, namedValue(anyText))
	}
	return []option{
		{
			name: "cache-shards", kind: kindList,
			help: "Kinds of values of the cache, such as author, that nodes of shards hold in memory: they are read through the nodes, and changes are announced to these. Not set: none.",
			set:  into(func(c *Config) *[]string { return &c.Shards.Reads.Caches }, namedValue(listOf(ParseCache))),
		},
		{
			name: "shard-hosts", kind: kindList, def: HostsOfRedis,
			help: "Where nodes are: redis for those that Redis knows of, or a list of them with their data centres, such as a=10.0.0.7:7100,b=dns:nodes.b.internal:7100.",
			set:  into(func(c *Config) *[]string { return &c.Shards.Reads.Hosts }, ParseHosts),
		},
		{
			name: "shard-timeout", kind: "duration", def: tier.DefaultTimeout.String(),
			help: "How long nodes may take to answer until a value is read from Redis.",
			set: into(func(c *Config) *time.Duration { return &c.Shards.Reads.Timeout },
				durationBetween(time.Millisecond, time.Second)),
		},
		dcOption(
			"Data centre that the service is in: its nodes are asked first, and those of others if they are slow. Not set: all nodes of a shard are asked at once.", ""),
		pingOption(""),
		tokenOption("File with the token to show to nodes. A line end is not part of it."),
		{
			name: "shard-ca-file", kind: "file",
			help: "PEM file with the authorities that sign the nodes' certificates. Turns TLS to nodes on.",
			set:  reads(func(r *ShardReads) *string { return &r.CAFile }),
		},
		{
			name: "shard-server-name", kind: "text",
			help: "Name that the certificates of all nodes have. Not set: the host of each node's address.",
			set:  reads(func(r *ShardReads) *string { return &r.Name }),
		},
		{
			name: "shard-cert-file", kind: "file",
			help: "PEM file with the certificate to show to nodes that ask for one. Turns TLS to nodes on.",
			set:  reads(func(r *ShardReads) *string { return &r.CertFile }),
		},
		{
			name: "shard-key-file", kind: "file", help: "PEM file with the private key of shard-cert-file.",
			set: reads(func(r *ShardReads) *string { return &r.KeyFile }),
		},
	}
}

// nodeOptions are those of a node.
func nodeOptions() []option {
	node := func(field func(*ShardNode) *string, parse func(string) (string, error)) func(*Config, string) error {
		return into(func(c *Config) *string { return field(&c.Shards.Node) }, parse)
	}
	return []option{
		{
			name: "shard-cache", flagOfNode: "cache", kind: "kind",
			help: "Kind of values of the cache to serve, such as author. It must be set.",
			set:  node(func(n *ShardNode) *string { return &n.Cache }, ParseCache),
		},
		dcOption("Data centre that the node is in. It must be set.", "dc"),
		{
			name: "shard-host-name", flagOfNode: "host", kind: "name",
			help: "Name of the node, unique in its data centre and the same after a restart: the node then gets the shard that it had. Not set: the machine's name and the port.",
			set:  node(func(n *ShardNode) *string { return &n.Host }, ParseName("host")),
		},
		{
			name: "shard-listen", flagOfNode: "listen", kind: "host:port", def: "127.0.0.1:7100",
			help: "Address to listen on for clients. An empty host means all addresses; port 0 means any free port, which is logged.",
			set:  node(func(n *ShardNode) *string { return &n.Listen }, listen),
		},
		{
			name: "shard-advertise", flagOfNode: "advertise", kind: "host:port",
			help: "Address at which clients reach the node. Not set: the one that it listens on, unless that is all addresses.",
			set:  node(func(n *ShardNode) *string { return &n.Advertise }, ParseAdvertise),
		},
		{
			name: "shard-admin-listen", flagOfNode: "admin-listen", kind: "address", def: "127.0.0.1:7101",
			help: "Address to listen on for probes, metrics and profiles: a host:port, unix:PATH for a Unix socket with mode 0600, or off.",
			set:  node(func(n *ShardNode) *string { return &n.AdminListen }, adminListen),
		},
	}
}

// servingOptions are those of a node that say when it answers, what, and to whom.
func servingOptions() []option {
	return []option{
		pingOption("ping-period"),
		{
			name: "shard-lease-ttl", flagOfNode: "lease-ttl", kind: "duration", def: "10s",
			help: "How long a shard stays with a node that has stopped responding, before another node gets it. Two ping periods must fit into nine tenths of it.",
			set:  into(func(c *Config) *time.Duration { return &c.Shards.Node.LeaseTTL }, ParseTTL),
		},
		{
			name: "shard-keep-serving", flagOfNode: "keep-serving", kind: kindSwitch,
			help: "Whether to go on answering while Redis can't be reached. Values may then be old, and a node that hangs may answer beside the one that follows it.",
			set:  into(func(c *Config) *bool { return &c.Shards.Node.KeepServing }, onOrOff),
		},
		{
			name: "shard-reload", flagOfNode: "reload", kind: "duration", def: "10m",
			help: "How often to load everything again. It bounds how old a value is that a program has written to Redis without the service.",
			set: into(func(c *Config) *time.Duration { return &c.Shards.Node.Reload },
				durationBetween(MinReload, forever)),
		},
		{
			name: "shard-load-rate", flagOfNode: "load-rate", kind: "int", def: "50000",
			help: "Maximum number of keys of Redis that the node looks at in a second while it loads.",
			set:  into(func(c *Config) *int { return &c.Shards.Node.LoadRate }, intBetween(1, 10_000_000)),
		},
		{
			name: "shard-memory", flagOfNode: "memory", kind: "bytes",
			help: "Maximum size of all values and their IDs, which take up to 64 bytes more each. What doesn't fit is read from Redis. Not set: no limit.",
			set:  into(func(c *Config) *int { return &c.Shards.Node.Memory }, byteCount),
		},
		{
			name: "shard-max-connections", flagOfNode: "max-connections", kind: "int", def: "1024",
			help: "Maximum number of connections of clients. A service has one to each node.",
			set:  into(func(c *Config) *int { return &c.Shards.Node.MaxConnections }, intBetween(1, 1_000_000)),
		},
		tokenOption(
			"File with the token that clients must show, also for metrics and profiles. A line end is not part of it."),
		{
			name: "shard-insecure", flagOfNode: "insecure", kind: kindSwitch,
			help: "Whether to let everybody read on addresses that other machines can reach. Otherwise the node listens there only with shard-token-file or tls-client-ca.",
			set:  into(func(c *Config) *bool { return &c.Shards.Node.Insecure }, onOrOff),
		},
	}
}

// Options that services and nodes both have.

func dcOption(help, flagOfNode string) option {
	return option{
		name: "shard-dc", flagOfNode: flagOfNode, kind: "name", help: help,
		set: into(func(c *Config) *string { return &c.Shards.DC }, ParseName("data centre")),
	}
}

func pingOption(flagOfNode string) option {
	return option{
		name: "shard-ping-period", flagOfNode: flagOfNode, kind: "duration", def: "1s",
		help: "How often a node renews its lease, and how often a client asks each node for its shard.",
		set: into(func(c *Config) *time.Duration { return &c.Shards.PingPeriod },
			durationBetween(MinPingPeriod, MaxPingPeriod)),
	}
}

func tokenOption(help string) option {
	return option{
		name: "shard-token-file", kind: "file", help: help,
		set: into(func(c *Config) *string { return &c.Shards.TokenFile }, namedValue(anyText)),
	}
}
