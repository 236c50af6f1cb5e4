package director

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// claimTickets is how many tickets one claim holds. Matches of a round that have more are claimed in several.
const claimTickets = 500

// rounds says when the next round may be held. A round whose matches were claimed is followed by the next one a
// debounce later at most, so that under load many tickets share a claim. One that came to nothing is followed as soon
// as the matcher has rested for twice as long as it worked, so that the second ticket of a pair doesn't wait.
type rounds struct {
	debounce  time.Duration
	dirty     bool      // something has changed
	notBefore time.Time // of the next round
	failures  *backoff.ExponentialBackOff
}

// wanted tells that something has changed.
func (r *rounds) wanted() { r.dirty = true }

// foundRest is how many times as long as a round that found matches took the next one comes after it. A round takes
// longer the busier Redis and the server are, so that under load it is the debounce.
const foundRest = 4

// minTimed is the least time between rounds that only time has brought about.
const minTimed = 5 * time.Millisecond

// held tells of a round.
func (r *rounds) held(began time.Time, found, timed bool) {
	r.failures.Reset()
	took := time.Since(began)
	switch {
	case found:
		r.notBefore = began.Add(min(r.debounce, foundRest*took))
	case timed:
		r.notBefore = began.Add(max(r.debounce, minTimed))
	default:
		r.notBefore = began.Add(min(r.debounce, 3*took))
	}
}

// failed tells of a round that failed, and that is wanted still.
func (r *rounds) failed() {
	r.dirty = true
	r.notBefore = time.Now().Add(r.failures.NextBackOff())
}

// nextRound gives when the next round is due by this server's clock, if any is.
func (t *term) nextRound() (at time.Time, ok bool) {
	if t.claimed >= t.maxClaimed() {
		return at, false // settled matches make room
	}
	at = t.round.notBefore
	if t.round.dirty {
		return at, true
	}
	next := t.parts.Matcher.Next()
	if next.IsZero() {
		return at, false
	}
	if local := t.clock.local(next); local.After(at) {
		at = local
	}
	return at, true
}

// longWait is how long the loop sleeps where nothing is due.
const longWait = time.Minute

// nextWake gives how long the loop can sleep.
func (t *term) nextWake(now time.Time) time.Duration {
	wait := longWait
	if at, ok := t.nextRound(); ok {
		wait = min(wait, at.Sub(now))
	}
	if len(t.tickets) == 0 {
		wait = min(wait, t.busy.Add(t.IdleAfter).Sub(now))
	}
	if len(t.parked) > 0 {
		wait = min(wait, t.parked[0].parked.Sub(now))
	}
	return wait
}

// holdRound forms matches of what is available, claims their tickets and hands them to works.
func (t *term) holdRound(ctx context.Context) {
	began, timed := time.Now(), !t.round.dirty
	t.round.dirty = false
	matches, err := t.propose(ctx)
	if ctx.Err() != nil {
		return
	}
	t.matching.Report(ctx, err)
	if err != nil {
		t.metrics.RoundFailed()
		t.round.failed()
		return
	}
	matches = t.holdBack(matches)
	for rest := matches; len(rest) > 0; {
		n := fitting(rest, claimTickets)
		if !t.claimMatches(ctx, rest[:n]) {
			return
		}
		rest = rest[n:]
	}
	t.round.held(began, len(matches) > 0, timed)
}

// holdBack makes the tickets of the last matches available again where more would be claimed than can be. One is left.
func (t *term) holdBack(matches []match) []match {
	for len(matches) > 1 && t.claimed > t.maxClaimed() {
		last := matches[len(matches)-1]
		for _, id := range last.ids {
			t.claimed--
			t.offer(t.tickets[id])
		}
		matches = matches[:len(matches)-1]
	}
	return matches
}

// maxClaimed gives how many tickets can be in matches that are being made.
func (t *term) maxClaimed() int {
	if t.immediate() {
		return maxClaimedImmediate
	}
	return maxClaimedSlow
}

// match is a proposal that was chosen, with its tickets' IDs.
type match struct {
	matchmaking.Proposal
	ids []string
}

// fitting gives how many of the matches, but at least one, have so many tickets together at most.
func fitting(matches []match, tickets int) int {
	for n, m := range matches {
		if tickets -= len(m.ids); tickets < 0 {
			return max(n, 1)
		}
	}
	return len(matches)
}

