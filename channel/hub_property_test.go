package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// poller is a subscriber that polls repeatedly and acknowledges what it receives.
type poller struct {
	name    string
	polling bool
	ended   chan polled
	read    map[ulid.ULID]clock.Clock // how far it has read in each life
	lost    []past                    // states that fail-overs during this poll took back: it may still receive them
}

// past is the state before a fail-over: a poller's positions, and the log.
type past struct {
	read map[ulid.ULID]clock.Clock
	log  map[Position]string
}

type polled struct {
	Delivery
	err error
}

// game is the state of the property test: a world, a service, and pollers.
type game struct {
	world     *world
	service   *Service
	pollers   []*poller
	published int
	lives     byte
}

// gameLimits are short enough for backstop reads and for listeners to end, and long enough that no poll times out.
func gameLimits() Limits {
	l := DefaultLimits()
	l.MaxWait = testPolicy.TTL / 2
	l.Backstop = time.Second
	l.Linger = 3 * l.Backstop
	return l
}

func newGame(t *rapid.T) *game {
	start := rapid.SampledFrom([]clock.Clock{0, 41, clock.Max - 2, clock.Max, clock.Min}).Draw(t, "start")
	g := &game{world: newWorld(in1(start))}
	g.service = serviceOn(t, g.world, gameLimits())
	g.world.slow = true
	for i := range 3 {
		g.pollers = append(g.pollers, &poller{name: fmt.Sprintf("s%d", i), ended: make(chan polled, 1)})
		g.subscribe(t, g.pollers[i])
	}
	return g
}

func (g *game) subscribe(t *rapid.T, p *poller) {
	sub, err := g.service.Subscribe(t.Context(), SubscribeRequest{Channel: "ch", Subscriber: p.name})
	require.NoError(t, err)
	p.read = map[ulid.ULID]clock.Clock{sub.Epoch: sub.Clock}
}

// pick draws a poller that satisfies a condition, or skips the step.
func (g *game) pick(t *rapid.T, holds func(*poller) bool) *poller {
	var some []*poller
	for _, p := range g.pollers {
		if holds(p) {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		t.Skip("nobody")
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(t, "poller")]
}

func (g *game) poll(t *rapid.T) {
	p := g.pick(t, func(p *poller) bool { return !p.polling })
	q := Query{Channel: "ch", Subscriber: p.name, Max: rapid.IntRange(1, 3).Draw(t, "max"), Wait: gameLimits().MaxWait}
	p.polling, p.lost = true, nil
	poll := g.service.Fetch
	if rapid.Bool().Draw(t, "many") {
		poll = g.pollMany
	}
	go func() {
		d, err := poll(t.Context(), q)
		p.ended <- polled{d, err}
	}()
}

// pollMany is Fetch by FetchMany.
func (g *game) pollMany(ctx context.Context, q Query) (Delivery, error) {
	all, err := g.service.FetchMany(ctx, ManyQuery{From: []Source{{Channel: q.Channel, Subscriber: q.Subscriber}},
		Max: q.Max, Wait: q.Wait})
	switch {
	case len(all.Problems) > 0:
		return Delivery{}, all.Problems[0].Err
	case len(all.Found) > 0:
		return all.Found[0].Delivery, err
	}
	return Delivery{}, err
}

func (g *game) publish(t *rapid.T) {
	g.published++
	g.world.publish(fmt.Sprintf("m%d", g.published), rapid.Bool().Draw(t, "large"))
}

// expire takes some of the oldest messages.
func (g *game) expire(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "expired")
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	oldest := slices.SortedFunc(maps.Keys(g.world.messages), func(a, b clock.Clock) int {
		return int(clock.Distance(b, g.world.now.Clock)) - int(clock.Distance(a, g.world.now.Clock))
	})
	for _, c := range oldest[:min(n, len(oldest))] {
		delete(g.world.messages, c)
	}
}

// restart begins another life of the channel.
func (g *game) restart(*rapid.T) {
	g.lives++
	epoch := life2
	epoch[0] = g.lives
	g.world.restart(epoch)
	for _, p := range g.pollers {
		p.read[epoch] = 0
	}
}

// failOver undoes everything since the last replicate, including marks and removals.
func (g *game) failOver(*rapid.T) {
	before := g.world.snapshot()
	g.world.failOver()
	state := g.world.snapshot()
	for _, p := range g.pollers {
		p.lost = append(p.lost, past{read: p.read, log: before.log})
		p.read = maps.Clone(p.read)
		if mark, ok := state.marks[p.name]; ok {
			p.read[state.now.Epoch] = mark
		}
	}
}

func (g *game) unsubscribe(t *rapid.T) {
	require.NoError(t, g.service.Unsubscribe(t.Context(), "ch", g.pick(t, g.subscribed).name, AnyLife))
}

func (g *game) subscribed(p *poller) bool {
	_, ok := g.world.snapshot().marks[p.name]
	return ok
}

func (g *game) resubscribe(t *rapid.T) {
	g.subscribe(t, g.pick(t, func(p *poller) bool { return !p.polling && !g.subscribed(p) }))
}

