package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server"
)

// The benchmarks measure the CPU and memory of a server in a process of its own, beside a bare net/http handler that
// answers the same bytes. The storage costs nothing: it is memory that always holds the same.

const benchEnv = "TIDEMARK_BENCH_SERVER" // the child's kind: "bare" or "tidemark"

// usage is what a child has used, as it tells at /usage.
type usage struct {
	CPU    time.Duration
	Memory uint64 // bytes of heap and stacks in use after a collection
	RSS    uint64
}

// serveBench is the child: it serves until its standard input ends.
func serveBench(kind string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler := bareHandler()
	if kind == "tidemark" {
		if handler, err = benchHandler(context.Background()); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/usage", tellUsage)
	root := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/usage" {
			mux.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
	fmt.Println(l.Addr())
	go func() { _ = (&http.Server{Handler: root, ReadHeaderTimeout: time.Minute}).Serve(l) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func tellUsage(w http.ResponseWriter, _ *http.Request) {
	var u usage
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	u.CPU = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Memory = m.HeapInuse + m.StackInuse
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if _, after, ok := strings.Cut(string(status), "VmRSS:"); ok {
			_, _ = fmt.Sscan(after, &u.RSS)
			u.RSS <<= 10
		}
	}
	_ = json.NewEncoder(w).Encode(u)
}

// benchMessages is what every fetch of the benchmark answers.
func benchMessages() []channel.Message {
	messages := make([]channel.Message, 10)
	for i := range messages {
		messages[i] = channel.Message{
			ID: ulid.Make().String(), Clock: clock.Clock(i + 1), Content: []byte(`"` + strings.Repeat("x", 254) + `"`),
			PublishedAt: time.UnixMilli(1_800_000_000_123),
		}
	}
	return messages
}

// bareHandler reads the body and answers what the server answers: the floor.
func bareHandler() http.Handler {
	published := []byte(`{"channel":"bench-42","id":"01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A","clock":123456,"duplicate":false}`)
	fetched := make([]byte, 0, 4096)
	fetched = append(fetched, `{"messages":[`...)
	for _, m := range benchMessages() {
		fetched = fmt.Appendf(fetched, `{"id":"%s","clock":%d,"content":%s,"publishedAt":"2027-01-15T08:00:00.123Z"},`, m.ID, m.Clock, m.Content)
	}
	fetched = append(fetched, `],"receiptHandle":"`+strings.Repeat("h", 120)+`","more":false,"expired":0}`...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/empty/messages"):
			_, _ = io.WriteString(w, `{"messages":[],"more":false,"expired":0}`)
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Length", fmt.Sprint(len(fetched)))
			_, _ = w.Write(fetched)
		case strings.HasSuffix(r.URL.Path, "/ack"):
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(published)
		}
	})
}

func benchHandler(ctx context.Context) (http.Handler, error) {
	ring, err := receipt.NewKeyring(benchKey)
	if err != nil {
		return nil, err
	}
	policies, err := channel.NewPolicies(channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 20}, nil)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	service, err := channel.NewService(channel.Options{
		Store: &memory{messages: benchMessages()}, Receipts: ring, Policies: policies, Limits: channel.DefaultLimits(), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = service.Run(ctx) }()
	return server.New(server.Options{Service: service, Logger: log}).Handler(), nil
}

var benchKey = receipt.Key(strings.Repeat("k", receipt.MinKeyBytes))

// memory is a store that always holds the same.
type memory struct {
	channel.Store
	clock    atomic.Int64
	messages []channel.Message
}

func (m *memory) Publish(_ context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	published := make([]channel.Published, len(r.Drafts))
	for i, d := range r.Drafts {
		published[i] = channel.Published{ID: d.ID, Clock: clock.Clock(m.clock.Add(1))}
	}
	return published, nil
}

func (m *memory) Fetch(_ context.Context, r channel.FetchRequest) (channel.Batch, error) {
	if r.Subscriber == "empty" {
		return channel.Batch{}, nil
	}
	return channel.Batch{Through: 10, Clock: 10, Messages: m.messages}, nil
}

func (m *memory) Ack(context.Context, channel.AckRequest) error { return nil }

func (m *memory) Position(context.Context, string) (channel.Position, error) {
	return channel.Position{}, nil
}

func (m *memory) Listen(_ string, sink func(channel.Event)) (stop func()) {
	sink(channel.Event{Kind: channel.EventConfirmed})
	return func() {}
}

// child is a server in a process of its own.
type child struct {
	addr   string
	client *http.Client
}

func startChild(b *testing.B, kind string) *child {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), benchEnv+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return &child{addr: strings.TrimSpace(addr), client: newClient(b)}
}

