package config

import (
	"math"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// This file is the table of all options. Each function returns the options of a group, as values of c: their names, the
// kind of their value, their default, their setter, and their help.

const (
	// forever is the maximum of durations without another limit.
	forever = 365 * 24 * time.Hour
	// maxLeeway is more than synchronized clocks differ by.
	maxLeeway = 5 * time.Minute

	defaultUserLimits = "requests=100/s,publishedBytes=1MiB/s,waits=100,tickets=60/m,newChannels=60/m," +
		"newSubscribers=600/m"
	// defaultSessionGrants let the user of a session of a community site follow notifications.
	defaultSessionGrants = `[{"actions":["subscribe","describe"],"channels":["notifications:{sub}",` +
		`"notifications:global","notifications:topic:*","notifications:author:*","notifications:shout:*"]},` +
		`{"actions":["read"],"records":["channels-of/{sub}"]}]`
)

func serverOptions(c *Config) []option {
	return []option{
		define("listen", "host:port", "127.0.0.1:8080", to(&c.Server.Listen, listen), `
			Address to listen on for HTTP. An empty host means all addresses; port 0 means any free port, which is
			logged.`),
		define("admin-listen", "address", "127.0.0.1:8081", to(&c.Server.AdminListen, adminListen), `
			Address to listen on for administrators: the whole HTTP API, and only here the metrics, profiles, and
			calls that change queues. A host:port as for HTTP, unix:PATH for a Unix socket with mode 0600, or off.`),
		define("port-offset", "int", "0", to(&c.Server.PortOffset, intBetween(0, 65535)), `
			Number that is added to the port of each address to listen on. A second service on a machine needs only a
			port-offset and a data-dir of its own.`),
		define("grace", "duration", "30s", to(&c.Server.Grace, durationBetween(0, forever)), `
			How long requests in flight may take to finish after SIGTERM or SIGINT.`),
		define("drain-delay", "duration", "0s", to(&c.Server.DrainDelay, durationBetween(0, forever)), `
			How long to keep serving after readiness has turned 503, so that load balancers notice. It is part of the
			grace.`),
		define("cors-origins", kindList, "", to(&c.Server.CORSOrigins, listOf(origin)), `
			Origins whose pages may call the API, such as https://example.com or https://*.example.com, or * for all.
			Not set: only the service's own.`),
		define("allow-hosts", kindList, "", to(&c.Server.AllowHosts, listOf(host)), `
			Host names under which the service may be called, such as tidemark.example.com or *.example.com. IP
			addresses and localhost are always allowed. Not set: none if it needs no credentials or listens on a
			loopback address, and otherwise all names.`),
		define("trust-traces", kindSwitch, "", to(&c.Server.TrustTraces, strictjson.ParseBool), `
			Whether the sampled flag of a request's header traceparent alone decides that it is traced. Otherwise
			OTEL_TRACES_SAMPLER_ARG applies to these requests too, so that clients can't make the service trace all that
			they send.`),
		define("predecessor-prefix", "path", "", to(&c.Server.OldPrefix, pathPrefix), `
			Path below which the predecessor's API is served, as with its http.pathPrefix: with /old, /old/channel/...
			and /old/probe/... At most 128 bytes, and not below /v1.`),
		define("durable-streams", "path", "/v1/stream/", to(&c.Server.DurableStreams, streamPrefix), `
			Path below which channels are served by the Durable Streams protocol, with a slash at its end; off: it isn't.
			At most 128 bytes, and below /v1 only /v1/stream/.`),
	}
}

func grpcOptions(c *Config) []option {
	return []option{
		define("grpc-listen", "host:port", "127.0.0.1:50504", to(&c.GRPC.Listen, listenOrOff), `
			Address to listen on for gRPC over HTTP/2, as for HTTP; off for none: then gRPC is served on the HTTP port
			only. It is off by default if listen or a service of openmatch-listen has the port 50504.`),
		define("grpc-message-bytes", "bytes", "1MiB", to(&c.GRPC.MessageBytes, ParseBytes), `
			Maximum size of a message in a gRPC call, and so of a ticket with its extensions.`),
		define("grpc-query-page", "int", "100", to(&c.GRPC.QueryPage, intBetween(10, 10_000)), `
			Maximum number of tickets or backfills in one message of the answer to a query, from 10 to 10000.
			A message also has at most 256KiB, unless one ticket has more.`),
		define("query-page-size", "int", "", to(&c.GRPC.QueryPage, intBetween(10, 10_000)), `
			The same as grpc-query-page, by the name that it has in Open Match's configuration. It overrides
			grpc-query-page.`),
		define("openmatch-listen", kindList, "", to(&c.GRPC.OpenMatch, openMatchListen), `
			Ports of Open Match's services, each with gRPC and JSON, such as
			frontend=:50504,backend=:50505,query=:50503. Each port has one service, health checks, reflection and
			probes. With a port for backend, the default queue is directed by its user, unless it is defined.`),
	}
}

func tlsOptions(c *Config) []option {
	return []option{
		define("tls-cert", "file", "", to(&c.TLS.Cert, namedValue(anyText)), `
			PEM file with the certificate that all TCP listeners show, followed by those of the authorities between it
			and a root. Turns TLS on. Read again when the file changes.`),
		define("tls-key", "file", "", to(&c.TLS.Key, namedValue(anyText)), `
			PEM file with the private key of tls-cert.`),
		define("tls-client-ca", "file", "", to(&c.TLS.ClientCA, namedValue(anyText)), `
			PEM file with the authorities that sign clients' certificates. Clients must then show one, on all TCP
			listeners.`),
	}
}

func accessOptions(c *Config) []option {
	return []option{
		define("api-keys", "file", "", to(&c.Access.KeysFile, namedValue(anyText)), `
			YAML or JSON file with API keys, which tidemark key create --append writes. Read again when it changes.
			With this option the service requires credentials.`),
		define("require-credentials", kindSwitch, "", to(&c.Access.Require, strictjson.ParseBool), `
			Whether to require credentials even if neither api-keys nor jwt-keys is set. API keys can be created
			through the admin listener, if it is a Unix socket.`),
		define("insecure", kindSwitch, "", to(&c.Access.Insecure, strictjson.ParseBool), `
			Whether to let everybody do everything on addresses that other machines can reach. Otherwise the service
			listens there only if it requires credentials.`),
	}
}

func redisOptions(c *Config) []option {
	return []option{
		define("redis", "url", "", to(&c.Redis.Address, anyText), `
			Redis to use: redis://host:port/db, rediss:// for TLS, unix:///path, or host:port,host:port for a Cluster
			or Sentinels. Not set: the service runs one of its own.`),
		define("key-prefix", "text", "", to(&c.Redis.KeyPrefix, keyPrefix), `
			Prefix of every Redis key, so that several installations can share a Redis.`),
		define("redis-username", "text", "", to(&c.Redis.Username, anyText), `
			User to log in as.`),
		define("redis-password", "text", "", to(&c.Redis.Password, password), `
			Password to log in with. A line end is not part of it. Other users of the machine can see flags: prefer the
			variable or the file.`).secret(),
		define("redis-password-file", "file", "", to(&c.Redis.PasswordFile, passwordFile), `
			File that contains the password. A line end is not part of it. The file is read again for each new connection,
			and every minute for the open ones, which log in again: replace it two minutes before the password ends.`),
		define("redis-timeout", "duration", "5s", to(&c.Redis.Timeout, durationBetween(time.Millisecond, forever)), `
			Time limit of one operation on Redis, with its retries. Beyond it the request is answered 503.`),
		define("redis-connect-timeout", "duration", "30s",
			to(&c.Redis.ConnectTimeout, durationBetween(time.Millisecond, forever)), `
			How long to try to reach Redis at start-up.`),
	}
}

func redisAccessOptions(c *Config) []option {
	return []option{
		define("redis-ca-file", "file", "", to(&c.Redis.TLS.CAFile, anyText), `
			PEM file with the authorities that may sign Redis's certificate, in place of the system's. Turns TLS on.`),
		define("redis-server-name", "text", "", to(&c.Redis.TLS.Name, anyText), `
			Name that the certificates of all nodes and Sentinels of --redis have, for nodes that announce addresses. Turns
			TLS on. Not set: the host of each one's address.`),
		define("redis-cert-file", "file", "", to(&c.Redis.TLS.CertFile, anyText), `
			PEM file with the service's own certificate, for a Redis that asks for one. Turns TLS on.`),
		define("redis-key-file", "file", "", to(&c.Redis.TLS.KeyFile, anyText), `
			PEM file with the private key of redis-cert-file.`),
		define("redis-sentinel-master", "text", "", to(&c.Redis.Sentinel.Master, anyText), `
			Name of the primary that the Sentinels watch. The addresses of --redis are then those of the Sentinels.`),
		define("redis-sentinel-username", "text", "", to(&c.Redis.Sentinel.Username, anyText), `
			User to log in to the Sentinels as.`),
		define("redis-sentinel-password", "text", "", to(&c.Redis.Sentinel.Password, password), `
			Password to log in to the Sentinels with. A line end is not part of it.`).secret(),
		define("redis-sentinel-password-file", "file", "", to(&c.Redis.Sentinel.PasswordFile, passwordFile), `
			File that contains the password of the Sentinels, which is read again as redis-password-file is.`),
	}
}

func managedOptions(c *Config) []option {
	return []option{
		define("data-dir", "directory", "./tidemark-data", to(&c.Managed.DataDir, anyText), `
			Directory in which the managed Redis keeps its data. Only one service at a time can use it.`),
		define("redis-binary", "file", "", to(&c.Managed.Binary, anyText), `
			Redis server to run, as a path or a name in PATH. Not set: redis-server or valkey-server, whichever is
			found first.`),
	}
}

func channelOptions(c *Config) []option {
	return []option{
		define("channel-ttl", "duration", "24h", to(&c.Channel.TTL, durationBetween(channel.MinTTL, channel.MaxTTL)), `
			How long a message lives after its publish, and how long a channel and its subscribers live without
			activity.`).reloadable(),
		define("channel-max-messages", "int", "0", to(&c.Channel.MaxMessages, intFrom(0)), `
			Maximum number of messages that a channel keeps; the oldest are removed first. 0: no limit but their
			lifetime.`).reloadable(),
		define("channel-max-message-bytes", "bytes", "256KiB", to(&c.Channel.MaxMessageBytes, ParseBytes), `
			Maximum size of a message's content.`).reloadable(),
		define("channel-replicas", "int", "0", to(&c.Channel.Replicas, intFrom(0)), `
			Replicas of Redis that must confirm a publish before it is answered. If they don't confirm in time, the
			answer is 503, and trying again is safe. 0: don't wait.`).reloadable(),
		define("channel-max-subscribers", "int", "0", to(&c.Channel.MaxSubscribers, intFrom(0)), `
			Maximum number of subscribers of a channel. Beyond it a new one is refused with 409. 0: no limit.`).reloadable(),
		define("channels", kindRules, "", c.setRules, `
			Channels with a policy of their own: a list of rules with the keys pattern, ttl, maxMessages,
			maxMessageBytes, replicas, maxSubscribers, schema, publish, deliver, lagMetrics, readers, writers and
			queryToken. The first rule that matches a channel applies. In a flag or variable: a JSON array.`).reloadable(),
	}
}

func tokenOptions(c *Config) []option {
	return []option{
		define("jwt-keys", kindList, "", to(&c.Access.Tokens.Keys, namedValue(listOf(anyText))), `
			Keys that verify users' tokens (JSON Web Tokens): files in PEM or with JSON Web Keys, and https URLs of
			JSON Web Key Sets (http only from a loopback address). Files are read again when they change; sets are
			fetched every 5 minutes, and for a key that isn't known. With this option the service requires
			credentials.`),
		define("jwt-algorithms", kindList, "RS256,ES256,EdDSA", to(&c.Access.Tokens.Algorithms, listOf(anyText)), `
			Algorithms that tokens may be signed with: `+strings.Join(jwt.Algorithms, ", ")+`. A key is used only for
			algorithms of its own sort.`),
		define("jwt-issuer", "text", "", to(&c.Access.Tokens.Issuer, namedValue(anyText)), `
			Issuer (iss) that tokens must have. Not set: any.`),
		define("jwt-audience", kindList, "", to(&c.Access.Tokens.Audience, namedValue(listOf(anyText))), `
			Audiences (aud) of which a token must have one. Not set: tokens with an audience are refused, since they
			are for another service.`),
		define("jwt-leeway", "duration", "5s", to(&c.Access.Tokens.Leeway, durationBetween(0, maxLeeway)), `
			By how much the issuer's clock may differ: a token is valid for that long before its nbf and after its
			exp. At most 5m.`),
		define("jwt-subject-claim", "text", jwt.DefaultSubjectClaim, to(&c.Access.Tokens.SubjectClaim, anyText), `
			Claim of a token that is the user, such as preferred_username: a text that no two users have, and that users
			can't change.`),
		define("jwt-claim", "text", jwt.DefaultClaim, to(&c.Access.Tokens.Claim, anyText), `
			Claim of a token that contains its grants.`),
	}
}

func clientOptions(c *Config) []option {
	return []option{
		define("user-limits", kindLimits, defaultUserLimits, to(&c.Access.UserLimits, access.ParseLimits), `
			Limits of each user, and of each player with the token of a ticket, on one server. A rate is a number per s,
			m, h or d, and that many can come at once. Limits that are omitted don't apply; off means no limits. An API
			key has the limits of its record.`).reloadable(),
		define("address-limits", kindLimits, "off", to(&c.Access.AddressLimits, access.ParseLimits), `
			Limits of the clients of each address, or of each /64 of IPv6, together on one server, in the form of
			user-limits.`).reloadable(),
		define("quotas", kindLimits, "off", to(&c.Access.Quotas, parseQuotas), `
			Limits of each user and each API key on all servers together, in the form of user-limits: requests,
			publishedBytes and tickets. Each costs a call to Redis.`).reloadable(),
		define("trust-proxies", kindList, "", to(&c.Access.TrustProxies, listOf(network)), `
			Networks of reverse proxies, such as 10.0.0.0/8, whose header X-Forwarded-For is trusted for the client's
			address, with a port or without: for address-limits, for the limit of invalid credentials and for the log.
			Forwarded isn't read: most proxies pass on what a client writes there.`),
	}
}

func matchmakingOptions(c *Config) []option {
	return []option{
		define("matchmaking", "switch", "on", to(&c.Matchmaking.On, strictjson.ParseBool), `
			Whether to serve tickets and queues: on or off.`),
		define("queues", kindQueues, "", to(&c.Matchmaking.Queues, parseQueues), `
			Queues of tickets: a mapping from name to definition. The queue default always exists. In a flag or
			variable: a JSON object.`).reloadable().orTree(c.setQueues),
		define("max-queues", "int", "1000", to(&c.Matchmaking.MaxQueues, intFrom(1)), `
			Maximum number of queues, including those of the configuration. A PUT of one more is answered 409.`).reloadable(),
		define("callout-allow", kindList, "", to(&c.Matchmaking.CalloutAllow, listOf(parseTarget)), `
			Targets that queues put at run time may call as match functions, evaluators and assigners: hosts such as
			fn.example.com or *.example.com and addresses, with or without a port, networks such as 10.0.0.0/8, or
			prefixes of URLs. Other names can be called if they resolve to an address or network here, and private
			addresses only then. Not set: nothing.`),
		define("tickets-redis", "url", "", to(&c.Matchmaking.Redis, anyText), `
			Another Redis for tickets and queues, with user and password in the URL if it needs them. It must not evict.
			Not set: that of the channels.`),
		define("tickets-redis-password-file", "file", "", to(&c.Matchmaking.PasswordFile, passwordFile), `
			File that contains the password of tickets-redis, in place of that in the URL, which is read again as
			redis-password-file is. Replicas that tickets-read-replicas names have the same password.`),
		define("tickets-read-replicas", "replicas", "off", to(&c.Matchmaking.ReadReplicas, replicas), `
			Where to read tickets: off for the primary, on for the replicas of a Cluster or behind Sentinels, or the
			URL of a replica. A ticket that a replica doesn't have is read from the primary.`),
		define("ticket-replicas", "int", "0", to(&c.Matchmaking.Replicas, intFrom(0)), `
			Replicas of Redis that must confirm a claim of tickets, and an assignment, before it counts, so that a
			fail-over that loses writes can't put a ticket into two matches. While fewer confirm, no match is made. 0:
			don't wait.`),
		define("lease-ttl", "duration", "3s",
			to(&c.Matchmaking.LeaseTTL, durationBetween(matchmaking.MinLifetime, forever)), `
			How long a queue stays with a server that has stopped responding, before another server directs it.`),
	}
}

func recordOptions(c *Config) []option {
	return []option{
		define("records", "switch", "on", to(&c.Records.On, strictjson.ParseBool), `
			Whether to serve records, such as sessions, settings, caches and locks: on or off.`),
		define("kinds", kindTable, "", to(&c.Records.Site, parseSite), `
			Kinds of records of the site, such as its cached values: a mapping, which docs/records.md describes. Not
			set: those of a community site. In a flag or variable: a JSON object.`).orTree(c.setKinds),
		define("records-keys", "form", "braces", to(&c.Records.PlainKeys, parseKeyForm), `
			Form of the keys of records in Redis: braces, as in viewed:{7}, or plain, as in viewed:7, which applications
			write that don't use a Cluster. Plain keys need a standalone Redis. All servers on one Redis need the same
			form: keys of the other form aren't read.`),
		define("sessions-redis", "url", "", to(&c.Records.Sessions.Redis, anyText), `
			Another Redis for sessions and for OAuth and verification tokens, with user and password in the URL if it
			needs them. It must not evict. Not set: that of the channels.`),
		define("sessions-redis-password-file", "file", "", to(&c.Records.Sessions.PasswordFile, passwordFile), `
			File that contains the password of sessions-redis, in place of that in the URL, which is read again as
			redis-password-file is.`),
		define("cache-redis", "url", "", to(&c.Records.Cache.Redis, anyText), `
			Another Redis for caches, with user and password in the URL if it needs them. It may evict. Not set: that
			of the channels.`),
		define("cache-redis-password-file", "file", "", to(&c.Records.Cache.PasswordFile, passwordFile), `
			File that contains the password of cache-redis, in place of that in the URL, which is read again as
			redis-password-file is.`),
		define("session-ttl", "duration", "720h",
			to(&c.Records.Sessions.TTL, durationBetween(minSessionTTL, maxSessionTTL)), `
			How long a session lives without activity. At most 720h, which is 30 days.`),
		define("session-grants", kindGrants, defaultSessionGrants, c.setSessionGrants, `
			What the token of a session allows its user, as in the record of an API key. If kinds is set, the default
			has the notifications of what users follow there. In a flag or variable: a JSON array.`),
		define("oauth-providers", kindList, strings.Join(tokens.DefaultProviders, ","),
			to(&c.Records.OAuth.Providers, listOf(parseProvider)), `
			OAuth providers whose tokens can be stored.`),
		define("keyset", "file", "", to(&c.Records.OAuth.Keyset, namedValue(anyText)), `
			File with the keys that encrypt OAuth tokens, which tidemark oauth keyset create writes. Not set: OAuth tokens
			can't be stored.`),
		define("cache-memory", "bytes", "64MiB", to(&c.Records.Cache.Memory, ParseBytes), `
			Memory of this process for cached values that it has read. Redis notifies the process of changes.`),
	}
}

func keyMetricsOptions(c *Config) []option {
	return []option{
		define("key-metrics", kindList, "", to(&c.Records.Metrics.Kinds, listOf(c.parseKind)), `
			Kinds of keys, as tidemark redis-keys shows them, whose number and memory are shown as metrics. One server counts
			for all, and scans all keys. Not set: nothing is counted.`),
		define("key-metrics-pause", "duration", "10m",
			to(&c.Records.Metrics.Every, durationBetween(10*time.Second, forever)), `
			Pause of the server between two counts of the keys.`),
		define("key-metrics-rate", "int", "5000", to(&c.Records.Metrics.Rate, intBetween(1, 1_000_000)), `
			Maximum number of keys that the server examines per second.`),
	}
}

// shardOptions are the options of a service for reads through nodes of shards.
func shardOptions(c *Config) []option {
	return []option{
		define("cache-shards", kindList, "", to(&c.Shards.Reads.Caches, namedValue(listOf(c.parseCache))), `
			Kinds of values of the cache, such as author, that nodes of shards hold in memory: they are read through the
			nodes, and changes are announced to the nodes. Those with shards in kinds are added.`),
		define("shard-hosts", kindList, HostsOfRedis, to(&c.Shards.Reads.Hosts, parseHosts), `
			Addresses of nodes: redis to read them from Redis, or a list with their data centres, such as
			a=10.0.0.7:7100,b=dns:nodes.b.internal:7100.`),
		define("shard-timeout", "duration", tier.DefaultTimeout.String(),
			to(&c.Shards.Reads.Timeout, durationBetween(time.Millisecond, 10*time.Second)), `
			How long to wait for nodes before Redis is asked as well, and for Redis before nodes are.`),
		dcOption(c, `
			Data centre that the service is in: its nodes are asked first, and the nodes of other data centres if they
			are slow. Not set: all nodes of a shard are asked at once.`),
		pingOption(c),
		shardTokenOption(c, `
			File with the token to show to nodes. A line end is not part of it.`),
		define("shard-ca-file", "file", "", to(&c.Shards.Reads.TLS.CAFile, namedValue(anyText)), `
			PEM file with the authorities that sign the nodes' certificates. Turns TLS to nodes on.`),
		define("shard-server-name", "text", "", to(&c.Shards.Reads.TLS.Name, namedValue(anyText)), `
			Name that the certificates of all nodes have. Turns TLS to nodes on. Not set: the host of each node's address.`),
		define("shard-cert-file", "file", "", to(&c.Shards.Reads.TLS.CertFile, namedValue(anyText)), `
			PEM file with the certificate to show to nodes that ask for one. Turns TLS to nodes on.`),
		define("shard-key-file", "file", "", to(&c.Shards.Reads.TLS.KeyFile, namedValue(anyText)), `
			PEM file with the private key of shard-cert-file.`),
	}
}

func limitOptions(c *Config) []option {
	return []option{
		define("max-body-bytes", "bytes", "1MiB", to(&c.Server.MaxBodyBytes, ParseBytes), `
			Maximum size of a request's body, and so of a message and of a batch of messages.`),
		define("body-memory", "bytes", "64MiB", to(&c.Server.BodyMemory, ParseBytes), `
			Memory for the bodies of all requests in progress, messages of gRPC and frames of WebSockets, of which one client
			may use a quarter. Beyond it, a request with a body of more than 1KiB is answered 429 or 503.`),
		define("answer-memory", "bytes", "64MiB", to(&c.Server.AnswerMemory, ParseBytes), `
			Memory for answers of more than 4KiB that clients have not read, of which one client may use a quarter.
			Beyond it, requests are answered 429 or 503.`),
		define("max-connections", "int", "0", to(&c.Server.MaxConnections, intFrom(0)), `
			Maximum number of connections served at a time. Beyond it connections that aren't in use give way to new ones,
			but not to those of a client with more connections. If none gives way, only probes are served, and other
			requests are answered 503. 0: as many as the limit on open files allows.`),
		define("max-streams", "int", "250", to(&c.Server.MaxStreams, intBetween(1, math.MaxInt32/8)), `
			Maximum number of requests in progress on one HTTP/2 connection.`),
		define("idle-timeout", "duration", "2m", to(&c.Server.IdleTimeout, durationBetween(time.Second, time.Hour)), `
			How long a connection stays open without a request, from 1s to 1h. Behind a load balancer it must be longer than
			the load balancer's own, which otherwise sends requests on connections that are being closed.`),
		define("max-batch", "int", "250", to(&c.Limits.MaxBatch, intBetween(1, channel.LargestBatch)), `
			Maximum number of messages in one publish, from 1 to 3000.`).reloadable(),
		define("max-fetch", "int", "1000", to(&c.Limits.MaxMax, intFrom(1)), `
			Maximum number of messages that one fetch may ask for.`).reloadable(),
		define("fetch-bytes", "bytes", "4MiB", to(&c.Limits.FetchBytes, ParseBytes), `
			Maximum size of all contents in the answer to one fetch. One message is always returned.`).reloadable(),
		define("max-wait", "duration", "1m", to(&c.Limits.MaxWait, durationBetween(0, forever)), `
			Maximum time that a fetch may ask to wait.`),
		define("stream-age", "duration", "1h", to(&c.Server.StreamAge, durationBetween(time.Second, forever)), `
			Time after which a stream of messages ends, or up to a quarter earlier. Its client connects again.`),
	}
}

func receiptOptions(c *Config) []option {
	return []option{
		define("receipt-keys", kindList, "", to(&c.Receipts.Keys, listOf(receiptKey)), `
			Keys that sign receipt handles, each at least 32 bytes in base64: the first signs, all verify. Not set:
			one that the servers share in Redis. Prefer the variable or the file to the flag.`).secret(),
		define("receipt-keys-file", "file", "", to(&c.Receipts.KeysFile, anyText), `
			File with these keys, one per line.`),
	}
}

func logOptions(c *Config) []option {
	return []option{
		define("log-level", "level", "info", to(&c.Log.Level, logLevel), `
			Lowest level that is logged: debug, info, warn or error.`).reloadable(),
		define("log-format", "format", "text", to(&c.Log.Format, oneOfWords("text", "json")), `
			Format of the log on standard error: text or json.`),
	}
}

// nodeOptions are the options of a node.
func nodeOptions(c *Config) []option {
	return []option{
		define("shard-cache", "kind", "", to(&c.Shards.Node.Cache, c.parseCache), `
			Kind of values of the cache to serve, such as author. It must be set.`).onNode("cache"),
		dcOption(c, `
			Data centre that the node is in. It must be set.`).onNode("dc"),
		define("shard-host-name", "name", "", to(&c.Shards.Node.Host, parseName("host")), `
			Name of the node, unique in its data centre and the same after a restart: the node then gets the shard
			that it had. Not set: the machine's name and the port.`).onNode("host"),
		define("shard-listen", "host:port", "127.0.0.1:7100", to(&c.Shards.Node.Listen, listen), `
			Address to listen on for clients. An empty host means all addresses; port 0 means any free port, which is
			logged.`).onNode("listen"),
		define("shard-advertise", "host:port", "", to(&c.Shards.Node.Advertise, parseAdvertise), `
			Address at which clients reach the node. Not set: the one that it listens on, unless that is all
			addresses.`).onNode("advertise"),
		define("shard-admin-listen", "address", "127.0.0.1:7101", to(&c.Shards.Node.AdminListen, adminListen), `
			Address to listen on for probes, metrics and profiles: a host:port, unix:PATH for a Unix socket with mode
			0600, or off.`).onNode("admin-listen"),
	}
}

// servingOptions are the options of a node for its answers and its clients.
func servingOptions(c *Config) []option {
	return []option{
		pingOption(c).onNode("ping-period"),
		define("shard-lease-ttl", "duration", "10s",
			to(&c.Shards.Node.LeaseTTL, durationBetween(minLeaseTTL, maxLeaseTTL)), `
			How long a shard stays with a node that has stopped responding, before another node gets it. Two ping
			periods must fit into nine tenths of it.`).onNode("lease-ttl"),
		define("shard-keep-serving", kindSwitch, "", to(&c.Shards.Node.KeepServing, strictjson.ParseBool), `
			Whether to continue to answer while Redis can't be reached. Values may then be old, and a node that was
			paused may answer beside its successor.`).onNode("keep-serving"),
		define("shard-reload", "duration", "10m", to(&c.Shards.Node.Reload, durationBetween(minReload, forever)), `
			How often to load everything again. This bounds the age of values that other programs have
			changed in Redis.`).onNode("reload"),
		define("shard-load-rate", "int", "50000", to(&c.Shards.Node.LoadRate, intBetween(1, 10_000_000)), `
			Maximum number of Redis keys that the node examines per second while it loads.`).onNode("load-rate"),
		define("shard-memory", "bytes", "", to(&c.Shards.Node.Memory, ParseBytes), `
			Maximum size of all values and their IDs, each of which takes up to 64 bytes more. Values that don't fit are
			read from Redis. Not set: no limit.`).onNode("memory"),
		define("shard-max-connections", "int", "1024", to(&c.Shards.Node.MaxConnections, intBetween(1, 1_000_000)), `
			Maximum number of connections of clients. A service has one to each node.`).onNode("max-connections"),
		shardTokenOption(c, `
			File with the token that clients must show, also for metrics and profiles. A line end is not part of it.`),
		define("shard-insecure", kindSwitch, "", to(&c.Shards.Node.Insecure, strictjson.ParseBool), `
			Whether to let everybody read on addresses that other machines can reach. Otherwise the node listens there
			only with shard-token-file or tls-client-ca.`).onNode("insecure"),
	}
}

// Options that services and nodes both have.

func dcOption(c *Config, help string) option {
	return define("shard-dc", "name", "", to(&c.Shards.DC, parseName("data centre")), help)
}

func pingOption(c *Config) option {
	return define("shard-ping-period", "duration", "1s",
		to(&c.Shards.PingPeriod, durationBetween(minPingPeriod, maxPingPeriod)), `
			How often a node renews its lease, and how often a client asks each node for its shard.`)
}

func shardTokenOption(c *Config, help string) option {
	return define("shard-token-file", "file", "", to(&c.Shards.TokenFile, namedValue(anyText)), help)
}
