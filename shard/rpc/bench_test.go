package rpc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
)

// asServer is the variable with which the test binary runs as a server, in a process of its own.
const asServer = "TIDEMARK_TEST_RPC_SERVER"

const shards, replicas = 4, 3

// description is of a cache whose values have 100 bytes.
var description = func() tier.Description {
	kind, err := tier.Find(site.Community().Table, "author")
	if err != nil {
		panic(err)
	}
	d, err := tier.Describe(kind)
	if err != nil {
		panic(err)
	}
	return d
}()

var value = make([]byte, 100)

// runServer serves one of four shards, which has all keys, until its input ends.
func runServer(which string) error {
	at, err := strconv.Atoi(which)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	in := shard.Layout{Starts: shard.Even(shards)}.Interval(at % shards)
	s := rpc.NewServer(rpc.ServerOptions{Handler: handler(func(_ context.Context, r *shard.Request) (shard.Response, error) {
		ids, err := description.Keys.Decode(r.Payload)
		var entries []shard.Entry[string, []byte]
		for _, id := range ids {
			entries = append(entries, shard.Entry[string, []byte]{ID: id, Value: value})
		}
		payload, _ := description.Values.Append(nil, entries)
		return shard.Response{Payload: payload, AllMatched: true, Assigned: true, Shard: in, Incarnation: 1}, err
	})})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Drain(context.Background())
	}()
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// startServer starts a server of a shard as a process of its own, and returns its address.
func startServer(b *testing.B, at int) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"="+strconv.Itoa(at))
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(address)
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkCalls measures the cost of a call for the client, with servers in processes of their own: 25 keys of 8 to 40
// bytes, and 25 values of 100 bytes.
func BenchmarkCalls(b *testing.B) {
	ids := newIDs(25)
	payload, err := description.Keys.Append(nil, ids)
	require.NoError(b, err)
	request := &shard.Request{Cache: "author", Payload: payload, Keys: make([]uint64, 25)}
	var addresses []string
	for i := range shards * replicas {
		addresses = append(addresses, startServer(b, i))
	}
	for _, at := range []struct{ servers, gets int }{{1, 1}, {12, 1}, {12, 8}} {
		b.Run(fmt.Sprintf("servers=%d/gets=%d", at.servers, at.gets), func(b *testing.B) {
			c := dial(b, rpc.ClientOptions{})
			get := func() {
				ctx, cancel := context.WithTimeout(b.Context(), patience)
				defer cancel()
				var calls sync.WaitGroup
				for _, address := range addresses[:at.servers] {
					calls.Go(func() {
						_, err := c.Call(ctx, address, request)
						require.NoError(b, err)
					})
				}
				calls.Wait()
			}
			get() // connects
			b.ReportAllocs()
			before := cpu()
			b.ResetTimer()
			var gets sync.WaitGroup
			for i := range at.gets {
				gets.Go(func() {
					for range (b.N + i) / at.gets {
						get()
					}
				})
			}
			gets.Wait()
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N*at.servers), "cpu-µs/call")
		})
	}
}

// newIDs returns IDs of 8 to 40 bytes.
func newIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%08d%s", rand.Uint32()%1e8, strings.Repeat("x", i%33)))
	}
	return ids
}

// BenchmarkGets measures the cost of a Get of 100 keys for the client, over 4 shards with 3 replicas in processes of
// their own.
func BenchmarkGets(b *testing.B) {
	var all []shard.Host
	for i := range shards * replicas {
		all = append(all, shard.Host{Address: startServer(b, i)})
	}
	c, err := shard.NewClient(description, shard.ClientOptions{Hosts: hosts(all), Transport: dial(b, rpc.ClientOptions{})})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	defer running.Wait()
	defer stop()
	ids := newIDs(100)
	_, err = c.Get(ctx, ids)
	require.NoError(b, err)
	for _, gets := range []int{1, 8} {
		b.Run(fmt.Sprintf("gets=%d", gets), func(b *testing.B) {
			b.ReportAllocs()
			before := cpu()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range gets {
				all.Go(func() {
					for range (b.N + i) / gets {
						_, err := c.Get(ctx, ids)
						require.NoError(b, err)
					}
				})
			}
			all.Wait()
			used := float64((cpu() - before).Microseconds()) / float64(b.N)
			b.ReportMetric(used, "cpu-µs/get")
			b.ReportMetric(float64(len(ids))/used*1e6, "keys/cpu-s")
		})
	}
}

type hosts []shard.Host

func (h hosts) Hosts(context.Context) ([]shard.Host, error) { return h, nil }
