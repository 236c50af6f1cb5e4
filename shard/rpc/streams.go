package rpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

var errCompressed = status.Error(codes.Unimplemented, "compressed requests are not supported")

// streamed returns the description of a service whose methods with one answer are streams of one message: grpc-go reads the
// requests of other methods before it calls any code of ours.
func streamed(of *grpc.ServiceDesc) *grpc.ServiceDesc {
	made := &grpc.ServiceDesc{ServiceName: of.ServiceName, HandlerType: of.HandlerType, Metadata: of.Metadata}
	for _, method := range of.Methods {
		made.Streams = append(made.Streams, grpc.StreamDesc{
			StreamName: method.MethodName, ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
				answer, err := method.Handler(srv, stream.Context(), stream.RecvMsg, nil)
				if err != nil {
					return err
				}
				return stream.SendMsg(answer)
			},
		})
	}
	made.Streams = append(made.Streams, of.Streams...)
	return made
}

// intercept refuses compressed requests, which could be much larger than they seem, and bounds calls of health and reflection.
func (s *Server) intercept(srv any, stream grpc.ServerStream, method *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if name := transportOf(stream.Context()).RecvCompress(); name != "" && name != encoding.Identity {
		return errCompressed
	}
	if method.FullMethod == shardpb.ShardService_Get_FullMethodName {
		return handler(srv, stream)
	}
	count, most := &s.others, int64(mostOthers)
	if method.FullMethod == grpc_health_v1.Health_Watch_FullMethodName {
		count, most = &s.watches, mostWatches
	}
	return limited(count, most, func() error {
		first := &firstMessage{ServerStream: stream, timer: time.AfterFunc(otherSlow, func() { finish(stream.Context(), errSlow) })}
		defer first.timer.Stop()
		if count == &s.watches { // they notice themselves that the server drains
			return handler(srv, first)
		}
		done := make(chan struct{})
		defer close(done)
		go s.endOther(stream.Context(), done)
		return handler(srv, first)
	})
}

// limited calls f unless it is being called by as many others.
func limited(calls *atomic.Int64, most int64, f func() error) error {
	defer calls.Add(-1)
	if calls.Add(1) > most {
		return errBusy
	}
	return f()
}

// endOther ends a call of reflection when it takes too long, or the server drains.
func (s *Server) endOther(ctx context.Context, done <-chan struct{}) {
	timer := time.NewTimer(otherTime)
	defer timer.Stop()
	select {
	case <-s.drained:
		finish(ctx, errDraining)
	case <-timer.C:
		finish(ctx, errLate)
	case <-done:
	}
}

// firstMessage is a stream whose timer stops when the first message has arrived.
type firstMessage struct {
	grpc.ServerStream
	timer *time.Timer
}

// RecvMsg reads a message.
func (s *firstMessage) RecvMsg(message any) error {
	defer s.timer.Stop()
	return s.ServerStream.RecvMsg(message)
}

// transportStream is what grpc-go's streams have for those who know them.
type transportStream interface {
	WriteStatus(s *status.Status) error
	RecvCompress() string
}

func transportOf(ctx context.Context) transportStream {
	return grpc.ServerTransportStreamFromContext(ctx).(transportStream)
}

// finish ends a call from outside of its handler, whose context then ends.
func finish(ctx context.Context, err error) {
	_ = transportOf(ctx).WriteStatus(status.Convert(err)) // fails only if the client has gone
}

// connection returns the connection of a call.
func connection(ctx context.Context) connected {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(connected)
}
