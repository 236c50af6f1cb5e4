package rpc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
)

// asServer is the variable with which the test binary runs as a server, in a process of its own.
const asServer = "TIDEMARK_TEST_RPC_SERVER"

// runServer serves answers of 25 values of 100 bytes until its input ends.
func runServer() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := rpc.NewServer(rpc.ServerOptions{Handler: found(make([]byte, 25*100))})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Drain(context.Background())
	}()
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// startServer starts a server as a process of its own, and returns its address.
func startServer(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"=1")
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

// BenchmarkCalls measures what a call costs the client, whose servers are processes of their own: 25 keys of 8 to 40 bytes, and 25
// values of 100 bytes.
func BenchmarkCalls(b *testing.B) {
	const most = 12
	request := &shard.Request{Cache: "authors", Payload: make([]byte, 25*24), Keys: make([]uint64, 25)}
	var addresses []string
	for range most {
		addresses = append(addresses, startServer(b))
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
