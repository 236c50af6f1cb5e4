package rpc

import (
	"cmp"
	"errors"
	"io"
	"math"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Limits bounds the resources that clients can make a server use. The default replaces 0.
type Limits struct {
	// MessageBytes is the largest request, and the largest answer: 16 MiB. Larger ones are RESOURCE_EXHAUSTED.
	MessageBytes int
	// Memory is how many bytes the requests of more than 16 KiB that are being handled can have together: 256 MiB, and
	// at least twice MessageBytes. More are refused: UNAVAILABLE. Requests that take longer than 100 ms to arrive can
	// have as much again: of more than Memory/MessageBytes of them the oldest are refused, with DEADLINE_EXCEEDED.
	Memory int64
	// Answers is how many bytes the answers of more than 4 KiB that were not read can have together: 128 MiB. A client's
	// address can use a quarter of it. Beyond it calls are refused: UNAVAILABLE.
	Answers int64
	// Calls is how many calls can be in progress: 4096. More are refused: UNAVAILABLE.
	Calls int
	// Handlers is how many calls with keys are handled at a time: 16, or four for each processor if that is more.
	// Others wait for their turn, as part of their CallTime.
	Handlers int
	// Streams is how many calls can be in progress on one connection: 256. Clients know it, and wait. A call whose
	// answer the client hasn't read yet is one of them.
	Streams int
	// Connections is how many there can be: 1024. More are closed at once.
	Connections int
	// CallTime is how long a request may take to arrive, and how long the handler may take: 10 s each. The call then
	// ends with DEADLINE_EXCEEDED, and so does the handler's context.
	CallTime time.Duration
}

// withDefaults returns the limits, with defaults in place of 0.
func (l Limits) withDefaults() Limits {
	l.MessageBytes = cmp.Or(l.MessageBytes, DefaultMaxBytes)
	l.Memory = max(cmp.Or(l.Memory, 256<<20), 2*int64(l.MessageBytes))
	l.Answers = cmp.Or(l.Answers, 128<<20)
	l.Calls = cmp.Or(l.Calls, 4096)
	l.Handlers = cmp.Or(l.Handlers, max(16, 4*runtime.GOMAXPROCS(0)))
	l.Streams = min(cmp.Or(l.Streams, 256), math.MaxInt32)
	l.Connections = cmp.Or(l.Connections, 1024)
	l.CallTime = cmp.Or(l.CallTime, 10*time.Second)
	return l
}

const (
	smallBytes  = 16 << 10               // requests up to this size don't count for Memory
	arrivalSlow = 100 * time.Millisecond // a request that takes longer is a slow one
	maxWatches  = 128                    // of health
	maxOthers   = 128                    // other calls of health, and those of reflection
	otherSlow   = time.Second            // for the first message of these to arrive
	otherTime   = time.Minute            // for a call of reflection

	// overhead is the size of a message without its payload, at most.
	overhead = 1 << 10

	headerBytes    = 8 << 10 // of the headers of a call
	connectTimeout = 5 * time.Second
	pingsApart     = 5 * time.Second // clients may not send PINGs more often
	pingAfter      = 10 * time.Second
	pingTimeout    = 10 * time.Second // then a connection is closed on which nothing is received
	idleAfter      = 10 * time.Minute // then a connection without calls is closed

	// Bytes that a client may send before they are read. With windows of a fixed size grpc-go sends no PINGs to find a
	// better one. These would cost both sides as much as the calls.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

func (l Limits) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(l.MessageBytes), grpc.MaxSendMsgSize(l.MessageBytes + overhead),
		grpc.MaxConcurrentStreams(uint32(l.Streams)), grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: idleAfter,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
		grpc.RPCDecompressor(noGzip{}), //nolint:staticcheck // the only option that keeps one server from decompressing
	}
}

// noGzip refuses requests that are compressed with gzip, which other packages of a program register for all servers.
type noGzip struct{}

var errCompressed = errors.New("compressed requests are not supported")

// Type returns the name of the encoding.
func (noGzip) Type() string { return "gzip" }

// Do returns an error.
func (noGzip) Do(io.Reader) ([]byte, error) { return nil, errCompressed }
