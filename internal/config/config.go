package config

import (
	"log/slog"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Config is everything that can be set for serve. options says how each field is set and documented.
type Config struct {
	Listen      string
	CORSOrigins []string
	AllowHosts  []string
	Grace       time.Duration
	DrainDelay  time.Duration

	Redis   Redis
	Managed Managed

	Channel channel.Policy
	Rules   []channel.Rule

	Matchmaking Matchmaking

	Limits         channel.Limits
	MaxBodyBytes   int
	BodyMemory     int
	MaxConnections int
	MaxStreams     int

	ReceiptKeys     []receipt.Key
	ReceiptKeysFile string

	LogLevel  slog.Level
	LogFormat string
}

// Redis says which Redis to use and how to get in. An empty Address means the managed one.
type Redis struct {
	Address          string
	KeyPrefix        string
	Username         string
	Password         string
	PasswordFile     string
	CAFile           string
	CertFile         string
	KeyFile          string
	SentinelMaster   string
	SentinelUsername string
	SentinelPassword string
	Timeout          time.Duration
	ConnectTimeout   time.Duration
}

// Managed is about the Redis that the service runs itself.
type Managed struct {
	DataDir string
	Binary  string
}

// Matchmaking is about tickets and queues.
type Matchmaking struct {
	On           bool
	Queues       []matchmaking.Definition // by name
	MaxQueues    int
	CalloutAllow []string // what queues that are put at run time may call
	Redis        string   // of tickets and queues; "": that of the channels
	ReadReplicas string   // "off", "on", or the URL of a replica
	Replicas     int      // that must have a claim or an assignment
	LeaseTTL     time.Duration
}
