package round

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// fakeMatcher records which tickets are available.
type fakeMatcher struct {
	has map[string]*matchmaking.Ticket
}

func newFakeMatcher() *fakeMatcher { return &fakeMatcher{has: map[string]*matchmaking.Ticket{}} }

func (m *fakeMatcher) Add(t *matchmaking.Ticket) { m.has[t.ID] = t }
func (m *fakeMatcher) Remove(id string)          { delete(m.has, id) }

// poolModel is a model of a pool with plain maps.
type poolModel struct {
	pool    *Pool
	matcher *fakeMatcher
	now     time.Time
	tickets map[string]modelTicket
}

type modelTicket struct {
	created   time.Time
	state     state
	until     time.Time
	uncertain bool
}

func (m *poolModel) id(t *rapid.T) string { return strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "id")) }

func (m *poolModel) soon(t *rapid.T) time.Time {
	return m.now.Add(time.Duration(rapid.IntRange(1, 4).Draw(t, "seconds")) * time.Second)
}

func (m *poolModel) ticket(t *rapid.T) *matchmaking.Ticket {
	life := rapid.IntRange(0, 1).Draw(t, "life")
	return &matchmaking.Ticket{ID: m.id(t), CreateTime: time.Unix(int64(life), 0)}
}

// learn adds a ticket that was read to the model.
func (m *poolModel) learn(ticket *matchmaking.Ticket, until time.Time) {
	if ticketInPool, ok := m.tickets[ticket.ID]; ok && ticketInPool.created.Equal(ticket.CreateTime) {
		return
	}
	created := modelTicket{created: ticket.CreateTime, state: waiting, until: until}
	if !until.IsZero() {
		created.state = parked
	}
	m.tickets[ticket.ID] = created
}

func (m *poolModel) Add(t *rapid.T) {
	ticket := m.ticket(t)
	m.pool.Add(ticket, time.Time{})
	m.learn(ticket, time.Time{})
}

func (m *poolModel) AddHeld(t *rapid.T) {
	ticket, until := m.ticket(t), m.soon(t)
	m.pool.Add(ticket, until)
	m.learn(ticket, until)
}

func (m *poolModel) Remove(t *rapid.T) {
	id := m.id(t)
	m.pool.Remove(id)
	delete(m.tickets, id)
}

func (m *poolModel) Replace(t *rapid.T) {
	var tickets []*matchmaking.Ticket
	held := map[string]time.Time{}
	for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, 5), rapid.ID[int]).Draw(t, "snapshot") {
		ticket := &matchmaking.Ticket{ID: strconv.Itoa(i),
			CreateTime: time.Unix(int64(rapid.IntRange(0, 1).Draw(t, "life")), 0)}
		if rapid.Bool().Draw(t, "held") {
			held[ticket.ID] = m.soon(t)
		}
		tickets = append(tickets, ticket)
	}
	missing := m.pool.Replace(tickets, held)
	present := map[string]bool{}
	for _, ticket := range tickets {
		present[ticket.ID] = true
		m.learn(ticket, held[ticket.ID])
	}
	var want []string
	for id, ticketInPool := range m.tickets {
		if present[id] || ticketInPool.state == inMatch {
			continue
		}
		if !ticketInPool.uncertain {
			want = append(want, id)
		}
		delete(m.tickets, id)
	}
	require.ElementsMatch(t, want, idsOf(missing))
}

// Claim removes a waiting ticket from the matcher, as a round does, and claims it.
func (m *poolModel) Claim(t *rapid.T) {
	id := m.id(t)
	if ticketInPool, ok := m.tickets[id]; !ok || ticketInPool.state != waiting {
		return
	}
	delete(m.matcher.has, id)
	m.pool.StartMatch(id)
	m.set(id, inMatch, time.Time{})
}

func (m *poolModel) Unclaim(t *rapid.T) {
	ticket := m.ticket(t)
	m.pool.CancelMatch(ticket)
	if m.isClaimed(ticket) {
		m.set(ticket.ID, waiting, time.Time{})
	}
}

func (m *poolModel) Finish(t *rapid.T) {
	ticket := m.ticket(t)
	m.pool.Finish(ticket)
	if m.isClaimed(ticket) {
		delete(m.tickets, ticket.ID)
	}
}

// isClaimed reports whether a ticket is claimed, and not another one with its ID.
func (m *poolModel) isClaimed(ticket *matchmaking.Ticket) bool {
	ticketInPool := m.tickets[ticket.ID]
	return ticketInPool.state == inMatch && ticketInPool.created.Equal(ticket.CreateTime)
}

