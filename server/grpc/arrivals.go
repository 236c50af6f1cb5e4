package grpc

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/server/web"
)

// arrivals are the messages of clients that are arriving on the listener of gRPC. grpc-go waits for a message as long as its
// client wants, and keeps what it has of it. So messages that take long are limited in time and number. All methods may be
// called by several goroutines.
type arrivals struct {
	limit time.Duration // a message that takes longer is refused
	slow  time.Duration // messages that take longer than this are counted
	most  int           // so many of these are waited for; the oldest are refused

	mu    sync.Mutex
	calls list.List // of *call, the oldest first
}

const (
	arrivalLimit = 10 * time.Second
	arrivalSlow  = time.Second
)

// begin adds a call whose message is waited for.
func (a *arrivals) begin(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.arrival = a.calls.PushBack(c)
}

// end removes a call whose message has arrived, or never will.
func (a *arrivals) end(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls.Remove(c.arrival)
	c.arrival = nil
}

// run refuses messages that take too long until stop is closed.
func (a *arrivals) run(stop <-chan struct{}) {
	ticker := time.NewTicker(a.slow / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		for _, c := range a.overdue(time.Now()) {
			c.refuse()
		}
	}
}

// overdue returns the calls to refuse.
func (a *arrivals) overdue(now time.Time) (refused []*call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var slow []*call
	for e := a.calls.Front(); e != nil && now.Sub(e.Value.(*call).started) > a.slow; e = e.Next() {
		slow = append(slow, e.Value.(*call))
	}
	for i, c := range slow {
		if (len(slow)-i > a.most || now.Sub(c.started) > a.limit) && !c.refused.Swap(true) {
			refused = append(refused, c)
		}
	}
	return refused
}

// errSlow is the error of a message that took too long to arrive.
var errSlow = status.Error(codes.DeadlineExceeded, web.ErrBodySlow.Detail)

// refuse ends a call whose message is waited for, which ends the wait.
func (c *call) refuse() {
	end(c.Context(), errSlow)
}

// end ends a call on the listener of gRPC from outside of its handler, whose context then ends.
func end(ctx context.Context, err error) {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ WriteStatus(s *status.Status) error })
	if ok {
		_ = stream.WriteStatus(status.Convert(err)) // fails only if the client has gone
	}
}
