package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
)

// memory implements the dependencies of a Service that isn't run. Unimplemented methods panic.
type memory struct {
	matchmaking.Store
	calls []string // of Open, Unsubscribe and Publish

	mu          sync.Mutex
	definitions map[string][]byte
	reads       int    // of the definitions
	read        func() // called before a read returns

	size     int       // of all tickets
	epoch    ulid.ULID // of all IDs
	reserve  func(r matchmaking.Reservation) (matchmaking.Owner, error)
	create   func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error)
	find     func(r matchmaking.CreateRequest) (matchmaking.Ticket, error)
	undo     func(id, attempt string) (bool, error)
	vacate   func(epoch ulid.ULID) (bool, error)
	ticket   func(id string) (matchmaking.Ticket, error)
	states   func(ids []string) ([]matchmaking.TicketState, error)
	renew    func(ids []string) error
	describe func() matchmaking.QueueState
}

// Leases returns nil: these services direct no queue.
func (m *memory) Leases() lease.Store { return nil }

func (m *memory) Definitions(context.Context) (map[string][]byte, error) {
	m.mu.Lock()
	m.reads++
	found := maps.Clone(m.definitions)
	m.mu.Unlock()
	if m.read != nil {
		m.read()
	}
	return found, nil
}

func (m *memory) PutDefinition(_ context.Context, r matchmaking.PutRequest) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, exists := m.definitions[r.Queue]
	if !exists && len(m.definitions) >= r.Max {
		return false, matchmaking.ErrTooManyQueues
	}
	m.definitions[r.Queue] = r.Definition
	return !exists, nil
}

func (m *memory) DeleteDefinition(_ context.Context, queue string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.definitions, queue)
	return nil
}

func (m *memory) Describe(context.Context, string, int) (matchmaking.QueueState, error) {
	return m.describe(), nil
}

func (m *memory) Size(*matchmaking.Spec) int { return m.size }

func (m *memory) Reserve(_ context.Context, r matchmaking.Reservation) (matchmaking.Owner, error) {
	return m.reserve(r)
}

func (m *memory) Open(_ context.Context, id string) error {
	m.calls = append(m.calls, "open "+id)
	return nil
}

func (m *memory) Unsubscribe(_ context.Context, id string, _ ulid.ULID) error {
	m.calls = append(m.calls, "unsubscribe "+id)
	return nil
}

func (m *memory) Publish(_ context.Context, entries []matchmaking.OutboxEntry) []error {
	for _, e := range entries {
		m.calls = append(m.calls, fmt.Sprintf("publish %s %s %s", e.TicketID, e.MatchID, e.Content))
	}
	return make([]error, len(entries))
}

func (m *memory) Owner(context.Context, string) (matchmaking.Owner, error) {
	return matchmaking.Owner{Queue: "duel", Epoch: m.epoch}, nil
}

func (m *memory) Create(_ context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
	return m.create(r)
}

func (m *memory) Find(_ context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	return m.find(r)
}

func (m *memory) Undo(_ context.Context, _, id, attempt string) (bool, error) {
	return m.undo(id, attempt)
}

func (m *memory) Vacate(_ context.Context, _, _ string, epoch ulid.ULID) (bool, error) {
	return m.vacate(epoch)
}

func (m *memory) Ticket(_ context.Context, _, id string) (matchmaking.Ticket, error) {
	return m.ticket(id)
}

func (m *memory) States(_ context.Context, _ string, ids []string) ([]matchmaking.TicketState, error) {
	return m.states(ids)
}

func (m *memory) Renew(_ context.Context, _ string, ids []string) error { return m.renew(ids) }

func newMemory() *memory {
	return &memory{
		definitions: map[string][]byte{}, describe: func() matchmaking.QueueState { return matchmaking.QueueState{} },
		reserve: func(r matchmaking.Reservation) (matchmaking.Owner, error) { return r.Owner, nil },
	}
}

// options returns options for a service on m, with queues of the configuration.
func (m *memory) options(t *testing.T, queues map[string]string) Options {
	t.Helper()
	o := Options{
		Store: m, Lookup: m, Channels: m, ChannelTTL: 30 * time.Minute, Logger: slog.New(slog.DiscardHandler),
		Build: func(matchmaking.Definition) (matchmaking.Parts, error) { return matchmaking.Parts{}, nil },
	}
	for name, text := range queues {
		o.Definitions = append(o.Definitions, parse(t, name, text))
	}
	return o
}

func (m *memory) service(t *testing.T, queues map[string]string) *Service {
	t.Helper()
	s, err := New(m.options(t, queues))
	require.NoError(t, err)
	return s
}

func parse(t *testing.T, name, text string) matchmaking.Definition {
	t.Helper()
	d, err := matchmaking.ParseDefinition(name, []byte(text))
	require.NoError(t, err)
	return d
}
