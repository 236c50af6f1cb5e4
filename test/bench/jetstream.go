package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
)

// jetstreamGoal is the least rate of publishes, as a multiple of that of NATS JetStream.
const jetstreamGoal = 0.8

// jetstreams holds the parts of the comparison with NATS.
type jetstreams struct {
	*system
	nats *service
	load string // program in tools/jetstream
	runs int
}

// jetstream compares publishes over WebSockets with those to NATS JetStream.
func jetstream(b *bench) {
	dir, err := b.build("tools/jetstream", ".", "github.com/nats-io/nats-server/v2")
	b.Must(err)
	j := &jetstreams{system: b.start(), load: filepath.Join(dir, "jetstream")}
	defer j.stop()
	j.nats = j.startNATS(filepath.Join(dir, "nats-server"))
	j.printf("%d connections, each with the same number of publishes under way, to one channel or subject or to 100; "+
		"messages of %d\nbytes, each with an ID by which repeats are recognized and an answer that the publisher waits for. "+
		"NATS: a stream in\nfiles and `Nats-Msg-Id`. Both in turns, with the usual client library of each, on the same cores "+
		"as the load. CPU times\nare per publish.\n\n", load.Connections, contentBytes)
	j.table("under way: | channels: | Tidemark: | NATS: | ratio: | goal: |  | CPU: server, Redis, load: | " +
		"CPU: nats-server, load:")
	for _, channels := range []int{1, 100} {
		j.measure(1, channels, j.requests)
		j.measure(64, channels, 5*j.requests)
	}
}

// published is the result of one run of the load: publishes per second, and CPU time per publish.
type published struct {
	rate                float64
	server, redis, load time.Duration
}

// measure measures both in turns, and adds a row for the medians.
func (j *jetstreams) measure(underWay, channels, messages int) {
	targets := [][]string{{"-socket", "ws://" + j.server.HTTP + "/v1/socket"}, {"-nats", "nats://" + j.nats.GRPC}}
	runs := turns(j.rounds, []*service{j.server, j.nats}, func(_ int, s *service) published {
		if s == j.nats {
			return j.publish(s, underWay, channels, messages, targets[1]...)
		}
		j.redis.empty()
		return j.publish(s, underWay, channels, messages, targets[0]...)
	})
	our, their := medianOf(runs[0]), medianOf(runs[1])
	ratio := our.rate / their.rate
	us := func(d time.Duration) float64 { return float64(d) / 1000 }
	j.row(underWay, channels, fmt.Sprintf("%.0f/s", our.rate), fmt.Sprintf("%.0f/s", their.rate), fmt.Sprintf("%.2f", ratio),
		goal("≥", jetstreamGoal), ratio >= jetstreamGoal,
		fmt.Sprintf("%.1f + %.1f + %.1f µs", us(our.server), us(our.redis), us(our.load)),
		fmt.Sprintf("%.1f + %.1f µs", us(their.server), us(their.load)))
}

// publish runs the load on a process.
func (j *jetstreams) publish(s *service, underWay, channels, messages int, target ...string) (p published) {
	j.runs++
	args := append(target, "-connections", strconv.Itoa(load.Connections), "-under-way", strconv.Itoa(underWay),
		"-subjects", strconv.Itoa(channels), "-messages", strconv.Itoa(messages), "-run", fmt.Sprintf("run%d", j.runs))
	command := exec.CommandContext(j.Context(), j.load, args...) //nolint:gosec // a program of ours
	var out, failed bytes.Buffer
	command.Stdout, command.Stderr = &out, &failed
	p.redis = perCall(messages, j.redis.cpu, func() {
		p.server = perCall(messages, s.cpu, func() {
			if err := command.Run(); err != nil {
				j.Fatalf("publish: %v: %s", err, failed.String())
			}
		})
	})
	var found struct{ PerSecond, CPUSeconds float64 }
	j.Must(json.Unmarshal(out.Bytes(), &found))
	p.rate, p.load = found.PerSecond, time.Duration(found.CPUSeconds*1e9/float64(messages))
	return p
}

// medianOf returns the medians of all values.
func medianOf(runs []published) published {
	return published{
		rate:   median(runs, func(p published) float64 { return p.rate }),
		server: median(runs, func(p published) time.Duration { return p.server }),
		redis:  median(runs, func(p published) time.Duration { return p.redis }),
		load:   median(runs, func(p published) time.Duration { return p.load }),
	}
}
