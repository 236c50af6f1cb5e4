package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/process"
)

// serverProcess is a process of the service, with a client of it.
type serverProcess struct {
	*client.Client
	*process.Process
	url    string
	admin  string // URL of the admin listener
	killed bool   // by the test
}

// startServer starts `tidemark serve` with flags, and ends it with the test.
func startServer(t *testing.T, flags ...string) *serverProcess {
	t.Helper()
	return startServerIn(t, t.TempDir(), flags...)
}

// startServerIn is startServer in a folder.
func startServerIn(t *testing.T, dir string, flags ...string) *serverProcess {
	t.Helper()
	return startServerWith(t, dir, nil, flags...)
}

// startServerWith is startServerIn with more variables, as KEY=value.
func startServerWith(t *testing.T, dir string, variables []string, flags ...string) *serverProcess {
	t.Helper()
	program, err := exec.LookPath("tidemark")
	require.NoError(t, err)
	s := &serverProcess{Process: &process.Process{
		Program: program, Args: append([]string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
			"--admin-listen", "127.0.0.1:0"}, flags...),
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=" + os.Getenv("GORACE")},
			variables...),
		Dir: dir, LogName: "log",
	}}
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { s.end(t) })
	s.url, s.admin = s.awaitURLs(t)
	s.Client, err = client.New(s.url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// awaitURLs waits until the process is ready, and returns its URLs.
func (s *serverProcess) awaitURLs(t *testing.T) (url, admin string) {
	t.Helper()
	pattern := regexp.MustCompile(`msg="tidemark is ready" url=(\S+) .* admin=(\S+)\n`)
	began, limit := time.Now(), time.After(scriptLimit)
	for {
		if match := pattern.FindStringSubmatch(s.Log()); match != nil {
			return match[1], match[2]
		}
		select {
		case <-s.Exited():
			require.FailNow(t, "the service ended by itself", s.Log())
		case <-limit:
			require.FailNow(t, "the service is not ready", s.Log())
		case <-time.After(pace.Look(began)):
		}
	}
}

// end ends the process, which must succeed, unless the test has killed it.
func (s *serverProcess) end(t *testing.T) {
	t.Helper()
	if s.killed {
		return
	}
	err := s.End(syscall.SIGTERM)
	if code := s.ExitCode(); err != nil || code != 0 || t.Failed() {
		t.Errorf("%s ended with status %d, %v, printing:\n%s", s.url, code, err, s.Log())
	}
}

// pause stops the process where it is, until resume.
func (s *serverProcess) pause(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Signal(syscall.SIGSTOP))
}

func (s *serverProcess) resume(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Signal(syscall.SIGCONT))
}

// request sends a request on a connection of its own, and returns the status and the body of the answer.
func (s *serverProcess) request(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(text)
}

func (s *serverProcess) ready(t *testing.T) bool {
	t.Helper()
	status, _ := s.request(t, http.MethodGet, s.url+"/readyz", "")
	return status == http.StatusOK
}

func (s *serverProcess) metrics(t *testing.T) string {
	t.Helper()
	_, text := s.request(t, http.MethodGet, s.admin+"/metrics", "")
	return text
}

// metric returns a metric without labels.
func (s *serverProcess) metric(t *testing.T, name string) float64 {
	t.Helper()
	text := s.metrics(t)
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	require.NotNil(t, match, "%s", text)
	value, err := strconv.ParseFloat(match[1], 64)
	require.NoError(t, err)
	return value
}
