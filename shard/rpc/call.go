package rpc

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// Errors of the bounds.
var (
	errBusy     = status.Error(codes.Unavailable, "the node has too many calls in progress")
	errMemory   = status.Error(codes.Unavailable, "the node has too many large messages in progress")
	errSlow     = status.Error(codes.DeadlineExceeded, "the request took too long to arrive")
	errLate     = status.Error(codes.DeadlineExceeded, "the answer took too long")
	errManyKeys = status.Errorf(codes.ResourceExhausted, "a request can have at most %d keys", shard.MaxKeys)
	errPanic    = status.Error(codes.Internal, "the node failed to answer")
)

// stage is what a call waits for.
type stage int

const (
	arriving  stage = iota // the request
	late                   // the same; it counts as the largest one
	answering              // the handler
	sending                // the client, which reads the answer
	ended
)

// call is a call of Get in progress.
type call struct {
	server *Server
	stream grpc.ServerStream

	mu      sync.Mutex
	timer   *time.Timer
	due     time.Time // when the stage takes too long
	stage   stage
	charged int64 // of the server's memory
}

// get answers a call.
func (s *Server) get(_ any, stream grpc.ServerStream) error {
	return limited(&s.calls, int64(s.limits.Calls), func() error { return s.answer(stream) })
}

func (s *Server) answer(stream grpc.ServerStream) (err error) {
	c := &call{server: s, stream: stream}
	c.begin()
	defer c.end()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a call of a shard panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	r, err := c.receive()
	if err != nil {
		return err
	}
	response, err := c.handle(r)
	if err != nil {
		return err
	}
	return c.send(response)
}

// handle calls the handler when it is the turn of the call. The answer counts for the memory before the turn of the next one begins:
// a small request can have a large answer.
func (c *call) handle(r *shard.Request) (response shard.Response, err error) {
	if len(r.Keys) > 0 { // others have no values
		select {
		case c.server.turns <- struct{}{}:
			defer func() { <-c.server.turns }()
		case <-c.stream.Context().Done():
			return response, errLate
		}
	}
	if response, err = c.server.handler.Get(c.stream.Context(), r); err != nil {
		return response, statusOf(err)
	}
	size := len(response.Payload)
	if most := c.server.limits.MessageBytes; size > most {
		return response, status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, at most %d are allowed: ask for fewer keys", size, most)
	}
	if !c.enter(sending, size) {
		return response, errMemory
	}
	return response, nil
}

func (c *call) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Now().Add(arrivalSlow)
	c.timer = time.AfterFunc(arrivalSlow, c.overdue)
}

// enter begins a stage with its memory, and reports whether there is enough of it. It must not be called after end.
func (c *call) enter(next stage, memory int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stage = next
	c.extend()
	return c.charge(memory)
}

// extend gives the stage the time that it may take. The lock is held.
func (c *call) extend() {
	limit := c.server.limits.CallTime
	c.due = time.Now().Add(limit)
	c.timer.Reset(limit)
}

// charge makes a call count for the memory of a message, and not for that of others. The lock is held.
func (c *call) charge(size int) bool {
	need := int64(size)
	if need <= smallBytes {
		need = 0
	}
	if need > c.charged && !c.server.memory.TryAcquire(need-c.charged) {
		return false
	}
	if need < c.charged {
		c.server.memory.Release(c.charged - need)
	}
	c.charged = need
	return true
}

// overdue ends a call that takes too long.
func (c *call) overdue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.due) {
		return // the next stage began meanwhile
	}
	switch c.stage {
	case arriving:
		c.stage = late
		if !c.charge(c.server.limits.MessageBytes) {
			finish(c.stream.Context(), errMemory)
			return
		}
		c.extend()
	case late:
		finish(c.stream.Context(), errSlow)
	case answering:
		finish(c.stream.Context(), errLate)
	case sending: // an error would wait behind the answer
		_ = connection(c.stream.Context()).conn.Close() // fails only if it is closed
	case ended:
	}
}

func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stage = ended
	c.timer.Stop()
	c.charge(0)
}

// receive reads the request.
func (c *call) receive() (*shard.Request, error) {
	var q question
	if err := c.stream.RecvMsg(&q); err != nil {
		return nil, err
	}
	switch {
	case !c.enter(answering, q.size):
		return nil, errMemory
	case q.err != nil:
		return nil, q.err
	case len(q.GetShardingKeys()) > shard.MaxKeys:
		return nil, errManyKeys
	}
	return &shard.Request{Cache: q.GetCache(), Payload: q.GetPayload(), Keys: q.GetShardingKeys()}, nil
}

// send sends the answer. A large one, or one to a client that reads slowly, is in progress until it was sent.
func (c *call) send(r shard.Response) error {
	out := &shardpb.GetResponse{Payload: r.Payload, AllMatched: r.AllMatched}
	if r.Assigned {
		out.Shard, out.Incarnation = &shardpb.Shard{First: r.Shard.First, Last: r.Shard.Last}, r.Incarnation
	}
	size := len(r.Payload)
	if size < countedBytes {
		return c.stream.SendMsg(out)
	}
	d := &delivery{unread: connection(c.stream.Context()).unread, size: int64(size)}
	if !d.begin() || size > smallBytes {
		d.sent = make(chan struct{})
	}
	if err := c.stream.SendMsg(&answer{GetResponse: out, delivery: d}); err != nil || d.sent == nil {
		return err
	}
	select {
	case <-d.sent:
	case <-c.stream.Context().Done():
	}
	return nil
}
