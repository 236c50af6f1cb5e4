package target

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

	"github.com/tidemark-dev/tidemark/internal/load"
)

// Process is a service or a floor.
type Process struct {
	HTTP     string // address
	Frontend string // address for gRPC: of Open Match's frontend, or of a node of shards
	Admin    string // address of the admin listener, which has the metrics
	cmd      *exec.Cmd
	ended    chan struct{}
}

// startProcess runs a program that gets a free address after each of these flags, for HTTP, the frontend and, if it has
// one, its admin listener. It waits until the program answers.
func startProcess(ctx context.Context, program string, listen []string, args ...string) (*Process, error) {
	p := &Process{ended: make(chan struct{})}
	addresses := []*string{&p.HTTP, &p.Frontend, &p.Admin}
	for i, flag := range listen {
		var err error
		if *addresses[i], err = freeAddress(ctx); err != nil {
			return nil, err
		}
		args = append(args, flag, *addresses[i])
	}
	p.Admin = cmp.Or(p.Admin, p.HTTP)
	p.cmd = exec.CommandContext(ctx, program, args...) //nolint:gosec // our own binaries
	p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	return p, p.awaitAnswer(ctx)
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // only its port was wanted
	return l.Addr().String(), nil
}

func (p *Process) awaitAnswer(ctx context.Context) error {
	for {
		if _, err := load.Once(ctx, p.HTTP, load.Request("GET", "/livez", "")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return errors.New("it ended before it answered")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// End ends the process by a signal, and returns when it has ended.
func (p *Process) End(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended
	<-p.ended
}

// Signal sends the process a signal that doesn't end it.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// CPU returns the CPU time that the process has used.
func (p *Process) CPU() (time.Duration, error) { return CPU(p.cmd.Process.Pid) }

// CPU returns the CPU time that a process has used.
func CPU(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// Metric reads one number without labels from the process's /metrics.
func (p *Process) Metric(ctx context.Context, name string) (float64, error) {
	found, err := p.Labelled(ctx, name, "")
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%s has no metric %s", p.Admin, name)
	}
	return found[""], nil
}

// Labelled reads the numbers of a metric from the process's /metrics, by one of its labels. They are sums over the other labels.
func (p *Process) Labelled(ctx context.Context, name, label string) (map[string]float64, error) {
	a, err := load.Once(ctx, p.Admin, load.Request("GET", "/metrics", ""))
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(a.Body))
	if err != nil {
		return nil, err
	}
	found := make(map[string]float64)
	for _, m := range families[name].GetMetric() {
		value := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				value = l.GetValue()
			}
		}
		found[value] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return found, nil
}

// Live returns the bytes that the process's last garbage collection has left in memory, about.
func (p *Process) Live(ctx context.Context) (float64, error) {
	next, err := p.Metric(ctx, "go_memstats_next_gc_bytes")
	if err != nil {
		return 0, err
	}
	percent, err := p.Metric(ctx, "go_gc_gogc_percent")
	return next / (1 + percent/100), err
}
