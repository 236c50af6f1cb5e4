package races_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// end is how a ticket stands in the end, and all that ever came to its channel.
type end struct {
	ticket   matchmaking.Ticket
	messages []channel.Message
}

// tally counts tickets by how they ended.
type tally map[matchmaking.Status]int

// judge lets the arena come to its end, asks Redis what became of all tickets, compares that with what players saw and
// servers did, and gives how many tickets ended how.
func (a *arena) judge(t *testing.T) tally {
	t.Helper()
	a.finish(t)
	ends := a.ends(t)
	counts, got, left := tally{}, map[string][]string{}, map[string]int{}
	for _, p := range a.players {
		e := ends[p.id]
		counts[e.ticket.Status]++
		for _, m := range e.messages {
			content, err := assignmentOf(m)
			require.NoError(t, err)
			assert.Equal(t, matchmaking.MessagePrefix+content.MatchID, m.ID)
			got[content.MatchID] = append(got[content.MatchID], p.id)
		}
		if e.ticket.Status == matchmaking.Searching {
			left[p.queue]++
		}
		a.judgePlayer(t, p, e)
	}
	for _, d := range a.definitions {
		assert.Less(t, left[d.Name], d.Match.Teams*d.Match.TeamSize, "a match could be made of those left in %s", d.Name)
	}
	t.Logf("%v; %s", counts, a.ledger)
	if a.lossless() {
		a.ledger.checkMatches(t, got)
		a.ledger.checkPlaces(t, got, func(s *server) bool { return a.killed[s] })
		a.ledger.checkHolds(t)
	}
	return counts
}

// lossless tells whether Redis lost nothing of what any player saw.
func (a *arena) lossless() bool {
	for _, p := range a.players {
		if p.unsure {
			return false
		}
	}
	return true
}

// ends reads all tickets, and their channels from the beginning.
func (a *arena) ends(t *testing.T) map[string]end {
	t.Helper()
	found := make([]end, len(a.players))
	var g errgroup.Group
	g.SetLimit(16)
	for i, p := range a.players {
		g.Go(func() (err error) {
			found[i], err = a.endOf(t.Context(), p)
			return err
		})
	}
	require.NoError(t, g.Wait())
	byID := map[string]end{}
	for i, p := range a.players {
		byID[p.id] = found[i]
	}
	return byID
}

func (a *arena) endOf(ctx context.Context, p *player) (e end, err error) {
	const auditor = "auditor"
	name := matchmaking.ChannelOf(p.id)
	e.ticket, err = a.umpire.tickets.Ticket(ctx, p.id)
	if err != nil {
		if p.unsure {
			return e, nil
		}
		return e, fmt.Errorf("read %s in the end: %w", p.id, err)
	}
	if _, err = a.umpire.channels.Subscribe(ctx, name, auditor, channel.From{Start: channel.StartEarliest}); err != nil {
		return e, fmt.Errorf("audit %s: %w", p.id, err)
	}
	d, err := a.umpire.channels.Fetch(ctx, channel.Query{Channel: name, Subscriber: auditor})
	if err != nil {
		return e, fmt.Errorf("audit %s: %w", p.id, err)
	}
	e.messages = d.Messages
	return e, nil
}

// judgePlayer holds what one player was promised.
func (a *arena) judgePlayer(t *testing.T, p *player, e end) {
	t.Helper()
	if e.ticket.Status == matchmaking.MatchFound { // also where Redis lost something
		ids := make([]string, len(e.messages))
		for i, m := range e.messages {
			ids[i] = m.ID
		}
		assert.Contains(t, ids, matchmaking.MessagePrefix+e.ticket.MatchID, "%s is assigned, and has the message", p.id)
	}
	if p.unsure {
		return
	}
	switch e.ticket.Status {
	case matchmaking.MatchFound:
		assert.False(t, p.cancelled, "%s was told that it is cancelled, and is assigned", p.id)
		a.judgeAssigned(t, p, e)
	case matchmaking.Cancelled:
		assert.True(t, p.cancelled, "%s is cancelled, and its player didn't", p.id)
	case matchmaking.Expired:
		assert.NotZero(t, p.ttl, "%s has expired too early", p.id)
	case matchmaking.Searching:
		assert.False(t, p.cancelled, "%s was told that it is cancelled, and is waiting", p.id)
	case matchmaking.Pending:
		assert.Fail(t, "a ticket is held in the end", p.id)
	}
	if e.ticket.Status != matchmaking.MatchFound {
		assert.False(t, p.tooLate, "%s was told that it is in a match, and is %s", p.id, e.ticket.Status)
		assert.Empty(t, e.messages, "%s is %s, and was told of a match", p.id, e.ticket.Status)
		assert.Empty(t, p.received, "%s is %s, and got a message", p.id, e.ticket.Status)
	}
	p.judgeSeen(t, e)
}

// judgeAssigned holds that an assigned ticket's player got its message once, and no other one, before the ticket's life
// had ended.
func (a *arena) judgeAssigned(t *testing.T, p *player, e end) {
	t.Helper()
	assert.Len(t, e.messages, 1, "%s has the message of one match", p.id)
	if assert.Len(t, p.received, 1, "%s got one message", p.id) {
		got, err := assignmentOf(p.received[0])
		require.NoError(t, err)
		assert.Equal(t, *e.ticket.Assignment, got, "%s", p.id)
		assert.Equal(t, p.id, got.TicketID)
		assert.Equal(t, p.queue, got.Queue)
		assert.Equal(t, e.ticket.MatchID, got.MatchID)
		assert.Equal(t, placeOf(got.MatchID), got.Connection, "%s plays at its match's place", p.id)
	}
	if waited, known := a.ledger.waits[p.id]; known {
		assigned := p.ticket.CreateTime.Add(waited)
		assert.True(t, assigned.Before(p.ticket.Expires), "%s was assigned at %s, and had expired at %s", p.id, assigned, p.ticket.Expires)
	}
}

// judgeSeen holds that a ticket that has ended stays as it is.
func (p *player) judgeSeen(t *testing.T, e end) {
	t.Helper()
	for _, seen := range p.seen {
		switch seen.Status {
		case matchmaking.Searching, matchmaking.Pending:
			continue
		case matchmaking.MatchFound, matchmaking.Cancelled, matchmaking.Expired:
		}
		assert.Equal(t, e.ticket.Status, seen.Status, "%s was seen as %s", p.id, seen.Status)
		assert.Equal(t, e.ticket.MatchID, seen.MatchID, "%s was seen in match %s", p.id, seen.MatchID)
	}
}
