package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	deaths     = 2 // of primaries
	probeEvery = 20 * time.Millisecond
	probeLimit = 15 * time.Second
	// gapLimit bounds the time from the promotion of a replica to the first success of a client.
	gapLimit = 500 * time.Millisecond
)

// probedRule makes the probed channel usable while its slot has one node: its publishes don't wait for a replica.
const probedRule = `[{"pattern":"probed","replicas":0}]`

// gap has times since the death of a primary.
type gap struct {
	promotion     time.Duration // of its replica, in its own view
	publish, next time.Duration // first success of a client
}

// killPrimaries kills the primary of the probed channel, twice. The killed one returns as a replica.
func killPrimaries(s *stage) {
	channel := "http://" + s.services[0].HTTP + "/v1/channels/probed"
	s.Must(s.expect(http.MethodPut, channel+"/subscribers/p", ""))
	slot := s.cluster.Slot("{probed}")
	for range deaths {
		killed, replica := s.cluster.Owner(s, slot), s.cluster.Replica(s, slot)
		killed.Kill(s)
		g := s.probe(channel, replica)
		s.note("first success of a publish %.2f s and of a next %.2f s after the death; Redis promoted the replica "+
			"after %.2f s", g.publish.Seconds(), g.next.Seconds(), g.promotion.Seconds())
		if late := max(g.publish, g.next) - g.promotion; late > gapLimit {
			s.complain("the first success was %s after the promotion, more than %s", report.WholeMillis(late),
				report.WholeMillis(gapLimit))
		}
		killed.Restart(s)
		s.cluster.AwaitOK(s)
		s.pause(time.Second)
	}
}

// probe measures a gap that begins now.
func (s *stage) probe(channel string, replica *redistest.Node) (g gap) {
	died := time.Now()
	var probes sync.WaitGroup
	measure := func(first *time.Duration, attempt func(ctx context.Context, n int) bool) {
		probes.Go(func() { *first = firstSuccess(s.Context(), attempt).Sub(died) })
	}
	measure(&g.promotion, func(context.Context, int) bool { return isPrimary(s, replica) })
	measure(&g.publish, func(ctx context.Context, n int) bool {
		return s.succeeds(ctx, http.MethodPut, fmt.Sprintf("%s/messages/d%d-%d", channel, died.UnixMilli(), n), "1")
	})
	measure(&g.next, func(ctx context.Context, _ int) bool {
		return s.succeeds(ctx, http.MethodPost, channel+"/subscribers/p/next", `{"max":1}`)
	})
	probes.Wait()
	return g
}

// firstSuccess calls attempt every 20 ms, without waiting for the calls before, and returns when the first one
// succeeded, or when it gave up.
func firstSuccess(ctx context.Context, attempt func(ctx context.Context, n int) bool) time.Time {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	var first atomic.Pointer[time.Time]
	var running sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		running.Go(func() {
			if attempt(ctx, n) {
				now := time.Now()
				first.CompareAndSwap(nil, &now)
				cancel()
			}
		})
		pace.Sleep(ctx, probeEvery)
	}
	cancel()
	running.Wait()
	if at := first.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// succeeds reports whether a request succeeds.
func (s *stage) succeeds(ctx context.Context, method, url, body string) bool {
	response, err := s.request(ctx, method, url, body)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode < http.StatusBadRequest
}

// isPrimary reports whether a node is a primary in its own view.
func isPrimary(s *stage, n *redistest.Node) bool {
	info, err := n.Do(s, "INFO", "replication").ToString()
	return err == nil && strings.Contains(info, "role:master")
}
