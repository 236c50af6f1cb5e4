// Package proxies tests the samples of deploy/ for reverse proxies: each runs as it is, with other addresses, in front of
// two servers. Its tests need nginx, haproxy, caddy and redis-server on PATH, and TIDEMARK_TEST_BINARY.
package proxies

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

var poll = flag.Duration("poll", 3*time.Second, "how long a fetch without messages waits")

const limit = time.Minute // of each wait for a process

// program is a process that the test ends.
type program struct {
	*exec.Cmd
	mu     sync.Mutex
	output bytes.Buffer
	done   chan struct{}
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(name, args...), done: make(chan struct{})} //nolint:noctx // it is ended below
	p.Stdout, p.Stderr, p.Dir = p, p, t.TempDir()
	p.Env = append(os.Environ(), "HOME="+p.Dir, "XDG_CONFIG_HOME="+p.Dir, "XDG_DATA_HOME="+p.Dir)
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, p.Start())
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			_ = p.Process.Kill()
			<-p.done
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, p.text())
		}
	})
	return p
}

// await waits until a check succeeds.
func (p *program) await(t *testing.T, check func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		select {
		case <-p.done:
			require.FailNow(t, "the program ended", p.text())
		default:
		}
		return check()
	}, limit, 20*time.Millisecond, "%s", p.Path)
}

// address returns an address of this machine that no other program listens on.
func address() string {
	return fmt.Sprintf("127.%d.%d.%d", 100+rand.IntN(100), 1+rand.IntN(250), 1+rand.IntN(250)) //nolint:gosec // no secret
}

func connects(address string) func() bool {
	return func() bool {
		conn, err := net.Dial("tcp", address) //nolint:noctx // of this machine
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
}

var ready = regexp.MustCompile(`msg="tidemark is ready" url=http://(\S+) `)

// startServer starts a server, and returns its address.
func startServer(t *testing.T, redis string) (*program, string) {
	t.Helper()
	binary := os.Getenv("TIDEMARK_TEST_BINARY")
	require.NotEmpty(t, binary, "scripts/deploy-check.sh sets TIDEMARK_TEST_BINARY")
	p := start(t, binary, "serve", "--redis", "redis://"+redis, "--listen", "127.0.0.1:0", "--admin-listen", "off",
		"--grpc-listen", "off", "--trust-proxies", "127.0.0.1/32", "--allow-hosts", "tidemark.example.com",
		"--address-limits", "requests=300/h", "--drain-delay", "3s")
	p.await(t, func() bool { return ready.MatchString(p.text()) })
	return p, ready.FindStringSubmatch(p.text())[1]
}

// sample writes a sample with other addresses, and returns its path.
func sample(t *testing.T, path string, replacements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deploy", path)) //nolint:gosec // of this project
	require.NoError(t, err)
	for i := 0; i < len(replacements); i += 2 {
		require.Contains(t, string(text), replacements[i])
		text = bytes.ReplaceAll(text, []byte(replacements[i]), []byte(replacements[i+1]))
	}
	written := filepath.Join(t.TempDir(), filepath.Base(path))
	require.NoError(t, os.WriteFile(written, text, 0o600))
	return written
}

// proxy is a running proxy.
type proxy struct{ http, grpc string }

func startNginx(t *testing.T, at, one, two string) *program {
	t.Helper()
	site := sample(t, "nginx/tidemark.conf", "127.0.0.1:8080", one, "127.0.0.1:8090", two,
		"listen 80;", "listen "+at+":7180;", "listen 50504 ", "listen "+at+":7181 ")
	dir := t.TempDir()
	main := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(main, fmt.Appendf(nil, `daemon off; pid %[1]s/pid; error_log stderr; worker_processes 1;
		events { worker_connections 256; }
		http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f;
		  uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; include %[2]s; }`, dir, site), 0o600))
	return start(t, "nginx", "-e", "stderr", "-c", main)
}

func startHAProxy(t *testing.T, at, one, two string) *program {
	t.Helper()
	return start(t, "haproxy", "-db", "-f", sample(t, "haproxy/haproxy.cfg", "127.0.0.1:8080", one, "127.0.0.1:8090", two,
		"bind :80\n", "bind "+at+":7180\n", "bind :50504 ", "bind "+at+":7181 "))
}

func startCaddy(t *testing.T, at, one, two string) *program {
	t.Helper()
	return start(t, "caddy", "run", "--adapter", "caddyfile", "--config", sample(t, "caddy/Caddyfile",
		"127.0.0.1:8080", one, "127.0.0.1:8090", two, "\n:80 {", "\nhttp://:7180 {\n\tbind "+at,
		"\n:50504 {", "\nhttp://:7181 {\n\tbind "+at))
}

func TestProxies(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, at, one, two string) *program{
		"nginx": startNginx, "haproxy": startHAProxy, "caddy": startCaddy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := address()
			redis := start(t, "redis-server", "--bind", at, "--port", "7179", "--save", "")
			redis.await(t, connects(at+":7179"))
			first, one := startServer(t, at+":7179")
			_, two := startServer(t, at+":7179")
			running := run(t, at, one, two)
			p := proxy{http: at + ":7180", grpc: at + ":7181"}
			running.await(t, func() bool {
				status, _, err := p.from("127.97.0.1").call(t.Context(), http.MethodGet, "/readyz", "")
				return err == nil && status == http.StatusOK
			})
			running.await(t, connects(p.grpc))
			t.Run("long poll", p.testLongPoll)
			t.Run("stream", p.testStream)
			t.Run("websocket", p.testSocket)
			t.Run("grpc", p.testGRPC)
			t.Run("drain", func(t *testing.T) { p.testDrain(t, first) })
			t.Run("client address", p.testAddress)
		})
	}
}

