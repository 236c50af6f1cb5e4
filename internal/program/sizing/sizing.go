// Package sizing estimates what a load on channels needs: memory and CPU time of Redis, bandwidth, and servers. The
// formula is in docs/sizing.md. [Estimate] calculates; a test and `make bench` compare it with measurements.
package sizing

import (
	"math"
	"math/bits"
	"time"
)

// Load is a load on channels.
type Load struct {
	Channels     int           `json:"channels"`
	Rate         float64       `json:"rate"`         // messages a second, on all channels together
	MessageBytes int           `json:"messageBytes"` // of a content
	TTL          time.Duration `json:"-"`            // of a message
	MaxMessages  int           `json:"maxMessages"`  // that a channel keeps; 0: no limit
	Subscribers  int           `json:"subscribers"`  // on all channels together
	Waiters      int           `json:"waiters"`      // subscribers that wait or stream at the same time
	NameBytes    int           `json:"nameBytes"`    // of a channel's name, the key prefix included
	Cluster      bool          `json:"cluster"`

	ServerCores int `json:"serverCores"` // of one server
	Servers     int `json:"-"`           // instead of as many as are needed; 0: these
}

// Estimate holds the resources that a load needs. Bandwidths are in bytes a second, CPU times in cores.
type Estimate struct {
	Messages      float64 `json:"messages"` // in Redis at the same time
	RedisBytes    float64 `json:"redisBytes"`
	MaxMemory     float64 `json:"maxMemoryBytes"`   // to set in Redis, all primaries together
	MachineBytes  float64 `json:"redisMemoryBytes"` // of the machines of the primaries, with the append-only file's rewrite
	RedisIn       float64 `json:"redisInBytesPerSecond"`
	RedisOut      float64 `json:"redisOutBytesPerSecond"`
	ClientsIn     float64 `json:"clientsInBytesPerSecond"`
	ClientsOut    float64 `json:"clientsOutBytesPerSecond"`
	RedisCores    float64 `json:"redisCores"`
	ServerCores   float64 `json:"serverCores"` // of all servers together
	ServerBytes   float64 `json:"serverMemoryBytes"`
	Primaries     int     `json:"primaries"` // of Redis
	Servers       int     `json:"servers"`
	MessageBytes  float64 `json:"bytesPerMessage"`
	ChannelBytes  float64 `json:"bytesPerChannel"`
	ListenerBytes float64 `json:"bytesPerSubscriber"`
}

// What things take. CPU times are those of the estimates in docs/benchmarks.md.
const (
	redisEmpty  = 1 << 20   // bytes of a Redis without keys
	redisServer = 256 << 10 // bytes of Redis for the connections of a server
	waiterBytes = 28 << 10  // bytes of a server for a fetch that waits
	serverBytes = 64 << 20  // bytes of a server without load

	publishCPU  = 40e-6 // seconds of a server
	deliverCPU  = 90e-6 // seconds of a server for a message that a waiting subscriber receives and acknowledges
	byteCPU     = 4e-9  // seconds of a server for each byte of a message that it takes or delivers
	publishCore = 25e-6 // seconds of Redis
	deliverCore = 40e-6 // seconds of Redis
	byteCore    = 7e-9  // seconds of Redis for each byte of a message, which it also writes to the append-only file

	requestBytes  = 350 // bytes of a request or answer, with its headers and without a message
	commandBytes  = 450 // bytes of a publish to Redis, without the message and names
	notifiedBytes = 120 // bytes of a notification, without the message and the name
	notifyLimit   = 16 << 10
	idBytes       = 26 // of a message's ID

	busiest       = 0.6 // share of a core of Redis, and of a server's cores, that a load may use
	largestMemory = 16 << 30
	waitersServer = 50_000
)

// Of calculates what a load needs.
func Of(l Load) Estimate {
	e := Estimate{Messages: l.Rate * l.TTL.Seconds()}
	if l.MaxMessages > 0 {
		e.Messages = min(e.Messages, float64(l.Channels)*float64(l.MaxMessages))
	}
	fanOut := float64(l.Subscribers) / float64(l.Channels)
	e.servers(l, fanOut)
	e.memory(l)
	e.bandwidth(l, fanOut)
	e.RedisCores = l.Rate * (publishCore + float64(l.MessageBytes)*byteCore + fanOut*deliverCore)
	e.Primaries = max(1, int(math.Ceil(e.RedisCores/busiest)), int(math.Ceil(e.MachineBytes/largestMemory)))
	if l.Cluster {
		e.Primaries = max(e.Primaries, 3)
	}
	return e
}

