package rpc

import (
	"cmp"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Limits bounds what clients can make a server do. What is 0 has its default.
type Limits struct {
	// MessageBytes is the largest request, and the largest answer: 16 MiB. Larger ones are RESOURCE_EXHAUSTED.
	MessageBytes int
	// Memory is how many bytes the requests and answers of more than 16 KiB can have together: 256 MiB, and at least twice
	// MessageBytes. A request that takes longer than 100 ms to arrive counts as one of MessageBytes. More are refused: UNAVAILABLE.
	Memory int64
	// Calls is how many calls can be in progress: 4096. More are refused: UNAVAILABLE.
	Calls int
	// Handlers is how many calls with keys are handled at a time: 16, or four for each processor if that is more. Others wait for
	// their turn, as part of their CallTime. The answers of so many calls don't count for Memory yet.
	Handlers int
	// Streams is how many calls can be in progress on one connection: 256. Clients know it, and wait.
	Streams int
	// Connections is how many there can be: 1024. More are closed at once.
	Connections int
	// CallTime is how long a request may take to arrive, how long the handler may take, and how long the answer may take to be read:
	// 10 s each. The call then ends with DEADLINE_EXCEEDED; the connection of a client that doesn't read is closed.
	CallTime time.Duration
}

// withDefaults returns the limits, with defaults for what is 0.
func (l Limits) withDefaults() Limits {
	l.MessageBytes = cmp.Or(l.MessageBytes, DefaultMaxBytes)
	l.Memory = max(cmp.Or(l.Memory, 256<<20), 2*int64(l.MessageBytes))
	l.Calls = cmp.Or(l.Calls, 4096)
	l.Handlers = cmp.Or(l.Handlers, max(16, 4*runtime.GOMAXPROCS(0)))
	l.Streams = min(cmp.Or(l.Streams, 256), math.MaxInt32)
	l.Connections = cmp.Or(l.Connections, 1024)
	l.CallTime = cmp.Or(l.CallTime, 10*time.Second)
	return l
}

const (
	smallBytes  = 16 << 10               // messages up to this size don't count for Memory
	arrivalSlow = 100 * time.Millisecond // a request that takes longer counts as the largest
	mostUnread  = 256 << 10              // of answers on a connection; beyond it calls are in progress until theirs is sent
	mostWatches = 128                    // of health
	mostOthers  = 128                    // other calls of health, and those of reflection
	otherSlow   = time.Second            // for the first message of these to arrive
	otherTime   = time.Minute            // for a call of reflection

	// overhead is of a message, to its payload.
	overhead = 1 << 10

	headerBytes    = 8 << 10 // of the headers of a call
	connectTimeout = 5 * time.Second
	pingsApart     = 5 * time.Second // clients may not send PINGs more often
	pingAfter      = 10 * time.Second
	pingTimeout    = 10 * time.Second // then a connection is closed on which nothing is received
	idleAfter      = 10 * time.Minute // then a connection without calls is closed

	// Bytes that a client may send before they are read. Windows of a fixed size make grpc-go send no PINGs to find a better one:
	// they would cost both sides as much as the calls.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

func (l Limits) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(l.MessageBytes), grpc.MaxSendMsgSize(l.MessageBytes + overhead),
		grpc.MaxConcurrentStreams(uint32(l.Streams)), grpc.MaxHeaderListSize(headerBytes), grpc.ConnectionTimeout(connectTimeout),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: idleAfter}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
	}
}

// listener closes connections beyond a number of open ones.
type listener struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &counted{Conn: conn, release: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = conn.Close() // nothing was written to it
	}
}

// counted is an open connection of a listener.
type counted struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}
