package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/grpcserver"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

var (
	errBusy     = status.Error(codes.Unavailable, "the node has too many calls in progress")
	errUnread   = status.Error(codes.Unavailable, "too many answers were not read")
	errMemory   = status.Error(codes.Unavailable, "the node has too many large requests in progress")
	errLate     = status.Error(codes.DeadlineExceeded, "the answer took too long")
	errManyKeys = status.Errorf(codes.ResourceExhausted, "a request can have at most %d keys", shard.MaxKeys)
	errPanic    = status.Error(codes.Internal, "the node failed to answer")
)

// calls limits the calls of one kind.
type calls struct {
	limit    int64
	arrivals *grpcserver.Arrivals
	open     atomic.Int64
	// answer counts the answers; nil: they are small.
	answer func(ctx context.Context, handle func() (any, error)) (any, error)
}

// limited calls handle unless too many calls are in progress.
func (c *calls) limited(handle func() error) error {
	defer c.open.Add(-1)
	if c.open.Add(1) > c.limit {
		return errBusy
	}
	return handle()
}

// receive reads the request of a call, which must arrive in time. The clients are services of one operator.
func (c *calls) receive(ctx context.Context, message any, read func(any) error) error {
	client := func() string { return "" }
	return c.arrivals.Receive(ctx, client, func() error { return grpcserver.Receive(read, message, nil) })
}

// around returns a copy of a service's description, whose unary methods are limited before their requests are read.
func (c *calls) around(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	made := *desc
	made.Methods = slices.Clone(desc.Methods)
	for i, method := range made.Methods {
		made.Methods[i].Handler = func(
			srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (answer any, err error) {
			err = c.limited(func() error {
				receive := func(message any) error { return c.receive(ctx, message, read) }
				handle := func() (any, error) { return method.Handler(srv, ctx, receive, interceptor) }
				if c.answer != nil {
					answer, err = c.answer(ctx, handle)
				} else {
					answer, err = handle()
				}
				return err
			})
			return answer, err
		}
	}
	return &made
}

// countAnswer calls handle unless the client has left too many answers unread, and counts its answer. The client has
// the token, if there is one: its connection doesn't give way to others meanwhile.
func (s *Server) countAnswer(ctx context.Context, handle func() (any, error)) (any, error) {
	place := grpcserver.PlaceOf(ctx)
	place.Begin(s.hasToken)
	defer place.End()
	client := func() string { return addressOf(ctx) }
	if err := s.answers.Check(client); err != nil {
		return nil, errUnread
	}
	answer, err := handle()
	if err != nil {
		return nil, err
	}
	answer, err = grpcserver.Count(answer, func() unsent.Part { return s.answers.Part(client) })
	var refused *fault.Error
	if errors.As(err, &refused) {
		return nil, errUnread
	}
	return answer, err
}

// addressOf returns the client's address, without its port.
func addressOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, _ := net.SplitHostPort(from.Addr.String()) // "" if it has no port
	return host
}

// limitStreams limits the calls whose answers are streams: watches of health, and reflection.
func (s *Server) limitStreams(
	srv any, ss grpc.ServerStream, method *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	first := &firstMessage{ServerStream: ss, calls: &s.others}
	if method.FullMethod == grpc_health_v1.Health_Watch_FullMethodName {
		return s.watches.limited(func() error { return handler(srv, first) })
	}
	return s.others.limited(func() error {
		done := make(chan struct{})
		defer close(done)
		go s.endReflection(ss.Context(), done)
		return handler(srv, first)
	})
}

// endReflection ends a call of reflection when it takes too long, or the server drains.
func (s *Server) endReflection(ctx context.Context, done <-chan struct{}) {
	timer := time.NewTimer(otherTime)
	defer timer.Stop()
	select {
	case <-s.drained:
		grpcserver.End(ctx, errDraining)
	case <-timer.C:
		grpcserver.End(ctx, errLate)
	case <-done:
	}
}

// firstMessage is a stream whose first message must arrive in time.
type firstMessage struct {
	grpc.ServerStream
	calls   *calls
	arrived bool
}

// RecvMsg reads a message.
func (s *firstMessage) RecvMsg(message any) error {
	if s.arrived {
		return s.ServerStream.RecvMsg(message)
	}
	s.arrived = true
	return s.calls.receive(s.Context(), message, s.ServerStream.RecvMsg)
}

// service is shardpb.ShardServiceServer.
type service struct {
	shardpb.UnimplementedShardServiceServer
	server *Server
}

// Get answers a call.
func (s service) Get(ctx context.Context, in *shardpb.GetRequest) (out *shardpb.GetResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.server.log.Error("a call of a shard panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	size := int64(len(in.GetPayload()) + 8*len(in.GetShardingKeys()))
	switch {
	case len(in.GetShardingKeys()) > shard.MaxKeys:
		return nil, errManyKeys
	case size > smallBytes && !s.server.memory.TryAcquire(size):
		return nil, errMemory
	case size > smallBytes:
		defer s.server.memory.Release(size)
	}
	timer := time.AfterFunc(s.server.limits.CallTime, func() { grpcserver.End(ctx, errLate) })
	defer timer.Stop()
	r, err := s.handle(ctx, &shard.Request{Cache: in.GetCache(), Payload: in.GetPayload(), Keys: in.GetShardingKeys()})
	if err != nil {
		return nil, err
	}
	out = &shardpb.GetResponse{Payload: r.Payload, AllMatched: r.AllMatched}
	if r.Assigned {
		out.Shard, out.Incarnation = &shardpb.Shard{First: r.Shard.First, Last: r.Shard.Last}, r.Incarnation
	}
	return out, nil
}

// handle calls the handler. Calls with keys are queued; others have no values.
func (s service) handle(ctx context.Context, r *shard.Request) (shard.Response, error) {
	if len(r.Keys) > 0 {
		select {
		case s.server.turns <- struct{}{}:
			defer func() { <-s.server.turns }()
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return shard.Response{}, errLate
	}
	response, err := s.server.handler.Get(ctx, r)
	if err != nil {
		if grpcserver.Ended(ctx) != nil {
			return response, errLate
		}
		return response, statusOf(err)
	}
	if size, limit := len(response.Payload), s.server.limits.MessageBytes; size > limit {
		return response, status.Errorf(codes.ResourceExhausted,
			"the answer has %d bytes, at most %d are allowed: ask for fewer keys", size, limit)
	}
	return response, nil
}