func (e *Estimate) servers(l Load, fanOut float64) {
	perByte := float64(l.MessageBytes) * byteCPU
	e.ServerCores = l.Rate * (publishCPU + perByte + fanOut*(deliverCPU+perByte))
	e.Servers = max(2, int(math.Ceil(e.ServerCores/busiest/float64(l.ServerCores))),
		int(math.Ceil(float64(l.Waiters)/waitersServer)))
	if l.Servers > 0 {
		e.Servers = l.Servers
	}
	// garbage is collected when the heap has doubled
	e.ServerBytes = 2*waiterBytes*float64(l.Waiters)/float64(e.Servers) + serverBytes
}

// memory estimates the memory of Redis.
func (e *Estimate) memory(l Load) {
	k := keys{cluster: l.Cluster}
	name := len("c.{}") + l.NameBytes
	clock := digits(e.Messages / float64(l.Channels))
	k.n = 2*e.Messages + float64(l.Channels)*3 + float64(l.Subscribers)

	envelope := len(`{"id":"","content":,"at":}`) + idBytes + l.MessageBytes + len("1700000000000")
	e.MessageBytes = k.key(name+len(".m.")+clock, text(envelope)) + k.key(name+len(".mid.")+idBytes, number)

	// the clock, the epoch, and the set of subscribers
	members := float64(l.Subscribers) / float64(l.Channels)
	e.ChannelBytes = k.key(name+len(".clock"), number) + k.key(name+len(".epoch"), text(idBytes))
	if l.Subscribers > 0 {
		e.ChannelBytes += k.key(name+len(".subs"), object+set)
	}
	if l.Waiters > 0 {
		e.ChannelBytes += topic(name) * min(1, float64(l.Waiters)/float64(l.Channels)) * float64(e.Servers)
	}
	// a mark, and a member of the set
	const subscriber = 12 // bytes of a subscriber's name
	e.ListenerBytes = k.key(name+len(".r.")+subscriber, number) + entry + alloc(subscriber+2) + slots(members)/max(1, members)

	e.RedisBytes = redisEmpty + redisServer*float64(e.Servers) + e.Messages*e.MessageBytes +
		float64(l.Channels)*e.ChannelBytes + float64(l.Subscribers)*e.ListenerBytes
	// messages whose life has ended are found and removed later
	e.MaxMemory = 1.25 * e.RedisBytes
	// while the append-only file is rewritten, pages that change are copied
	e.MachineBytes = 2 * e.MaxMemory
}

func (e *Estimate) bandwidth(l Load, fanOut float64) {
	message := float64(l.MessageBytes)
	listening := min(float64(e.Servers), float64(l.Waiters)/float64(l.Channels)) // servers with a waiter of the channel
	e.RedisIn = l.Rate * (commandBytes + 4*float64(l.NameBytes) + message + fanOut*commandBytes)
	if l.MessageBytes <= notifyLimit {
		e.RedisOut = l.Rate * (listening*(notifiedBytes+float64(l.NameBytes)+message) + fanOut*requestBytes/2)
	} else {
		e.RedisOut = l.Rate * (listening*notifiedBytes + fanOut*(message+requestBytes/2))
	}
	e.ClientsIn = l.Rate * (requestBytes + message + fanOut*requestBytes)
	e.ClientsOut = l.Rate * (requestBytes + fanOut*(requestBytes+message))
}

// Sizes of Redis's structures in bytes.
const (
	object = 16
	entry  = 32 // of a hash table
	set    = 64 // without members
	number = object
)

// keys estimates the memory of keys with an expiry.
type keys struct {
	n       float64 // in the table
	cluster bool
}

// key returns the bytes of a key with a name of so many bytes, and a value that takes so many.
func (k keys) key(name int, value float64) float64 {
	// the name, its entry in the table of keys and in that of expiries, and a slot of both
	bytes := alloc(name+4) + value + 2*entry + 2*slots(k.n)/max(1, k.n)
	if k.cluster {
		bytes += 16 // entries of a slot's keys are linked
	}
	return bytes
}

// text returns the bytes of a string.
func text(n int) float64 {
	if n <= 44 { // in one piece with its object
		return alloc(object + n + 4)
	}
	return object + alloc(n+6)
}

// topic returns the bytes of a topic that one connection listens to.
func topic(name int) float64 { return alloc(name+4) + object + 2*entry + 48 + 32 + 16 }

// slots returns the bytes of the slots of a hash table with n entries: a power of two, of 8 bytes each.
func slots(n float64) float64 {
	return 8 * math.Exp2(math.Ceil(math.Log2(max(4, n))))
}

// alloc returns how many bytes jemalloc takes for n: four sizes for each power of two.
func alloc(n int) float64 {
	if n <= 128 {
		return float64((n + 15) / 16 * 16)
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	return float64((n + step - 1) / step * step)
}

func digits(n float64) int { return 1 + int(math.Log10(max(1, n))) }
