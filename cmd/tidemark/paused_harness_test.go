package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// duelQueue is the queue of these tests.
const duelQueue = "duel"

// directs reports whether the process reports itself as the queue's director.
func (s *serverProcess) directs(t *testing.T) bool {
	t.Helper()
	return strings.Contains(s.metrics(t), fmt.Sprintf(`tidemark_director{queue=%q} 1`+"\n", duelQueue))
}

// pair is two processes of the service on one Redis.
type pair struct {
	director, other *serverProcess
	allocator       *allocator
	made            []string                     // the tickets
	received        map[string]client.Assignment // by players, by ticket
}

// startPair starts two processes, and determines which one directs the queue. A ticket, which is cancelled afterwards,
// makes one of them the director.
func startPair(t *testing.T, url, prefix, pendingTimeout string) *pair {
	t.Helper()
	places := startAllocator(t)
	assigner := fmt.Sprintf(`{"kind":"webhook","url":%q}`, places.url)
	return startPairWith(t, places, "300ms", fmt.Sprintf(`{"assigner":%s,"pendingTimeout":%q}`, assigner,
		pendingTimeout), "--redis", url, "--key-prefix", prefix)
}

func startPairWith(t *testing.T, places *allocator, leaseTTL, queue string, flags ...string) *pair {
	t.Helper()
	p := &pair{allocator: places, received: map[string]client.Assignment{}}
	flags = append(flags, "--lease-ttl", leaseTTL, "--queues", fmt.Sprintf(`{%q:%s}`, duelQueue, queue))
	servers := []*serverProcess{startServer(t, flags...), startServer(t, flags...)}
	alone, err := servers[0].CreateTicket(t.Context(), client.NewTicket{Queue: duelQueue})
	require.NoError(t, err)
	eventually(t, func() bool {
		first, second := servers[0].directs(t), servers[1].directs(t)
		p.director, p.other = servers[0], servers[1]
		if second {
			p.director, p.other = servers[1], servers[0]
		}
		return first != second
	})
	require.NoError(t, servers[0].CancelTicket(t.Context(), alone.ID))
	return p
}

// startStaticPair is startPair with places that are allocated without waiting.
func startStaticPair(t *testing.T, leaseTTL string, flags ...string) *pair {
	t.Helper()
	queue := fmt.Sprintf(`{"assigner":{"kind":"static","connection":%q}}`, placeFor("{match}"))
	return startPairWith(t, startAllocator(t), leaseTTL, queue, flags...)
}

// create creates tickets at a server.
func (p *pair) create(t *testing.T, s *serverProcess, n int) (ids []string) {
	t.Helper()
	for range n {
		made, err := s.CreateTicket(t.Context(), client.NewTicket{Queue: duelQueue})
		require.NoError(t, err)
		ids = append(ids, made.ID)
	}
	p.made = append(p.made, ids...)
	return ids
}

// await waits at a server until tickets have their assignments.
func (p *pair) await(t *testing.T, s *serverProcess, ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
	defer cancel()
	for _, id := range ids {
		a, err := s.AwaitAssignment(ctx, id)
		require.NoError(t, err)
		p.received[id] = a
	}
}

// awaitDirector waits until a process reports that it directs the queue. It creates tickets, since an empty queue has
// no director.
func (p *pair) awaitDirector(t *testing.T, s *serverProcess) {
	t.Helper()
	eventually(t, func() bool {
		if !s.directs(t) {
			p.create(t, s, 2)
		}
		return s.directs(t)
	})
}

// awaitAllocations waits until at least the given number of allocations are held back.
func (p *pair) awaitAllocations(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool { return len(p.allocator.waiting()) >= n })
}

// judge requires that every ticket is in one match and has one message, that every match has two tickets and a place
// that was not released, and that not both processes direct the queue. It returns the matches.
func (p *pair) judge(t *testing.T) map[string][]string {
	t.Helper()
	matches := map[string][]string{}
	for i, id := range p.made {
		s := []*serverProcess{p.director, p.other}[i%2]
		ticket, err := s.Ticket(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, client.TicketMatchFound, ticket.Status, id)
		require.EqualValues(t, 1, p.clock(t, s, id), "ticket %s has one message", id)
		a := *ticket.Assignment
		if got, ok := p.received[id]; ok {
			require.Equal(t, a, got)
		}
		require.Equal(t, placeFor(a.MatchID), a.Connection)
		matches[a.MatchID] = append(matches[a.MatchID], id)
	}
	for match, tickets := range matches {
		require.Len(t, tickets, 2, "match %s", match)
		require.False(t, p.allocator.wasReleased(match), "the place of match %s was given back", match)
	}
	eventually(t, func() bool { return !p.director.directs(t) || !p.other.directs(t) })
	return matches
}

// clock returns the clock of a ticket's channel after its first message, which may be published after the ticket is
// seen to be assigned.
func (p *pair) clock(t *testing.T, s *serverProcess, id string) (at clock.Clock) {
	t.Helper()
	eventually(t, func() bool {
		d, err := s.Describe(t.Context(), matchmaking.ChannelOf(id))
		require.NoError(t, err)
		at = d.Clock
		return at != 0
	}, "ticket %s has no message", id)
	return at
}

// allocator is a webhook that allocates places. It can hold its answers back.
type allocator struct {
	url string

	mu       sync.Mutex
	closed   chan struct{}   // allocations wait for it; nil: they don't
	gates    []chan struct{} // earlier ones that allocations still wait for
	held     map[string]bool
	released map[string]bool
}

func startAllocator(t *testing.T) *allocator {
	t.Helper()
	a := &allocator{held: map[string]bool{}, released: map[string]bool{}}
	s := httptest.NewServer(a)
	a.url = s.URL
	t.Cleanup(func() {
		a.answer()
		s.Close()
	})
	return a
}

func placeFor(match string) string { return "place-of-" + match }

// ServeHTTP implements http.Handler.
func (a *allocator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct{ Action, MatchID string }
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if call.Action == "release" {
		a.mu.Lock()
		a.released[call.MatchID] = true
		a.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if gate := a.enter(call.MatchID); gate != nil {
		<-gate // also if the caller has given up
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"connection": placeFor(call.MatchID)}) // nobody may be listening
}

// enter returns the channel that an allocation must wait for.
func (a *allocator) enter(match string) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		a.held[match] = true
	}
	return a.closed
}

// hold makes new allocations wait for answer.
func (a *allocator) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = make(chan struct{})
}

// pass lets new allocations proceed without waiting. Those that already wait continue to.
func (a *allocator) pass() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		a.gates = append(a.gates, a.closed)
		a.closed = nil
	}
}

// answer answers all allocations.
func (a *allocator) answer() {
	a.pass()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gate := range a.gates {
		close(gate)
	}
	a.gates = nil
}

// waiting returns the matches whose allocations wait.
func (a *allocator) waiting() (matches []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for match := range a.held {
		matches = append(matches, match)
	}
	return matches
}

func (a *allocator) wasReleased(match string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.released[match]
}