func (g *game) disconnect(t *rapid.T) {
	notifications, _ := g.world.underway()
	g.world.disconnect(rapid.IntRange(0, notifications).Draw(t, "keep"))
}

func (g *game) deliver(t *rapid.T) {
	if notifications, _ := g.world.underway(); notifications == 0 {
		t.Skip("nothing on its way")
	}
	g.world.deliver()
}

func (g *game) answer(t *rapid.T) {
	_, answers := g.world.underway()
	if answers == 0 {
		t.Skip("nothing on its way")
	}
	g.world.release(rapid.IntRange(0, answers-1).Draw(t, "answer"))
}

// collect checks the polls that have ended.
func (g *game) collect(t *rapid.T) {
	synctest.Wait()
	for _, p := range g.pollers {
		select {
		case got := <-p.ended:
			p.polling = false
			g.check(t, p, got)
		default:
		}
	}
}

// check compares the result of a poll with what is expected now, or before a fail-over that happened meanwhile.
func (g *game) check(t *rapid.T, p *poller, got polled) {
	if got.err != nil {
		require.ErrorIs(t, got.err, ErrNoSubscriber)
		return
	}
	require.NotZero(t, uint64(len(got.Messages))+got.Expired, "a poll ended with nothing")
	r, err := g.service.receipts.Verify(got.Receipt, "ch", p.name)
	require.NoError(t, err)
	err = past{read: p.read, log: g.world.snapshot().log}.check(r, got)
	for _, then := range p.lost {
		if err != nil && then.check(r, got) == nil {
			err = nil
		}
	}
	require.NoError(t, err, p.name)
	g.acknowledge(t, p, r.Epoch, got.Receipt)
}

// check returns an error unless got has everything after the last read, in order.
func (p past) check(r receipt.Receipt, got polled) error {
	last, ok := p.read[r.Epoch]
	if n := uint64(len(got.Messages)) + got.Expired; !ok || clock.Distance(last, r.Clock) != n {
		return fmt.Errorf("%d messages up to %v, but %v was read before", n, r.Clock, last)
	}
	c := last.Add(got.Expired)
	for _, m := range got.Messages {
		c = c.Next()
		if id := p.log[Position{Epoch: r.Epoch, Clock: c}]; m.Clock != c || m.ID != id {
			return fmt.Errorf("%s at %v, but it should be %q at %v", m.ID, m.Clock, id, c)
		}
	}
	return nil
}

// acknowledge acknowledges a poll. Only after a fail-over may the store refuse its own receipts.
func (g *game) acknowledge(t *rapid.T, p *poller, life ulid.ULID, handle string) {
	err := g.service.Ack(t.Context(), "ch", p.name, handle)
	switch {
	case err == nil:
		p.read[life] = g.world.snapshot().marks[p.name]
	case errors.Is(err, ErrReceiptAhead), errors.Is(err, ErrReceiptSuperseded):
		require.NotEmpty(t, p.lost, "%v", err)
	default:
		require.True(t, errors.Is(err, ErrReceiptEpoch) || errors.Is(err, ErrNoSubscriber), "%v", err)
	}
}

// finish delivers all answers and notifications, and checks the polls that still wait.
func (g *game) finish(t *rapid.T) {
	for range 2 { // a poll whose first fetch is in progress begins to listen after it
		g.world.connect()
		g.world.settle()
	}
	g.collect(t)
	end := g.world.snapshot()
	for _, p := range g.pollers {
		if !p.polling {
			continue
		}
		require.True(t, g.subscribed(p), "%s waits, but is removed", p.name)
		require.Equal(t, end.now.Clock, end.marks[p.name], "%s waits, but there is something to read", p.name)
	}
}

// TestNoWakeUpIsLost runs random sequences of publishes, expiries, new lives, removals, fetches and clock reads with
// slow answers, notifications that are late or lost, reconnects, and fail-overs that lose the last writes and reuse
// their clocks. Each subscriber must read everything in order. Once all answers and notifications have arrived, no poll
// may wait whose subscriber has unread messages or is removed. No time passes at the end, so that the backstop can't
// help.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inside := struct{ rapid.TB }{t} // rapid would ask a testing.T for its deadline, which a bubble doesn't have
		rapid.Check(inside, func(t *rapid.T) {
			g := newGame(t)
			stop := runService(t.Context(), t, g.service)
			defer func() {
				g.world.settle()
				stop()
				synctest.Wait()
			}()
			t.Repeat(map[string]func(*rapid.T){
				"poll": g.poll, "poll too": g.poll, "publish": g.publish, "publish too": g.publish,
				"expire": g.expire, "restart": g.restart,
				"unsubscribe": g.unsubscribe, "resubscribe": g.resubscribe,
				"disconnect": g.disconnect, "connect": func(*rapid.T) { g.world.connect() },
				"deliver": g.deliver, "deliver too": g.deliver, "answer": g.answer, "answer too": g.answer,
				"replicate": func(*rapid.T) { g.world.replicate() }, "fail over": g.failOver,
				"backstop": func(*rapid.T) { pass(gameLimits().Backstop) },
				"fail":     func(*rapid.T) { g.world.fail() },
				"":         g.collect,
			})
			g.finish(t)
		})
	})
}
