// Command jetstream publishes messages to NATS JetStream, or to Tidemark over WebSockets, with the usual client library
// of each. `make bench` compares the two, and starts it.
//
// Every publish waits for its answer, and has an ID by which the server recognizes repeats. It prints one line of JSON:
// the publishes per second, and the CPU seconds that the load itself has used.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// publisher is one connection. Many goroutines may use it.
type publisher interface {
	// publish publishes a message, and returns an error if it is a repeat.
	publish(ctx context.Context, subject, id string) error
	close()
}

// load is the published messages.
type load struct {
	connections, underWay int // publishes under way on each connection
	messages, subjects    int
	run                   string // makes IDs differ from those of other runs
}

// result is the line that is printed.
type result struct {
	PerSecond float64 `json:"perSecond"`
	CPU       float64 `json:"cpuSeconds"`
}

// errRepeat is the error of a publish whose ID the server knows.
var errRepeat = errors.New("the message is a repeat")

// content is a JSON string of 256 bytes.
var content = `"` + strings.Repeat("x", 254) + `"`

func main() {
	var l load
	nats := flag.String("nats", "", "publish to the NATS server at this `URL`")
	socket := flag.String("socket", "", "publish to Tidemark's WebSocket at this `URL`")
	flag.IntVar(&l.connections, "connections", 32, "connections")
	flag.IntVar(&l.underWay, "under-way", 1, "publishes under way on each connection")
	flag.IntVar(&l.messages, "messages", 100000, "messages to publish")
	flag.IntVar(&l.subjects, "subjects", 1, "subjects of one stream, or channels")
	flag.StringVar(&l.run, "run", "run", "start of the messages' IDs")
	flag.Parse()
	ctx := context.Background() //nolint:forbidigo // main has no caller
	dial := func() (publisher, error) { return dialSocket(ctx, *socket) }
	if *nats != "" {
		dial = func() (publisher, error) { return dialNATS(ctx, *nats) }
	}
	found, err := l.measure(ctx, dial)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "jetstream:", err)
		os.Exit(1)
	}
}

// measure publishes all messages. Connections are opened before the time begins.
func (l load) measure(ctx context.Context, dial func() (publisher, error)) (result, error) {
	publishers := make([]publisher, l.connections)
	for i := range publishers {
		p, err := dial()
		if err != nil {
			return result{}, err
		}
		defer p.close()
		publishers[i] = p
	}
	var next atomic.Int64
	started, used := time.Now(), cpu()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range publishers {
		for range l.underWay {
			group.Go(func() error {
				for i := int(next.Add(1)); i <= l.messages; i = int(next.Add(1)) {
					err := p.publish(ctx, fmt.Sprintf("bench.%d", i%l.subjects), fmt.Sprintf("%s-%d", l.run, i))
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	err := group.Wait()
	return result{PerSecond: float64(l.messages) / time.Since(started).Seconds(), CPU: cpu() - used}, err
}

// cpu returns the CPU seconds that this process has used.
func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it can't fail for the process itself
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