func (m *poolModel) PutBack(t *rapid.T) {
	ticket, from, uncertain := m.ticket(t), m.soon(t), rapid.Bool().Draw(t, "uncertain")
	next := parked
	if rapid.Bool().Draw(t, "at once") {
		from, next = m.now, waiting
	}
	m.pool.PutBack(ticket, m.now, from, uncertain)
	if m.isClaimed(ticket) {
		ticketInPool := m.tickets[ticket.ID]
		ticketInPool.uncertain = ticketInPool.uncertain || uncertain
		m.tickets[ticket.ID] = ticketInPool
		m.set(ticket.ID, next, from)
	}
}

func (m *poolModel) Unpark(t *rapid.T) {
	id := m.id(t)
	m.pool.Unpark(id)
	if m.tickets[id].state == parked {
		m.set(id, waiting, time.Time{})
	}
}

func (m *poolModel) Wake(t *rapid.T) {
	m.now = m.soon(t)
	m.pool.Wake(m.now)
	for id, ticketInPool := range m.tickets {
		if ticketInPool.state == parked && !m.now.Before(ticketInPool.until) {
			m.set(id, waiting, time.Time{})
		}
	}
}

func (m *poolModel) set(id string, s state, until time.Time) {
	ticketInPool := m.tickets[id]
	ticketInPool.state, ticketInPool.until = s, until
	m.tickets[id] = ticketInPool
}

// Check compares the pool with the model after every step.
func (m *poolModel) Check(t *rapid.T) {
	require.ElementsMatch(t, slices.Collect(maps.Keys(m.tickets)), slices.Collect(maps.Keys(m.pool.tickets)))
	claims, unassigned := 0, []string{}
	var first time.Time
	for id, ticketInPool := range m.tickets {
		e := m.pool.tickets[id]
		require.Equal(t, ticketInPool.state, e.state, id)
		require.True(t, ticketInPool.created.Equal(e.ticket.CreateTime))
		require.Equal(t, ticketInPool.state == waiting, m.matcher.has[id] == e.ticket, "the matcher has the waiting tickets")
		require.Equal(t, ticketInPool.state == waiting, m.pool.Available(id) == e.ticket)
		require.Equal(t, !ticketInPool.uncertain, m.pool.Certain(e.ticket))
		require.False(t, m.pool.Certain(&matchmaking.Ticket{ID: id, CreateTime: ticketInPool.created.Add(time.Second)}),
			"another life")
		if ticketInPool.state == inMatch {
			claims++
		} else if !ticketInPool.uncertain {
			unassigned = append(unassigned, id)
		}
		if ticketInPool.state == parked && (first.IsZero() || ticketInPool.until.Before(first)) {
			first = ticketInPool.until
		}
	}
	require.Len(t, m.matcher.has, len(m.tickets)-claims-m.pool.parked.Len(), "and no others")
	require.Equal(t, claims, m.pool.InMatches())
	require.Equal(t, len(m.tickets), m.pool.Len())
	require.ElementsMatch(t, unassigned, idsOf(m.pool.Unassigned()))
	at, ok := m.pool.NextWake()
	require.Equal(t, !first.IsZero(), ok)
	require.True(t, first.Equal(at))
}

func TestPool(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		matcher := newFakeMatcher()
		m := &poolModel{pool: NewPool(matcher), matcher: matcher, now: time.Unix(100, 0), tickets: map[string]modelTicket{}}
		t.Repeat(rapid.StateMachineActions(m))
	})
}

func TestPoolReportsChanges(t *testing.T) {
	t.Parallel()
	p, now := NewPool(newFakeMatcher()), time.Unix(100, 0)
	for _, step := range []struct {
		name    string
		do      func()
		changed bool
	}{
		{"a held ticket", func() { p.Add(&matchmaking.Ticket{ID: "a"}, now.Add(time.Second)) }, false},
		{"its time has come", func() { p.Wake(now.Add(time.Second)) }, true},
		{"the same ticket again", func() { p.Add(&matchmaking.Ticket{ID: "a"}, time.Time{}) }, false},
		{"claimed", func() { p.StartMatch("a") }, false},
		{"put back for later", func() { p.PutBack(&matchmaking.Ticket{ID: "a"}, now, now.Add(time.Second), false) },
			false},
		{"given up by its holder", func() { p.Unpark("a") }, true},
		{"removed", func() { p.Remove("a") }, false},
		{"a new ticket", func() { p.Add(&matchmaking.Ticket{ID: "b"}, time.Time{}) }, true},
	} {
		p.SetChanged(false)
		step.do()
		require.Equal(t, step.changed, p.Changed(), step.name)
	}
}

func idsOf(tickets []*matchmaking.Ticket) (ids []string) {
	for _, t := range tickets {
		ids = append(ids, t.ID)
	}
	return ids
}
