package director

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// holding is a claim that was given.
type holding struct {
	token    string
	deadline time.Time // by this server's clock, rather too early
}

// heldMargin is how much later than another claim's deadline its tickets are tried.
const heldMargin = 2 * time.Millisecond

// claimMatches claims the tickets of matches with a token of their own, and hands those that are complete to a work.
// The tickets of the others are given up again. It gives false where the term is over.
func (t *term) claimMatches(ctx context.Context, matches []match) bool {
	var ids []string
	for _, m := range matches {
		ids = append(ids, m.ids...)
	}
	t.claims++
	h := holding{token: t.lease.id + "." + strconv.Itoa(t.claims)}
	c, sent, err := t.claim(ctx, h.token, ids)
	if err != nil {
		return false
	}
	t.clock.observe(sent, c.Now)
	h.deadline = sent.Add(c.Deadline.Sub(c.Now))

	has := make(map[string]bool, len(c.IDs))
	for _, id := range c.IDs {
		has[id] = true
	}
	whole := matches[:0:len(matches)]
	var part []string // had, of matches that aren't complete
	for _, m := range matches {
		if broken := lacking(m, has); broken == nil {
			whole = append(whole, m)
		} else {
			part = append(part, broken...)
		}
	}
	t.takeMissed(c)
	if len(whole) > 0 {
		t.start(func(ctx context.Context) { t.makeMatches(ctx, h, whole) })
	}
	if len(part) > 0 {
		t.start(func(ctx context.Context) {
			t.release(ctx, h, part)
			t.settle(settlement{again: part})
		})
	}
	return true
}

// lacking gives the tickets of a match that were had, not nil, unless that is all of them.
func lacking(m match, has map[string]bool) []string {
	had := make([]string, 0, len(m.ids))
	for _, id := range m.ids {
		if has[id] {
			had = append(had, id)
		}
	}
	if len(had) == len(m.ids) {
		return nil
	}
	return had
}

// takeMissed takes the tickets that a claim didn't get.
func (t *term) takeMissed(c matchmaking.Claimed) {
	var lost []string
	for _, id := range c.Gone {
		if h := t.tickets[id]; h != nil && !h.doubtful {
			lost = append(lost, id)
		}
		t.forget(id)
	}
	t.findLost(lost)
	for id, until := range c.Held {
		if h := t.tickets[id]; h != nil {
			t.again(h, t.clock.local(until).Add(heldMargin))
		}
	}
}

// claim claims tickets. While the storage fails it tries again with the same token, since the tickets may be held by
// it. An error means that the term is over; then the tickets are released behind the scenes where they may be held.
func (t *term) claim(ctx context.Context, token string, ids []string) (c matchmaking.Claimed, sent time.Time, err error) {
	wait := pace.NewBackoff()
	unsure := false // the tickets may be held
	hold := t.Definition.PendingTimeout.Std()
	request := matchmaking.ClaimRequest{Queue: t.Definition.Name, Token: token, Lease: t.lease.id, Hold: hold, IDs: ids}
	for {
		sent = time.Now()
		c, err = t.Store.Claim(ctx, request)
		if err == nil {
			t.storing.Report(ctx, nil)
			return c, sent, nil
		}
		if errors.Is(err, matchmaking.ErrLeaseLost) {
			t.storing.Report(ctx, nil) // the storage has answered
			t.log.WarnContext(ctx, "queue lease lost", "error", err)
			t.lost()
			break
		}
		t.storing.Report(ctx, err)
		unsure = true
		if !pace.Sleep(ctx, wait.NextBackOff()) {
			break
		}
	}
	if unsure {
		h := holding{token: token, deadline: time.Now().Add(hold)}
		t.start(func(ctx context.Context) { t.release(ctx, h, ids) })
	}
	return c, sent, fmt.Errorf("claim: %w", err)
}

// start runs a work: f, with the context of all works.
func (t *term) start(f func(context.Context)) { t.works.Go(func() { f(t.work) }) }

// release gives tickets up that a claim may hold. While the storage fails it tries again until the claim's deadline;
// after that nobody need. When works are given up it tries once.
func (t *term) release(ctx context.Context, h holding, ids []string) {
	releasing, cancel := context.WithDeadline(context.WithoutCancel(ctx), h.deadline)
	defer cancel()
	wait := pace.NewBackoff()
	for releasing.Err() == nil {
		err := t.Store.Release(releasing, t.Definition.Name, h.token, ids)
		if err == nil || !pace.Sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}
