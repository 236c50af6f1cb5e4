package live_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// site is two servers, of which one has TLS, and nodes of shards in two data centres, all in use.
type site struct {
	t               *testing.T
	dir, program    string
	http            string // URL
	admin, adminTLS string // host:port
	nodes           []string
	adminKey        string // a file, as the next two
	metricsKey      string
	limitedKey      string
}

// run runs a program until end is called or the test ends. It returns what ready captures in a line of its log. Servers
// send traces to a collector that drops them, so that there are exemplars.
func run(t *testing.T, ready *regexp.Regexp, program string, args ...string) (value string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT="+
		collector(t))
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines, found, ended := bufio.NewScanner(log), make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for ready := ready; lines.Scan(); {
			t.Log(filepath.Base(program), lines.Text())
			if match := ready.FindStringSubmatch(lines.Text()); match != nil {
				select {
				case found <- match[1]:
				default: // a later line
				}
			}
		}
		_, _ = io.Copy(io.Discard, log)
		_ = cmd.Wait()
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(end)
	select {
	case value := <-found:
		return value, end
	case <-ended:
		require.FailNow(t, "the program ended before it was ready")
		return "", nil
	}
}

// collector is the URL of a server that answers every request.
func collector(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return server.URL
}

var adminAt = regexp.MustCompile(`msg="tidemark is ready".* admin=\w+://(\S+)`)

// startSite starts a site, and load that ends with the test. A node of data centre b is killed, so that it fails.
func startSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), program: os.Getenv("TIDEMARK_TEST_BINARY")}
	require.NotEmpty(t, s.program, "scripts/monitoring.sh sets TIDEMARK_TEST_BINARY")
	keys := filepath.Join(s.dir, "keys.yaml")
	const everything = `[{"actions":["publish","subscribe","describe","ticket","queue","admin","read","write"]}]`
	s.adminKey = s.newKey(keys, "admin.key", "--grants", everything)
	s.metricsKey = s.newKey(keys, "metrics.key", "--grants", `[{"actions":["metrics"]}]`)
	s.limitedKey = s.newKey(keys, "limited.key", "--grants", everything, "--limits", "requests=1/h")
	cert, private := s.newCertificate()
	redis := "unix://" + filepath.Join(s.dir, "data", "redis.sock")

	common := []string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--admin-listen",
		"127.0.0.1:0", "--api-keys", keys, "--cache-shards", "author", "--channels",
		`[{"pattern":"lagging.*","lagMetrics":true},{"pattern":"notifications:topic:.+","deliver":"copies"}]`}
	both := regexp.MustCompile(`msg="tidemark is ready" (url=\S+ .* admin=\S+)`)
	ready, _ := run(t, both, s.program, append(common, "--data-dir", filepath.Join(s.dir, "data"), "--jwt-keys",
		serveKeys(t), "--key-metrics", "author,session")...)
	_, err := fmt.Sscanf(regexp.MustCompile(`url=(\S+) .*admin=http://(\S+)`).ReplaceAllString(ready, "$1 $2"), "%s %s",
		&s.http, &s.admin)
	require.NoError(t, err)
	s.adminTLS, _ = run(t, adminAt, s.program, append(common, "--redis", redis, "--tls-cert", cert, "--tls-key",
		private)...)

	s.command("shards", "layout", "--redis", redis, "--cache", "author", "--dc", "a", "--dc", "b", "--shards", "1")
	var killed func()
	for _, dc := range []string{"a", "b"} {
		var admin string
		admin, killed = run(t, adminAt, s.program, "shard", "serve", "--redis", redis, "--cache", "author", "--dc", dc,
			"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		s.nodes = append(s.nodes, admin)
	}
	s.load(func() { killed() })
	return s
}

// newKey makes an API key, adds it to a file, and returns the path of a file that has only the key.
func (s *site) newKey(keys, name string, flags ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.program, append([]string{"key", "create", "--append", keys}, flags...)...)
	cmd.Stderr = os.Stderr
	key, err := cmd.Output()
	require.NoError(s.t, err)
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, bytes.TrimSpace(key), 0o600))
	return path
}

// serveKeys serves a set of keys that verify tokens, and returns its URL.
func serveKeys(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":"%s"}]}`,
			base64.RawURLEncoding.EncodeToString(public))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/keys"
}