// propose asks the match function and the evaluator. The tickets of the matches that it gives are marked as claimed;
// those of other proposals are available again.
func (t *term) propose(ctx context.Context) ([]match, error) {
	asking, cancel := context.WithTimeout(ctx, t.Definition.Match.Timeout.Std())
	proposals, err := t.parts.Matcher.Match(asking, t.clock.now())
	cancel()
	switch {
	case err != nil:
		return nil, fmt.Errorf("match function: %w", err)
	case len(proposals) == 0:
		return nil, nil
	}
	taken := t.takenOut(proposals)
	proposals, tooLarge := t.withinLimit(proposals)
	matches, err := t.evaluate(ctx, proposals)
	if err == nil {
		err = tooLarge
	}
	left := false
	for _, h := range taken {
		if h.state == waiting {
			t.parts.Matcher.Add(h.ticket)
			left = true
		}
	}
	if left && len(matches) > 0 { // with what was chosen out of the way there may be more
		t.round.wanted()
	}
	if len(matches) > 0 && err != nil {
		t.log.WarnContext(ctx, "some proposals of the match function were passed over", "error", err)
		err = nil
	}
	return matches, err
}

// evaluate asks the evaluator which proposals are to be made, and marks their tickets as claimed.
func (t *term) evaluate(ctx context.Context, proposals []matchmaking.Proposal) ([]match, error) {
	if len(proposals) == 0 {
		return nil, nil
	}
	asking, cancel := context.WithTimeout(ctx, t.Definition.Evaluator.Timeout.Std())
	defer cancel()
	chosen, err := t.parts.Evaluator.Evaluate(asking, proposals)
	if err != nil {
		return nil, fmt.Errorf("evaluator: %w", err)
	}
	return t.choose(chosen)
}

// withinLimit leaves out proposals that have too many tickets. The error is about the last of them.
func (t *term) withinLimit(proposals []matchmaking.Proposal) (within []matchmaking.Proposal, err error) {
	within = proposals[:0:0]
	for _, p := range proposals {
		if wrong := checkSize(&p); wrong != nil {
			t.metrics.ProposalRefused()
			err = wrong
			continue
		}
		within = append(within, p)
	}
	return within, err
}

// checkSize reports whether a proposal has more tickets than a match can have.
func checkSize(p *matchmaking.Proposal) error {
	tickets := 0
	for _, team := range p.Teams {
		tickets += len(team)
	}
	if tickets > matchmaking.MaxMatchTickets {
		return fmt.Errorf("match %q has %d tickets, at most %d are allowed", p.ID, tickets, matchmaking.MaxMatchTickets)
	}
	return nil
}

// takenOut gives the tickets that the match function has taken out, each once.
func (t *term) takenOut(proposals []matchmaking.Proposal) []*held {
	var taken []*held
	seen := map[string]bool{}
	for i := range proposals {
		for _, team := range proposals[i].Teams {
			for _, ticket := range team {
				if h := t.tickets[ticket.ID]; h != nil && h.state == waiting && !seen[ticket.ID] {
					seen[ticket.ID] = true
					taken = append(taken, h)
				}
			}
		}
	}
	return taken
}

// choose marks the tickets of the chosen proposals as claimed. Proposals that can't be matches are left out, and the
// error says what is wrong with the last of them.
func (t *term) choose(chosen []matchmaking.Proposal) (matches []match, err error) {
	names := make(map[string]bool, len(chosen))
	for _, p := range chosen {
		if p.ID == "" {
			p.ID = matchmaking.NewID()
		}
		m, wrong := t.check(p)
		if wrong == nil && names[p.ID] {
			wrong = fmt.Errorf("two matches have the ID %s", p.ID)
		}
		if wrong != nil {
			t.metrics.ProposalRefused()
			err = wrong
			continue
		}
		names[p.ID] = true
		for _, id := range m.ids {
			h := t.tickets[id]
			h.state = claimed
			t.claimed++
		}
		matches = append(matches, m)
	}
	return matches, err
}

// check tells whether a proposal can be a match: all its tickets are available, and there is one.
func (t *term) check(p matchmaking.Proposal) (match, error) {
	if err := matchmaking.CheckMatchID(p.ID); err != nil {
		return match{}, err
	}
	if err := checkSize(&p); err != nil {
		return match{}, err // of an evaluator that makes proposals of its own
	}
	m := match{Proposal: p}
	for _, team := range p.Teams {
		for _, ticket := range team {
			h := t.tickets[ticket.ID]
			if h == nil || h.state != waiting {
				return match{}, fmt.Errorf("match %s has the ticket %s, which isn't available", p.ID, ticket.ID)
			}
			if slices.Contains(m.ids, ticket.ID) {
				return match{}, fmt.Errorf("match %s has the ticket %s twice", p.ID, ticket.ID)
			}
			m.ids = append(m.ids, ticket.ID)
		}
	}
	if len(m.ids) == 0 {
		return match{}, fmt.Errorf("match %s has no tickets", p.ID)
	}
	return m, nil
}
