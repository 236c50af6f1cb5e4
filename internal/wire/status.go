package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// History is the answer to GET /v1/history: what one server has counted and measured in the last hour.
type History struct {
	Server         string             `json:"server"` // its ID, another one after each start
	StartedAt      time.Time          `json:"startedAt"`
	IntervalMillis int64              `json:"intervalMs"`
	Through        int64              `json:"through"` // time of the last point: since= of the next request
	Times          []int64            `json:"times"`   // Unix time of each point, in milliseconds
	Columns        Columns            `json:"columns"`
	Caches         map[string]Columns `json:"caches,omitempty"`        // by kind; not with queue=
	Errors         map[string]Columns `json:"errors,omitempty"`        // by HTTP status from 400 on; not with queue=
	RedisFailures  map[string]Columns `json:"redisFailures,omitempty"` // by code; not with queue=
}

// Columns are values by name, one for each point of time.
type Columns map[string]Column

// Column is the values of one name. NaN is null: nothing was measured.
type Column []float32

// MarshalJSON returns numbers of at most four significant digits if they have a fraction, and null for NaN.
func (c Column) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, 2+4*len(c))
	text = append(text, '[')
	for i, v := range c {
		if i > 0 {
			text = append(text, ',')
		}
		switch f := float64(v); {
		case math.IsNaN(f) || math.IsInf(f, 0):
			text = append(text, "null"...)
		case f == math.Trunc(f) && math.Abs(f) < 1<<53:
			text = strconv.AppendInt(text, int64(f), 10)
		default:
			rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 4, 64), 64) // it is a number
			text = strconv.AppendFloat(text, rounded, 'f', -1, 64)
		}
	}
	return append(text, ']'), nil
}

// UnmarshalJSON reads numbers, and null as NaN.
func (c *Column) UnmarshalJSON(data []byte) error {
	var values []*float32
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	*c = make(Column, len(values))
	for i, v := range values {
		if (*c)[i] = float32(math.NaN()); v != nil {
			(*c)[i] = *v
		}
	}
	return nil
}

// Servers is the answer to GET /v1/servers.
type Servers struct {
	Servers []client.PeerServer `json:"servers"` // the one that answers first, then by start
}

// Configuration is the answer to GET /v1/configuration.
type Configuration struct {
	Options []ConfiguredOption `json:"options"` // all, in the order of docs/options.md
}

// ConfiguredOption is an option of a service that runs, without secrets.
type ConfiguredOption struct {
	Option     string `json:"option"` // its YAML key
	Group      string `json:"group"`
	Value      string `json:"value,omitempty"`  // as it is written; left out: it isn't set
	Source     string `json:"source,omitempty"` // a line of a file, a variable or a flag; left out: it is the default
	Reloadable bool   `json:"reloadable"`       // a reload changes it
}

// Problems is the answer to GET /v1/problems.
type Problems struct {
	CheckedAt time.Time             `json:"checkedAt"` // last time that the server has looked
	Problems  []client.FoundProblem `json:"problems"`  // critical ones first, then the newest
	// More is how many problems are left out.
	More int `json:"more,omitempty"`
}

// StorageStates is the answer to GET /v1/storage.
type StorageStates struct {
	Redis []RedisState `json:"redis"`
}

// RedisState is the state of a Redis, as a server has found it last.
type RedisState struct {
	Of        string          `json:"of"` // "channels", "tickets", "sessions" or "cache"
	CheckedAt time.Time       `json:"checkedAt"`
	Error     string          `json:"error,omitempty"`   // why it could not be examined
	Storage   *client.Storage `json:"storage,omitempty"` // the last that is known
	Primaries []PrimaryState  `json:"primaries"`
	Uncovered string          `json:"uncovered,omitempty"` // slots of a Cluster without a primary
}

// PrimaryState is the state of a primary.
type PrimaryState struct {
	Address         string `json:"address"`
	UsedMemoryBytes int64  `json:"usedMemoryBytes"`
	MaxMemoryBytes  int64  `json:"maxMemoryBytes"` // 0: no limit
	Replicas        int    `json:"replicas"`
	LatencyMicros   int64  `json:"latencyUs"`
	ClockOffset     int64  `json:"clockOffsetMs"`
	Error           string `json:"error,omitempty"`
}