// newCertificate writes a certificate for 127.0.0.1 and its key.
func (s *site) newCertificate() (cert, private string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(s.t, err)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(s.t, err)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(s.dir, name)
		require.NoError(s.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", signed), write("key.pem", "PRIVATE KEY", plain)
}

func (s *site) command(args ...string) {
	s.t.Helper()
	text, err := exec.CommandContext(s.t.Context(), s.program, args...).CombinedOutput()
	require.NoError(s.t, err, "%s", text)
}

// call sends a request and returns the status and the body of its answer.
func (s *site) call(ctx context.Context, method, url, key, body string) (status int, answer string, err error) {
	token, err := os.ReadFile(key)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	answered, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answered.Body.Close() }()
	text, err := io.ReadAll(answered.Body)
	return answered.StatusCode, string(text), err
}

// page returns the metrics of the first server.
func (s *site) page() string {
	s.t.Helper()
	status, text, err := s.call(s.t.Context(), http.MethodGet, "http://"+s.admin+"/metrics", s.metricsKey, "")
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, status)
	return text
}

// must calls the first server, which must answer with success.
func (s *site) must(method, path, body string) string {
	s.t.Helper()
	status, text, err := s.call(s.t.Context(), method, s.http+path, s.adminKey, body)
	require.NoError(s.t, err)
	require.Less(s.t, status, 300, "%s %s: %s", method, path, text)
	return text
}

const (
	orders = "/v1/channels/lagging.orders"
	author = "/v1/cache/author/1"
)

// load uses everything once, calls then, and continues with requests until the test ends.
func (s *site) load(then func()) {
	s.t.Helper()
	s.must(http.MethodPut, orders+"/subscribers/bill", `{}`)
	for range 2 {
		s.must(http.MethodPut, orders+"/messages/one", `1`)
	}
	s.must(http.MethodPut, author, `{"id":1}`)
	require.Eventually(s.t, func() bool { // both data centres answer
		s.must(http.MethodGet, author, "")
		status, text, err := s.call(s.t.Context(), http.MethodGet, "http://"+s.admin+"/metrics", s.metricsKey, "")
		return err == nil && status == http.StatusOK &&
			strings.Contains(text, `tidemark_shard_client_late_answers_total{cache="author"`) &&
			strings.Contains(text, `tidemark_shard_reads_total{cache="author",outcome="hit"}`)
	}, patience, 50*time.Millisecond)
	s.must(http.MethodPost, "/v1/tickets", `{"queue":"default","id":"gone"}`)
	s.must(http.MethodDelete, "/v1/tickets/gone", "")
	for range 2 { // the second is beyond its limit
		_, _, err := s.call(s.t.Context(), http.MethodGet, s.http+"/v1/info", s.limitedKey, "")
		require.NoError(s.t, err)
	}
	then()

	ctx, cancel := context.WithCancel(s.t.Context())
	var using sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		using.Wait()
	})
	s.must(http.MethodPut, orders+"/subscribers/carl", `{}`)
	using.Go(func() { // a stream, until the test ends
		_, _, _ = s.call(ctx, http.MethodGet, s.http+orders+"/subscribers/carl/stream", s.adminKey, "")
	})
	using.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			for _, one := range [][3]string{
				{http.MethodPut, fmt.Sprintf("%s/messages/%d", orders, n), `1`},
				{http.MethodGet, orders + "/subscribers/bill/messages?max=1", ""},
				{http.MethodGet, author, ""},
				{http.MethodGet, fmt.Sprintf("/v1/cache/author/%d", n), ""},
				{http.MethodGet, "/readyz", ""},
				{http.MethodPost, "/v1/tickets", fmt.Sprintf(`{"queue":"default","id":"a%d"}`, n)},
				{http.MethodPost, "/v1/tickets", fmt.Sprintf(`{"queue":"default","id":"b%d"}`, n)},
				{http.MethodGet, fmt.Sprintf("/v1/channels/ticket.a%d/subscribers/player/messages?wait=1s", n), ""},
				{http.MethodGet, "/v1/nothing", ""},
			} {
				_, _, _ = s.call(ctx, one[0], s.http+one[1], s.adminKey, one[2])
			}
		}
	})
}