// caller is a client at an address of its own.
type caller struct {
	proxy  proxy
	client *http.Client
	header http.Header
}

func (p proxy) from(address string) caller {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return caller{p, &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}, http.Header{}}
}

func (c caller) request(ctx context.Context, method, path, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.proxy.http+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Host, r.Header = "tidemark.example.com", c.header.Clone()
	return r, nil
}

func (c caller) call(ctx context.Context, method, path, body string) (int, string, error) {
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return 0, "", err
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// ok makes a call that must succeed.
func (c caller) ok(t *testing.T, method, path, body string) string {
	t.Helper()
	status, text, err := c.call(t.Context(), method, path, body)
	require.NoError(t, err)
	require.Less(t, status, 300, text)
	return text
}

// testLongPoll: a fetch waits, whether or not there is a message.
func (p proxy) testLongPoll(t *testing.T) {
	c := p.from("127.97.0.2")
	c.ok(t, http.MethodPut, "/v1/channels/poll/subscribers/ann", "")
	require.Contains(t, c.ok(t, http.MethodGet, "/v1/channels/poll/subscribers/ann/messages?wait="+poll.String(), ""), `"messages":[]`)
	fetched := make(chan string, 1)
	go func() {
		_, text, err := c.call(t.Context(), http.MethodGet, "/v1/channels/poll/subscribers/ann/messages?wait=30s", "")
		fetched <- fmt.Sprint(text, err)
	}()
	c.ok(t, http.MethodPost, "/v1/channels/poll/messages", `{"id":"late","content":1}`)
	require.Contains(t, <-fetched, `"id":"late"`)
}

// testStream: events come while the answer is still open.
func (p proxy) testStream(t *testing.T) {
	c := p.from("127.97.0.3")
	c.ok(t, http.MethodPut, "/v1/channels/events/subscribers/ann", "")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := c.request(ctx, http.MethodGet, "/v1/channels/events/subscribers/ann/stream", "")
	require.NoError(t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := c.client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // canceled
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Empty(t, answer.Header.Get("Content-Encoding"))
	lines := bufio.NewScanner(answer.Body)
	for i := range 3 {
		c.ok(t, http.MethodPost, "/v1/channels/events/messages", fmt.Sprintf(`{"id":"event-%d","content":1}`, i))
		for !strings.Contains(lines.Text(), fmt.Sprintf("event-%d", i)) {
			require.True(t, lines.Scan(), "the stream ended: %v", lines.Err())
		}
	}
}

// testSocket: a WebSocket is opened, and carries frames both ways.
func (p proxy) testSocket(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn, answer, err := websocket.Dial(ctx, "ws://"+p.http+"/v1/socket", &websocket.DialOptions{
		Subprotocols: []string{"tidemark.v1"}, Host: "tidemark.example.com",
	})
	require.NoError(t, err)
	defer conn.CloseNow() //nolint:errcheck // the test has what it needs
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"ping","ref":7}`)))
	for {
		_, frame, err := conn.Read(ctx)
		require.NoError(t, err)
		var pong struct {
			Type string
			Ref  int
		}
		require.NoError(t, json.Unmarshal(frame, &pong))
		if pong.Type == "pong" {
			require.Equal(t, 7, pong.Ref)
			return
		}
	}
}

func (p proxy) testGRPC(t *testing.T) {
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("tidemark.example.com"))
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test has what it needs
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.Status)
}

// testDrain: no request fails while one of the servers stops.
func (p proxy) testDrain(t *testing.T, server *program) {
	p.from("127.97.0.4").ok(t, http.MethodPut, "/v1/channels/drain/subscribers/ann", "")
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	after := 0
	for i := 0; after < 50; i++ {
		c := p.from(fmt.Sprintf("127.98.%d.%d", i/12500, 1+i/50%250))
		c.ok(t, http.MethodGet, "/v1/channels/drain/subscribers/ann/messages?wait=5ms", "")
		select {
		case <-server.done:
			after++
		default:
		}
	}
	require.Equal(t, 0, server.ProcessState.ExitCode(), server.text())
}

// testAddress: the service counts each client by its own address, whatever the client writes into the header.
func (p proxy) testAddress(t *testing.T) {
	flooding, other := p.from("127.97.0.5"), p.from("127.97.0.6")
	for i := 0; ; i++ {
		require.Less(t, i, 400, "the limit of an address was not applied")
		flooding.header.Set("X-Forwarded-For", fmt.Sprintf("10.1.%d.%d", i/250, i%250))
		status, text, err := flooding.call(t.Context(), http.MethodGet, "/v1/info", "")
		require.NoError(t, err)
		if status == http.StatusTooManyRequests {
			require.Greater(t, i, 250, text)
			break
		}
		require.Equal(t, http.StatusOK, status, text)
	}
	other.ok(t, http.MethodGet, "/v1/info", "")
}
