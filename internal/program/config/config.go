package config

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Config holds all settings of serve, and of a node of shards. serveGroups and nodeGroups define how each field is set
// and documented.
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

	values     map[string]any    // by option.key, as they are written
	sources    map[string]string // where those come from that have not their defaults
	ticketLife time.Duration     // see TicketLife; 0: that of the queues
	copying    bool              // see Copies
}

// Server configures the HTTP server.
type Server struct {
	Listen         string // host:port
	AdminListen    string // host:port, or unix: and a path; "": there is no admin listener
	PortOffset     int    // was added to the ports of all addresses to listen on
	CORSOrigins    []string
	AllowHosts     []string
	TrustTraces    bool   // a client's traceparent alone decides whether its request is traced
	OldPrefix      string // of the paths of the predecessor's API; "": none
	DurableStreams string // prefix of the paths of the Durable Streams protocol; "": it isn't served
	Grace          time.Duration
	DrainDelay     time.Duration // part of Grace
	MaxBodyBytes   int
	BodyMemory     int // bytes
	AnswerMemory   int // bytes
	MaxConnections int // 0: as many as the limit on open files allows
	MaxStreams     int // of one HTTP/2 connection
	IdleTimeout    time.Duration
	StreamAge      time.Duration
}

// GRPC configures the gRPC server.
type GRPC struct {
	Listen       string // host:port; "": gRPC is served on the HTTP port only
	MessageBytes int    // of a client's message
	QueryPage    int    // tickets in one message of an answer
	OpenMatch    OpenMatchListen
}

// OpenMatchListen has the ports of Open Match's services: the address of each, host:port; "": it has no port of its
// own.
type OpenMatchListen struct{ Frontend, Backend, Query string }

// ByService returns the addresses that are set, by the name of the service: frontend, backend or query.
func (o OpenMatchListen) ByService() map[string]string {
	all := map[string]string{"frontend": o.Frontend, "backend": o.Backend, "query": o.Query}
	maps.DeleteFunc(all, func(_, address string) bool { return address == "" })
	return all
}

// TLS configures the certificates of the listeners. All files are PEM; an empty Cert means that there is no TLS.
type TLS struct {
	Cert     string
	Key      string
	ClientCA string // of the authorities that must have signed clients' certificates; "": clients need none
}

// Access configures credentials and limits.
type Access struct {
	Rules    []access.ChannelRule // for the same channels as Config.Rules
	Tokens   jwt.Options          // without Keys there are no tokens
	KeysFile string               // of API keys; "": there is none
	Require  bool                 // even if no credentials are configured
	Insecure bool                 // everybody may do everything, also on addresses that aren't loopback ones

	UserLimits    access.Limits  // of each user, and of each holder of a ticket
	AddressLimits access.Limits  // of each address of clients
	Quotas        access.Limits  // of each principal on all servers together
	TrustProxies  []netip.Prefix // whose X-Forwarded-For is trusted
}

// Closed reports whether a request needs credentials.
func (a Access) Closed() bool { return a.Require || a.KeysFile != "" || len(a.Tokens.Keys) > 0 }

// RedisOptions configures the address of Redis and the login. An empty Address means the managed one.
type RedisOptions struct {
	Address        string
	KeyPrefix      string
	Username       string
	Password       string
	PasswordFile   PasswordFile // read into Password
	TLS            clientTLS
	Sentinel       sentinel
	Timeout        time.Duration // of one operation
	ConnectTimeout time.Duration // at start-up
}

// clientTLS configures connections to a server. If it isn't the zero value, TLS is on.
type clientTLS struct {
	CAFile   string // with the authorities that sign the server's certificate
	Name     string // that the certificate has; "": the host of the server's address
	CertFile string // the client's own certificate
	KeyFile  string
}

// sentinel configures the lookup of the primary. An empty Master means without Sentinels.
type sentinel struct {
	Master       string
	Username     string
	Password     string
	PasswordFile PasswordFile // read into Password
}

// PasswordFile is the path of a file with a password that may change; "": there is none.
type PasswordFile string

