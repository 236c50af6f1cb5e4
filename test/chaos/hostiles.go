package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// hostiles are scenarios in which some clients use more than their share. The others must not be affected.
func hostiles() []scenario {
	return []scenario{
		{
			name: "rapid-reset", fault: "eight HTTP/2 connections open and reset streams of waiting fetches for 8 s",
			limits: limits{Gap: 2 * time.Second, P99: 300 * time.Millisecond, Light: 300 * time.Millisecond, NoErrors: true,
				Memory: 200 * miB},
			inject: rapidReset,
		},
		{
			name: "frame-flood", fault: "eight HTTP/2 connections send PING, SETTINGS or CONTINUATION frames for 8 s",
			limits: limits{Gap: 2 * time.Second, P99: 300 * time.Millisecond, Light: 300 * time.Millisecond, NoErrors: true,
				Memory: 200 * miB},
			inject: floodFrames,
		},
		{
			name: "header-flood", fault: "eight HTTP/2 connections send headers that expand when they are decoded for 8 s",
			limits: limits{Gap: 2 * time.Second, P99: 300 * time.Millisecond, Light: 300 * time.Millisecond, NoErrors: true,
				Memory: 200 * miB},
			inject: floodHeaders,
		},
		{
			name: "stalled-bodies", fault: "150 publishes stop one byte short of a body of 1 MiB or 8 MiB for 8 s",
			limits: limits{Gap: 2 * time.Second, P99: 300 * time.Millisecond, NoErrors: true, Memory: 600 * miB},
			inject: stallBodies,
		},
		{
			name: "large-fetches", fault: "300 subscribers fetch 4 MiB each at the same time",
			limits: limits{Gap: 2 * time.Second, P99: 100 * time.Millisecond, NoErrors: true},
			inject: fetchLargely,
		},
		{
			name: "large-fetches-of-many", fault: "300 fetches of 256 subscribers of a channel with 16 messages of 250 KiB",
			limits: limits{Gap: 2 * time.Second, Light: 300 * time.Millisecond, NoErrors: true},
			inject: fetchManyLargely,
		},
		{
			name: "many-queues", fault: "1,000 queues created and deleted", flags: []string{"--max-queues", "1100"},
			limits: limits{Gap: 2 * time.Second, P99: 300 * time.Millisecond, NoErrors: true, Memory: 200 * miB},
			inject: putQueues,
		},
	}
}

// endurance is the resident memory of a service at which an attack is stopped, to protect the machine.
const endurance = 1 << 30

// attack runs attackers concurrently, until all of them have ended, d has passed, or a service uses too much memory.
func (s *stage) attack(attackers int, d time.Duration, attacker func(ctx context.Context, number int) error) {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	if s.light != nil {
		s.Must(s.light.enter(attacked))
		defer func() { s.Must(s.light.enter(preparing)) }()
	}
	var running sync.WaitGroup
	errs := make([]error, attackers)
	for i := range attackers {
		running.Go(func() { errs[i] = attacker(ctx, i) })
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	for pace.Sleep(ctx, lookEvery) && !isClosed(done) {
		if now := s.resident(); now > endurance {
			s.complain("the attack was stopped when a service used %d MB of memory", now/miB)
			cancel()
		}
	}
	<-done
	s.Must(errors.Join(errs...))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// resident returns the largest resident memory of any service.
func (s *stage) resident() int {
	highest := 0
	for _, service := range s.services {
		highest = max(highest, service.Resident())
	}
	return highest
}

// request sends a request to a service. The caller reads and closes the body of the response.
func (s *stage) request(ctx context.Context, method, url, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bodyOf(body))
	if err != nil {
		return nil, err
	}
	return s.hostile.Do(request)
}

// discard reads the rest of a response, so that its connection is used again.
func discard(response *http.Response) {
	_, _ = io.Copy(io.Discard, response.Body) // only its status is needed
	_ = response.Body.Close()
}
