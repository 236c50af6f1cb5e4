package rpc_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/certs/certstest"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// TestTokens: a call needs the token, unless it is a health check.
func TestTokens(t *testing.T) {
	t.Parallel()
	_, address := start(t, found(nil), func(o *rpc.ServerOptions) { o.Token = "right" })
	conn := foreign(t, address)
	const unknown = "/tidemark.shard.v1.ShardService/Put"
	for _, sent := range []struct {
		tokens []string
		want   codes.Code
	}{
		{nil, codes.Unauthenticated}, {[]string{"Bearer wrong"}, codes.Unauthenticated}, {[]string{"right"}, codes.Unauthenticated},
		{[]string{"Bearer "}, codes.Unauthenticated}, {[]string{"Bearer right", "Bearer right"}, codes.Unauthenticated},
		{[]string{"Basic right"}, codes.Unauthenticated}, {[]string{"Bearer righ"}, codes.Unauthenticated}, {[]string{"Bearer right"}, codes.OK}, {[]string{"bearer right"}, codes.OK},
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"authorization": sent.tokens})
		for _, method := range []string{shardpb.ShardService_Get_FullMethodName, unknown} {
			err := conn.Invoke(ctx, method, &shardpb.GetRequest{}, &shardpb.GetResponse{})
			if want := sent.want; want == codes.OK && method == unknown {
				require.Equal(t, codes.Unimplemented, status.Code(err), "%s", sent.tokens)
			} else {
				require.Equal(t, want, status.Code(err), "%s", sent.tokens)
			}
		}
		_, err := fileOf(ctx, conn)
		require.Equal(t, sent.want, status.Code(err), "%s", sent.tokens)
		_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
	}
	_, err := call(t, dial(t, rpc.ClientOptions{Token: "right"}), address, nil)
	require.NoError(t, err)
	_, err = call(t, dial(t, rpc.ClientOptions{Token: "wrong"}), address, nil)
	require.ErrorContains(t, err, "the call has no valid token")
	require.NotErrorIs(t, err, shard.ErrUnavailable, "it can't pass")
}

// fileOf requests the description of a node's service. The call lasts until ctx ends.
func fileOf(ctx context.Context, conn *grpc.ClientConn) ([]byte, error) {
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "tidemark.shard.v1.ShardService"},
	}) // Recv returns the reason of the failure
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return answer.GetFileDescriptorResponse().GetFileDescriptorProto()[0], nil
}

// TestForeignClient calls a node with only the description from reflection.
func TestForeignClient(t *testing.T) {
	t.Parallel()
	_, address := start(t, func(_ context.Context, r *shard.Request) (shard.Response, error) {
		return shard.Response{Payload: append([]byte(r.Cache), r.Payload...), AllMatched: len(r.Keys) == 2 && r.Keys[1] == 1<<64-1}, nil
	})
	conn := foreign(t, address)
	encoded, err := fileOf(t.Context(), conn)
	require.NoError(t, err)
	described := &descriptorpb.FileDescriptorProto{}
	require.NoError(t, proto.Unmarshal(encoded, described))
	file, err := protodesc.NewFile(described, protoregistry.GlobalFiles)
	require.NoError(t, err)
	method := file.Services().ByName("ShardService").Methods().ByName("Get")
	request, response := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	named := method.Input().Fields().ByName
	request.Set(named("cache"), protoreflect.ValueOfString("a"))
	request.Set(named("payload"), protoreflect.ValueOfBytes([]byte("b")))
	keys := request.Mutable(named("sharding_keys")).List()
	keys.Append(protoreflect.ValueOfUint64(0))
	keys.Append(protoreflect.ValueOfUint64(1<<64 - 1))
	require.NoError(t, conn.Invoke(t.Context(), shardpb.ShardService_Get_FullMethodName, request, response))
	answered := method.Output().Fields().ByName
	require.Equal(t, "ab", string(response.Get(answered("payload")).Bytes()))
	require.True(t, response.Get(answered("all_matched")).Bool())
	require.False(t, response.Has(answered("shard")))
}

// TestTLS: clients verify the node's certificate, and nodes those of their clients, if they require certificates.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, err := certstest.New(t.TempDir())
	require.NoError(t, err)
	pair, err := authority.Issue("node")
	require.NoError(t, err)
	trusting, err := authority.Client()
	require.NoError(t, err)
	client, err := authority.Client(pair)
	require.NoError(t, err)
	for _, asked := range []string{"", authority.File} {
		keeper, err := certs.Open(certs.Files{Cert: pair.Cert, Key: pair.Key, ClientCA: asked}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		_, address := start(t, found(nil), func(o *rpc.ServerOptions) { o.TLS, o.Token = keeper.Config("h2"), "right" })
		for c, works := range map[*tls.Config]bool{nil: false, {MinVersion: tls.VersionTLS12}: false, trusting: asked == "", client: true} {
			_, err := call(t, dial(t, rpc.ClientOptions{TLS: c, Token: "right"}), address, nil)
			if works {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, shard.ErrUnavailable)
			}
		}
		conn := foreign(t, address, grpc.WithTransportCredentials(credentials.NewTLS(client)))
		_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
	}
}

// TestDrainWithSilentTLSConnection: a client that sends nothing after its handshake doesn't hold up the drain.
func TestDrainWithSilentTLSConnection(t *testing.T) {
	t.Parallel()
	authority, err := certstest.New(t.TempDir())
	require.NoError(t, err)
	pair, err := authority.Issue("node")
	require.NoError(t, err)
	keeper, err := certs.Open(certs.Files{Cert: pair.Cert, Key: pair.Key}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	trusting, err := authority.Client()
	require.NoError(t, err)
	s, address := start(t, found(nil), func(o *rpc.ServerOptions) { o.TLS = keeper.Config("h2") })
	trusting.NextProtos = []string{"h2"}
	dialer := tls.Dialer{Config: trusting}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Read(make([]byte, 9)) // the server's SETTINGS: grpc-go waits for the client's preface
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // grpc-go waits for 5
	defer cancel()
	require.NoError(t, s.Drain(ctx))
}