// Read returns the password in the file, without a line end.
func (f PasswordFile) Read() (string, error) {
	text, err := os.ReadFile(string(f))
	password := withoutLineEnd(string(text))
	if err == nil && password == "" {
		err = fmt.Errorf("%s is empty", f)
	}
	return password, err
}

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
	CalloutAllow []string     // targets that queues put at run time may call
	Redis        string       // URL of another Redis for tickets and queues; "": that of the channels
	PasswordFile PasswordFile // with the password of Redis, in place of that in the URL
	ReadReplicas string       // "off", "on", or the URL of a replica
	Replicas     int          // that must have a claim or an assignment
	LeaseTTL     time.Duration
}

// RecordOptions configures records.
type RecordOptions struct {
	On   bool
	Site *site.Site // its kinds of records, with keys in the form of PlainKeys
	// PlainKeys is whether keys of records have no braces.
	PlainKeys bool
	// Notifications is the schema of notifications; nil: they are any JSON.
	Notifications channel.Schema
	Sessions      SessionOptions
	OAuth         OAuthOptions
	Cache         CacheOptions
	Metrics       KeyMetricsOptions
}

// KeyMetricsOptions configures the metrics of keys, by kind.
type KeyMetricsOptions struct {
	Kinds []string // none: nothing is counted
	Every time.Duration
	Rate  int // keys to examine per second
}

// SessionOptions configures sessions, and OAuth and verification tokens.
type SessionOptions struct {
	Redis        string        // URL of another Redis for them; "": that of the channels
	PasswordFile PasswordFile  // with the password of Redis, in place of that in the URL
	TTL          time.Duration // of a session without activity
	Grants       access.Grants // of a session's token
}

// OAuthOptions configures the tokens of providers.
type OAuthOptions struct {
	Providers []string
	Keyset    string // file of the keys that seal the tokens; "": there are no OAuth tokens
}

// CacheOptions configures caches.
type CacheOptions struct {
	Redis        string       // URL of another Redis for them, which may evict; "": that of the channels
	PasswordFile PasswordFile // with the password of Redis, in place of that in the URL
	Memory       int          // bytes for values that were read, in each process
}

// ShardOptions configures the tier.
type ShardOptions struct {
	DC         string // data centre that this process is in; "" for a service that prefers none
	PingPeriod time.Duration
	TokenFile  string // read into Token
	Token      string // that clients send to nodes; "": none
	Node       ShardNode
	Reads      ShardReads
}

// ShardNode configures a node.
type ShardNode struct {
	Cache       string
	Host        string // unique in the data centre, the same after a restart; "": the machine's name and the port
	Listen      string // host:port
	Advertise   string // host:port at which clients reach it; "": where it listens
	AdminListen string // host:port, or unix: and a path; "": there is no admin listener
	LeaseTTL    time.Duration
	KeepServing bool          // without Redis, too
	Reload      time.Duration // between two times that everything is loaded
	LoadRate    int           // Redis keys that it examines per second while it loads
	Memory      int           // bytes of all values and their IDs; 0: no limit

	MaxConnections int
	Insecure       bool // everybody may ask it, also on addresses that aren't loopback ones
}

// ShardReads configures the reads of a service through nodes.
type ShardReads struct {
	Caches  []string      // kinds of values of the cache; none: it reads none through nodes
	Timeout time.Duration // how long nodes may take until Redis is asked
	Hosts   []string      // where nodes are: "redis" alone, or a=host:port and a=dns:name:port for data centre a
	TLS     clientTLS
}

// HostsOfRedis is the value of Reads.Hosts for the nodes listed in Redis.
const HostsOfRedis = "redis"

// Margin is how long before its lease ends a node stops answering.
func (n ShardNode) Margin() time.Duration { return n.LeaseTTL / 10 }

// Receipts configures the keys of receipt handles. Without keys the servers share one in Redis.
type Receipts struct {
	Keys     []receipt.Key // the first signs, all verify
	KeysFile string        // read into Keys
}

// Log configures the log on standard error.
type Log struct {
	Level  slog.Level
	Format string // "text" or "json"
}