// ShardedCaches is the answer to GET /v1/shards.
type ShardedCaches struct {
	Caches []ShardedCache `json:"caches"`
}

// ShardedCache is how a cache is split, and which nodes hold its shards.
type ShardedCache struct {
	Cache     string          `json:"cache"`
	DCs       []ShardDC       `json:"dcs"`                // by name; none: it has no layout
	Missing   []string        `json:"missing"`            // what is missing until each key has a node in each data centre
	Severity  client.Severity `json:"severity,omitempty"` // that of the problem that shards are missing; empty: none are
	Unsettled []string        `json:"unsettled"`          // signs of a change of layouts in progress
}

// ShardDC is the state of a cache in a data centre.
type ShardDC struct {
	DC         string        `json:"dc"`
	Generation uint64        `json:"generation"` // of its layout
	Whole      bool          `json:"whole"`      // all shards are held and loaded
	Shards     []ShardHolder `json:"shards"`     // by their first keys
	Former     []ShardHolder `json:"former"`     // of earlier layouts, that haven't left yet; without first keys
}

// ShardHolder is the current or last holder of a shard.
type ShardHolder struct {
	Shard       int         `json:"shard"`
	First       ShardingKey `json:"first"` // of its sharding keys; 0 for holders of earlier layouts
	Host        string      `json:"host"`  // empty: it has never had one
	Address     string      `json:"address"`
	Incarnation uint64      `json:"incarnation"`
	ClaimedAt   time.Time   `json:"claimedAt,omitzero"`
	PingedAt    time.Time   `json:"pingedAt,omitzero"` // last
	LeftMillis  int64       `json:"leftMs"`            // until its claim ends, unless it pings
	Held        bool        `json:"held"`              // else Host was the last one
	Loaded      bool        `json:"loaded"`
}

// ShardingKey is a sharding key. In JSON it is 16 hexadecimal digits, since many clients don't have such numbers.
type ShardingKey uint64

// MarshalText returns 16 hexadecimal digits.
func (k ShardingKey) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(k)), nil }

// UnmarshalText reads hexadecimal digits.
func (k *ShardingKey) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*k = ShardingKey(n)
	return err
}

// RecentAccess is the answer to GET /v1/access: whom a server has refused recently.
type RecentAccess struct {
	Limited []LimitedClient `json:"limited"` // beyond a limit; the last one first
	Refused []RefusedClient `json:"refused"` // for their credentials; the last one first
}

// Repeated counts events with no pause of ten minutes between them.
type Repeated struct {
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
}

// LimitedClient is a client that was beyond a limit.
type LimitedClient struct {
	Client   string   `json:"client"` // such as "user:ann", or an address
	Of       string   `json:"of"`     // "user", "key", "address" or "quota"
	Limit    string   `json:"limit"`  // its name
	Value    string   `json:"value"`  // such as "100/s"
	Refusals Repeated `json:"refusals"`
}

// RefusedClient is a client whose credential was refused. It never has the credential.
type RefusedClient struct {
	Client    string   `json:"client"`              // its address
	Principal string   `json:"principal,omitempty"` // such as "user:ann"; left out: it isn't known
	Problem   string   `json:"problem"`             // slug
	Reason    string   `json:"reason"`
	Method    string   `json:"method"`
	Path      string   `json:"path"`
	Refusals  Repeated `json:"refusals"`
}

// Whoami is the answer to GET /v1/whoami.
type Whoami struct {
	// Kind is "open", "key", "user", "session", "ticket", "admin" or "anonymous".
	Kind      string          `json:"kind"`
	Principal string          `json:"principal,omitempty"` // such as "key:3f7kq2mzv5xw4yab"; left out on an open service
	Name      string          `json:"name,omitempty"`      // of a user, in names of channels and subscribers
	Actions   []string        `json:"actions"`             // on at least some resources
	Grants    json.RawMessage `json:"grants"`
	Expires   time.Time       `json:"expires,omitzero"` // left out: it doesn't expire
	Limits    string          `json:"limits,omitempty"` // left out: it has none
}
