package shards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// nodeEnv makes a process of this test binary a node: the JSON of its settings.
const nodeEnv = "TIDEMARK_TEST_SHARD_NODE"

// serveNode is the process of a node.
func serveNode(description string) {
	var s settings
	if err := json.Unmarshal([]byte(description), &s); err != nil {
		panic(err)
	}
	if err := s.serve(); err != nil {
		panic(err)
	}
}

// settings are the settings of a node.
type settings struct {
	Redis, Prefix string
	Member        shard.Member
	KeepServing   bool
	Garbled       bool // its values can't be decoded
}

const (
	pingPeriod = 200 * time.Millisecond
	leaseTTL   = 2 * time.Second
)

// serve is the program of a node.
func (s settings) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	conn, err := redis.Connect(ctx, redis.Options{URL: s.Redis, KeyPrefix: s.Prefix, Logger: logger})
	if err != nil {
		return err
	}
	defer conn.Close()
	d := description(s.Member.Cache)
	if s.Garbled {
		d.Values = garbled{d.Values}
	}
	node, err := shard.NewNode(d, source{}, shard.NodeOptions{
		Member: s.Member, Claims: shards.New(conn), PingPeriod: pingPeriod, TTL: leaseTTL, Margin: leaseTTL / 4,
		KeepServing: s.KeepServing, Logger: logger,
	})
	if err != nil {
		return err
	}
	server := rpc.NewServer(rpc.ServerOptions{Handler: node})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(l) }()
	fmt.Printf("listening on %s\n", l.Addr())
	for ctx.Err() == nil {
		logger.Info("the node has ended", "error", node.Run(ctx)) // as a supervisor it begins again
	}
	_ = server.Drain(context.WithoutCancel(ctx))
	return <-serving
}

// description is the description in all tests: a key is its own sharding key, and its own ID.
func description(cache string) shard.Description[uint64, uint64, string] {
	same := func(key uint64) uint64 { return key }
	return shard.Description[uint64, uint64, string]{
		Cache: cache, ShardingKey: same, EntryID: same,
		Keys: shard.JSON[[]uint64](), Values: shard.JSON[[]shard.Entry[uint64, string]](),
	}
}

// valueOf returns the expected value of a key, if any.
func valueOf(key uint64) (string, bool) { return "v" + strconv.FormatUint(key, 36), key%5 != 2 }

// source is the source of all nodes.
type source struct{}

func (source) Run(ctx context.Context, in shard.Interval, serve func(shard.Reader[uint64, uint64, string])) error {
	fmt.Print(loading)
	serve(func(_ context.Context, keys []uint64) ([]shard.Entry[uint64, string], error) {
		var found []shard.Entry[uint64, string]
		for _, key := range keys {
			value, has := valueOf(key)
			if !in.Contains(key) {
				value, has = "of another shard", true // it must never be asked
			}
			if has {
				found = append(found, shard.Entry[uint64, string]{ID: key, Value: value})
			}
		}
		return found, nil
	})
	<-ctx.Done()
	return ctx.Err()
}

// garbled encodes values in another form.
type garbled struct {
	shard.Codec[[]shard.Entry[uint64, string]]
}

func (garbled) Append(dst []byte, _ []shard.Entry[uint64, string]) ([]byte, error) {
	return append(dst, "\x00]{"...), nil
}
