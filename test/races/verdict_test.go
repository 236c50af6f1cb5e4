package races_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// end is the final state of a ticket, and all messages of its channel.
type end struct {
	ticket   matchmaking.Ticket
	messages []channel.Message
}

// tally counts tickets by their final status.
type tally map[matchmaking.Status]int

// verify finishes the arena, reads all tickets from Redis, and compares them with what the players received and the
// servers did.
func (a *arena) verify(t *testing.T) tally {
	t.Helper()
	a.finish(t)
	ends := a.ends(t)
	counts, got, unmatched := tally{}, map[string][]string{}, map[string]int{}
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
			unmatched[p.queue]++
		}
		a.verifyPlayer(t, p, e)
	}
	for _, d := range a.definitions {
		assert.Less(t, unmatched[d.Name], d.Match.Teams*d.Match.TeamSize, "tickets left in %s are enough for a match",
			d.Name)
	}
	t.Logf("%v; %s", counts, a.ledger)
	if a.lossless() {
		a.ledger.checkMatches(t, got)
		a.ledger.checkPlaces(t, got, func(s *server) bool { return a.killed[s] })
		a.ledger.checkHolds(t, ends)
	}
	return counts
}

// lossless reports whether Redis has kept every ticket and message that any player received.
func (a *arena) lossless() bool {
	for _, p := range a.players {
		if p.unsure {
			return false
		}
	}
	return true
}

// ends reads all tickets and their channels.
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
	e.ticket, err = a.observer.tickets.Ticket(ctx, p.id)
	if err != nil {
		if p.unsure {
			return e, nil
		}
		return e, fmt.Errorf("read %s at the end: %w", p.id, err)
	}
	if _, err = a.observer.channels.Subscribe(ctx, channel.SubscribeRequest{
		Channel: name, Subscriber: auditor, From: channel.From{Start: channel.StartEarliest},
	}); err != nil {
		return e, fmt.Errorf("audit %s: %w", p.id, err)
	}
	d, err := a.observer.channels.Fetch(ctx, channel.Query{Channel: name, Subscriber: auditor})
	if err != nil {
		return e, fmt.Errorf("audit %s: %w", p.id, err)
	}
	e.messages = d.Messages
	return e, nil
}

// verifyPlayer checks the promises to one player.
func (a *arena) verifyPlayer(t *testing.T, p *player, e end) {
	t.Helper()
	if e.ticket.Status == matchmaking.MatchFound { // even if Redis has lost something
		ids := make([]string, len(e.messages))
		for i, m := range e.messages {
			ids[i] = m.ID
		}
		assert.Contains(t, ids, matchmaking.MessagePrefix+e.ticket.MatchID, "messages of %s", p.id)
	}
	if p.unsure {
		return
	}
	switch e.ticket.Status {
	case matchmaking.MatchFound:
		assert.False(t, p.cancelled, "%s is assigned after its cancellation succeeded", p.id)
		a.verifyAssigned(t, p, e)
	case matchmaking.Cancelled:
		assert.True(t, p.cancelled || p.hasty, "%s is cancelled, but not by its player", p.id)
	case matchmaking.Expired:
		assert.NotZero(t, p.ttl, "%s has expired too early", p.id)
	case matchmaking.Searching:
		assert.False(t, p.cancelled, "%s waits after its cancellation succeeded", p.id)
	case matchmaking.Pending:
		assert.Fail(t, "a ticket is still claimed", p.id)
	}
	if e.ticket.Status != matchmaking.MatchFound {
		assert.False(t, p.tooLate, "cancellation of %s was too late, but it is %s", p.id, e.ticket.Status)
		assert.Empty(t, e.messages, "%s is %s, but its channel has messages", p.id, e.ticket.Status)
		assert.Empty(t, p.received, "%s is %s, but its player received messages", p.id, e.ticket.Status)
	}
	p.verifySeen(t, e)
	p.verifyWatched(t, e)
}

// verifyAssigned checks that the player of an assigned ticket received its message once and no other one, and that the
// ticket was assigned before it expired.
func (a *arena) verifyAssigned(t *testing.T, p *player, e end) {
	t.Helper()
	assert.Len(t, e.messages, 1, "messages of %s", p.id)
	if assert.Len(t, p.received, 1, "messages received by %s", p.id) {
		got, err := assignmentOf(p.received[0])
		require.NoError(t, err)
		assert.Equal(t, *e.ticket.Assignment, got, "%s", p.id)
		assert.Equal(t, p.id, got.TicketID)
		assert.Equal(t, p.queue, got.Queue)
		assert.Equal(t, e.ticket.MatchID, got.MatchID)
		assert.Equal(t, placeOf(got.MatchID), got.Connection, "connection of %s", p.id)
	}
	if waited, ok := a.ledger.waits[p.id]; ok {
		assigned := p.ticket.CreateTime.Add(waited)
		assert.True(t, assigned.Before(p.ticket.Expires), "%s was assigned at %s, after it expired at %s", p.id,
			assigned, p.ticket.Expires)
	}
}

// verifyWatched checks that the wait of an assigned ticket's player ended with the assignment, and no other one did.
func (p *player) verifyWatched(t *testing.T, e end) {
	t.Helper()
	if e.ticket.Status == matchmaking.MatchFound {
		assert.Equal(t, e.ticket.Assignment, p.got, "what %s watched", p.id)
	} else {
		assert.Nil(t, p.got, "%s is %s, but its player watched an assignment", p.id, e.ticket.Status)
	}
}

// verifySeen checks that a final status never changes.
func (p *player) verifySeen(t *testing.T, e end) {
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
