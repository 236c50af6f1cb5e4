package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/report"
)

// jetstreamGoal is the least rate of publishes, as a multiple of that of NATS JetStream.
const jetstreamGoal = 0.8

// jetstreamIntro describes the comparison with NATS.
const jetstreamIntro = "\n## Publishes over WebSockets and NATS JetStream\n\n" +
	"%d connections, each with the same number of publishes under way, to one channel or subject or to 100; messages of " +
	"%d\nbytes, each with an ID by which repeats are recognized and an answer that the publisher waits for. NATS: a " +
	"stream in\nfiles and `Nats-Msg-Id`. Both in turns, with the usual client library of each, on the same cores as the " +
	"load. CPU times\nare per publish.\n\n" +
	"| under way | channels | Tidemark | NATS | ratio | goal | | CPU: server, Redis, load | CPU: nats-server, load |\n" +
	"|---:|---:|---:|---:|---:|---:|---|---:|---:|\n"

// jetstreams holds the parts of the comparison with NATS.
type jetstreams struct {
	*system
	nats    *process.Process
	address string // of NATS
	load    string // program in tools/jetstream
	runs    int
}

// jetstream compares publishes over WebSockets with those to NATS JetStream.
func jetstream(b *bench) {
	j := &jetstreams{}
	j.build(b)
	j.system = b.start()
	defer j.stop()
	j.printf(jetstreamIntro, load.Connections, contentBytes)
	for _, channels := range []int{1, 100} {
		j.measure(1, channels, j.requests)
		j.measure(64, channels, 5*j.requests)
	}
}

// build builds NATS and the load, and starts NATS.
func (j *jetstreams) build(b *bench) {
	dir, err := os.MkdirTemp("", "tidemark-bench-")
	b.Must(err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	b.Must(exec.CommandContext(b.Context(), "go", "build", "-C", "tools/jetstream", "-o", dir, ".", //nolint:gosec // a folder of ours
		"github.com/nats-io/nats-server/v2").Run())
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	b.Must(err)
	j.address = l.Addr().String()
	b.Must(l.Close())
	host, port, err := net.SplitHostPort(j.address)
	b.Must(err)
	j.load = filepath.Join(dir, "jetstream")
	j.nats = &process.Process{
		Program: filepath.Join(dir, "nats-server"), Dir: dir, LogName: "nats.log",
		Args: []string{"-js", "-sd", filepath.Join(dir, "store"), "-a", host, "-p", port},
	}
	b.Must(j.nats.Start(b.Context()))
	b.Cleanup(func() { _ = j.nats.End(syscall.SIGTERM) })
	for ; ; b.sleep(50 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", j.address)
		if err == nil {
			b.Must(conn.Close())
			return
		}
		if !j.nats.Alive() {
			b.Fatalf("nats-server ended: %s", process.LastLines(j.nats.Log(), 5))
		}
	}
}

// published is the result of one run of the load: publishes per second, and CPU seconds per publish.
type published struct{ rate, server, redis, load float64 }

// measure measures both in turns, and adds a row for the medians.
func (j *jetstreams) measure(underWay, channels, messages int) {
	var ours, theirs []published
	for range j.rounds {
		j.redis.empty()
		redis := j.redis.cpu()
		run := j.publish(j.server.PID(), underWay, channels, messages, "-socket", "ws://"+j.server.HTTP+"/v1/socket")
		run.redis = (j.redis.cpu() - redis).Seconds() / float64(messages)
		ours = append(ours, run)
		theirs = append(theirs, j.publish(j.nats.PID(), underWay, channels, messages, "-nats", "nats://"+j.address))
	}
	our, their := medianOf(ours), medianOf(theirs)
	ratio := our.rate / their.rate
	j.printf("| %d | %d | %.0f/s | %.0f/s | %.2f | %s | %s | %.1f + %.1f + %.1f µs | %.1f + %.1f µs |\n", underWay,
		channels, our.rate, their.rate, ratio, goal("≥", jetstreamGoal), report.Verdict(ratio >= jetstreamGoal),
		our.server*1e6, our.redis*1e6, our.load*1e6, their.server*1e6, their.load*1e6)
	progress("publishes with %d under way to %d channels, against NATS: %.2f", underWay, channels, ratio)
}

// publish runs the load on a process.
func (j *jetstreams) publish(pid, underWay, channels, messages int, target ...string) published {
	j.runs++
	args := append(target, "-connections", strconv.Itoa(load.Connections), "-under-way", strconv.Itoa(underWay),
		"-subjects", strconv.Itoa(channels), "-messages", strconv.Itoa(messages), "-run", fmt.Sprintf("run%d", j.runs))
	command := exec.CommandContext(j.Context(), j.load, args...) //nolint:gosec // a program of ours
	var out, failed bytes.Buffer
	command.Stdout, command.Stderr = &out, &failed
	before, err := launch.CPU(pid)
	j.Must(err)
	if err := command.Run(); err != nil {
		j.Fatalf("publish: %v: %s", err, failed.String())
	}
	after, err := launch.CPU(pid)
	j.Must(err)
	var found struct{ PerSecond, CPUSeconds float64 }
	j.Must(json.Unmarshal(out.Bytes(), &found))
	n := float64(messages)
	return published{rate: found.PerSecond, server: (after - before).Seconds() / n, load: found.CPUSeconds / n}
}

// medianOf returns the medians of all values.
func medianOf(runs []published) published {
	return published{
		rate:   median(runs, func(p published) float64 { return p.rate }),
		server: median(runs, func(p published) float64 { return p.server }),
		redis:  median(runs, func(p published) float64 { return p.redis }),
		load:   median(runs, func(p published) float64 { return p.load }),
	}
}