func (c *child) usage(b *testing.B) usage {
	b.Helper()
	resp, err := c.client.Get("http://" + c.addr + "/usage")
	require.NoError(b, err)
	var u usage
	require.NoError(b, json.NewDecoder(resp.Body).Decode(&u))
	require.NoError(b, resp.Body.Close())
	return u
}

// BenchmarkServerCPU tells the server's CPU per request, under 32 connections.
func BenchmarkServerCPU(b *testing.B) {
	for _, call := range benchCalls() {
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s", call.method, call.path, len(call.body), call.body)
		for _, kind := range []string{"bare", "tidemark"} {
			b.Run(call.name+"/"+kind, func(b *testing.B) {
				c := startChild(b, kind)
				c.load(b, request, 2000) // warm
				before := c.usage(b)
				b.ResetTimer()
				c.load(b, request, b.N)
				b.StopTimer()
				b.ReportMetric(float64(c.usage(b).CPU-before.CPU)/float64(b.N), "server-ns/op")
			})
		}
	}
}

type benchCall struct{ name, method, path, body string }

func benchCalls() []benchCall {
	const full = "/v1/channels/bench-42/subscribers/full"
	message := `{"id":"01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A","content":"` + strings.Repeat("x", 254) + `"}`
	ack := `{"receiptHandle":"` + receiptOf("bench-42", "full") + `"}`
	return []benchCall{
		{"publish", "POST", "/v1/channels/bench-42/messages", message},
		{"fetch10", "GET", full + "/messages?max=10", ""},
		{"fetch0", "GET", "/v1/channels/bench-42/subscribers/empty/messages", ""},
		{"ack", "POST", full + "/ack", ack},
	}
}

func receiptOf(name, subscriber string) string {
	ring, err := receipt.NewKeyring(benchKey)
	if err != nil {
		panic(err)
	}
	return ring.Sign(receipt.Receipt{Channel: name, Subscriber: subscriber, Clock: 10})
}

// load sends a request n times over 32 connections.
func (c *child) load(b *testing.B, request string, n int) {
	b.Helper()
	const connections = 32
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range connections {
		conn, err := net.Dial("tcp", c.addr)
		require.NoError(b, err)
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			in := bufio.NewReaderSize(conn, 16<<10)
			for left.Add(-1) >= 0 {
				if _, err := io.WriteString(conn, request); err != nil {
					panic(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode >= 300 {
					panic(fmt.Sprint(resp, err))
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
	all.Wait()
}

// BenchmarkWaiting tells the server's memory per waiting fetch, its connection included.
func BenchmarkWaiting(b *testing.B) {
	const waiting = 2000
	for range b.N {
		c := startChild(b, "tidemark")
		c.load(b, "GET /v1/channels/bench/subscribers/empty/messages HTTP/1.1\r\nHost: bench\r\n\r\n", 1000)
		before := c.usage(b)
		conns := make([]net.Conn, waiting)
		for i := range conns {
			conn, err := net.Dial("tcp", c.addr)
			require.NoError(b, err)
			_, err = io.WriteString(conn, "GET /v1/channels/bench/subscribers/empty/messages?wait=1m HTTP/1.1\r\nHost: bench\r\n\r\n")
			require.NoError(b, err)
			conns[i] = conn
		}
		require.Eventually(b, func() bool { return c.waiting(b) == waiting }, time.Minute, 50*time.Millisecond)
		after := c.usage(b)
		b.ReportMetric(float64(after.Memory-before.Memory)/waiting, "B/waiter")
		b.ReportMetric(float64(after.RSS-before.RSS)/waiting, "RSS-B/waiter")
		for _, conn := range conns {
			require.NoError(b, conn.Close())
		}
	}
}

func (c *child) waiting(b *testing.B) int {
	b.Helper()
	resp, err := c.client.Get("http://" + c.addr + "/metrics")
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	var n int
	_, after, _ := strings.Cut(string(data), "\ntidemark_waiting_fetches ")
	_, err = fmt.Sscan(after, &n)
	require.NoError(b, err)
	return n
}

// BenchmarkHandler tells what the server allocates for a request, without net/http and the network.
func BenchmarkHandler(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	handler, err := benchHandler(ctx)
	require.NoError(b, err)
	for _, call := range benchCalls() {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.NewReader(call.body)
			request, err := http.NewRequestWithContext(b.Context(), call.method, call.path, body)
			require.NoError(b, err)
			w := &nowhere{header: http.Header{}}
			for b.Loop() {
				_, _ = body.Seek(0, io.SeekStart)
				clear(w.header)
				handler.ServeHTTP(w, request)
			}
			require.Less(b, w.status, 300)
		})
	}
}

// nowhere drops what is written.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(status int)      { n.status = status }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
