package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/access/jwt"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Config is everything that can be set for serve, and for a node of shards. optionGroups and nodeGroups say how each
// field is set and documented.
type Config struct {
	Server      Server
	GRPC        GRPC
	TLS         TLS
	Redis       RedisOptions
	Managed     Managed
	Channel     channel.Policy // of channels that no rule matches
	Rules       []channel.Rule
	Access      Access
	Limits      channel.Limits
	Matchmaking Matchmaking
	Records     RecordOptions
	Shards      ShardOptions
	Receipts    Receipts
	Log         Log
}

// Server configures the HTTP server.
type Server struct {
	Listen         string // host:port
	AdminListen    string // host:port, or unix: and a path; "": there is no admin listener
	CORSOrigins    []string
	AllowHosts     []string
	Grace          time.Duration
	DrainDelay     time.Duration // part of Grace
	MaxBodyBytes   int
	BodyMemory     int // bytes
	MaxConnections int // 0: as many as the limit on open files allows
	MaxStreams     int // of one HTTP/2 connection
}

// GRPC configures the gRPC server.
type GRPC struct {
	Listen       string // host:port; "": gRPC is served on the HTTP port only
	MessageBytes int    // of a client's message
	QueryPage    int    // tickets in one message of an answer
}

// TLS says what the listeners show to clients. All files are PEM; an empty Cert means that there is no TLS.
type TLS struct {
	Cert     string
	Key      string
	ClientCA string // of the authorities that must have signed clients' certificates; "": clients need none
}

// Access says who may do what.
type Access struct {
	Rules    []access.ChannelRule // for the same channels as Config.Rules
	Tokens   jwt.Options          // without Keys there are no tokens
	KeysFile string               // of API keys; "": there is none
	Require  bool                 // even if no credentials are configured
	Insecure bool                 // everybody may do everything, also on addresses that aren't loopback ones

	UserLimits    access.Limits  // of each user, and of each holder of a ticket
	AddressLimits access.Limits  // of each address of clients
	Quotas        access.Limits  // of each principal on all servers together
	TrustProxies  []netip.Prefix // whose X-Forwarded-For says where a request came from
}

// Closed reports whether a request needs credentials.
func (a Access) Closed() bool { return a.Require || a.KeysFile != "" || len(a.Tokens.Keys) > 0 }

// Managed configures the Redis that the service runs itself.
type Managed struct {
	DataDir string
	Binary  string
}

// Matchmaking configures tickets and queues.
type Matchmaking struct {
	On           bool
	Queues       []matchmaking.Definition // by name
	MaxQueues    int
	CalloutAllow []string // what queues that are put at run time may call
	Redis        string   // URL of another Redis for tickets and queues; "": that of the channels
	ReadReplicas string   // "off", "on", or the URL of a replica
	Replicas     int      // that must have a claim or an assignment
	LeaseTTL     time.Duration
}

// Receipts configures the keys of receipt handles. Without keys the servers share one in Redis.
type Receipts struct {
	Keys     []receipt.Key // the first signs, all verify
	KeysFile string        // read into Keys
}

// Log configures what is logged to standard error.
type Log struct {
	Level  slog.Level
	Format string // "text" or "json"
}
