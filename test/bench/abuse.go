package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The abuse of the server: the number of HTTP/2 connections that open long polls and reset them, and its duration.
const (
	resetConnections = 8
	resetTime        = 8 * time.Second
	resetLimit       = 150e6 // bytes of the server's memory
)

// abuse measures the memory of a server whose clients open requests and reset them, while another client publishes.
func abuse(b *bench) {
	u := b.start()
	defer u.stop()
	u.request(http.MethodPut, "/v1/channels/abuse/subscribers/s", "")
	before := u.server.resident()
	attack, cancel := context.WithTimeout(b.Context(), resetTime)
	defer cancel()
	var attackers errgroup.Group
	var resets atomic.Int64
	for range resetConnections {
		attackers.Go(func() error { return resetStreams(attack, u.server.HTTP, &resets) })
	}
	highest, published := 0.0, 0
	for ; attack.Err() == nil; published++ {
		a := u.request(http.MethodPut, fmt.Sprintf("/v1/channels/bystander/messages/m%d", published), `"x"`)
		if a.Status != http.StatusCreated {
			b.Fatalf("a publish beside resets was answered %d", a.Status)
		}
		highest = max(highest, u.server.resident())
	}
	b.Must(attackers.Wait())
	b.printf("\n## Memory under rapid reset\n\n%d HTTP/2 connections open long polls and reset them for %.0f "+
		"seconds, while another client publishes.\n\n", resetConnections, resetTime.Seconds())
	b.printf("| resets | memory before | at most | goal | publishes, all answered 201 | |\n" +
		"|---:|---:|---:|---:|---:|---|\n")
	b.printf("| %d | %.0f MB | %.0f MB | ≤ %.0f MB | %d | %s |\n",
		resets.Load(), before/1e6, highest/1e6, resetLimit/1e6, published, report.Verdict(highest <= resetLimit))
}

// resetStreams opens and resets streams until ctx ends, on a new connection whenever the server has closed the last.
func resetStreams(ctx context.Context, address string, resets *atomic.Int64) error {
	for ctx.Err() == nil {
		c, err := load.DialFlood(ctx, address, true)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for err == nil && ctx.Err() == nil {
			if err = c.Resets("/v1/channels/abuse/subscribers/s/messages?wait=1m", 100); err == nil {
				resets.Add(100)
			}
		}
		c.Close()
	}
	return nil
}
