package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// serviceEnv makes this test binary run the service instead, see TestServiceProcess.
const serviceEnv = "TIDEMARK_TEST_CLIENT_SERVICE"

// service is the URL of real services on a real Redis, below which newWorld names one.
var service string

var lastWorld atomic.Int64

// newWorld returns the URL of an unused service.
func newWorld() string { return fmt.Sprintf("%s/world-%d", service, lastWorld.Add(1)) }

func TestMain(m *testing.M) {
	if os.Getenv(serviceEnv) != "" {
		redistest.Main(m)
	}
	os.Exit(runWithService(m))
}

// runWithService runs the tests while a service runs in another process: examples can't start one for themselves.
func runWithService(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	url, stop, err := startService(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the service for the tests:", err)
		return 1
	}
	service = url
	code = m.Run()
	if err := errors.Join(stop(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		return max(code, 1)
	}
	return code
}

// startService runs TestServiceProcess in a new process.
func startService(ctx context.Context) (url string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestServiceProcess$")
	cmd.Env = append(os.Environ(), serviceEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	lines := bufio.NewReader(stdout)
	var said strings.Builder
	for url == "" && err == nil {
		var line string
		line, err = lines.ReadString('\n')
		said.WriteString(line)
		url, _ = strings.CutPrefix(strings.TrimSpace(line), "service at ")
		if !strings.HasPrefix(line, "service at ") {
			url = ""
		}
	}
	stop = func() error {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, lines)
		return cmd.Wait()
	}
	if url == "" {
		return "", nil, errors.Join(fmt.Errorf("it printed %q", said.String()), stop())
	}
	return url, stop, nil
}
