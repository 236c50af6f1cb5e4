package channel

import (
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
)

// poller is a subscriber that polls now and then, and acknowledges what it gets.
type poller struct {
	name    string
	polling bool
	ended   chan polled
	read    map[ulid.ULID]clock.Clock // how far it has read in each life
	unheard bool                      // its removal was told to nobody
}

type polled struct {
	Delivery
	err error
}

// game is what the property test plays on: a world, a service, and pollers.
type game struct {
	world     *world
	service   *Service
	pollers   []*poller
	published map[Position]string // the IDs of all messages ever
	lives     byte
}

func newGame(t *rapid.T) *game {
	start := rapid.SampledFrom([]clock.Clock{0, 41, clock.Max - 2, clock.Max, clock.Min}).Draw(t, "start")
	g := &game{world: newWorld(in1(start)), published: make(map[Position]string)}
	g.service = serviceOn(t, g.world, testLimits())
	g.world.slow = true
	for i := range 3 {
		g.pollers = append(g.pollers, &poller{name: fmt.Sprintf("s%d", i), ended: make(chan polled, 1)})
		g.subscribe(t, g.pollers[i])
	}
	return g
}

func (g *game) subscribe(t *rapid.T, p *poller) {
	sub, err := g.service.Subscribe(t.Context(), "ch", p.name, From{})
	require.NoError(t, err)
	p.read, p.unheard = map[ulid.ULID]clock.Clock{sub.Epoch: sub.Clock}, false
}

// pick draws a poller of which something holds, or skips the step.
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
	q := Query{Channel: "ch", Subscriber: p.name, Max: rapid.IntRange(1, 3).Draw(t, "max"), Wait: time.Minute}
	p.polling = true
	go func() {
		d, err := g.service.Fetch(t.Context(), q)
		p.ended <- polled{d, err}
	}()
}

func (g *game) publish(t *rapid.T) {
	m := g.world.publish(fmt.Sprintf("m%d", len(g.published)), rapid.Bool().Draw(t, "large"))
	g.published[Position{Epoch: g.world.now.Epoch, Clock: m.Clock}] = m.ID
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

func (g *game) unsubscribe(t *rapid.T) {
	p := g.pick(t, g.subscribed)
	p.unheard = !g.world.connected
	require.NoError(t, g.service.Unsubscribe(t.Context(), "ch", p.name))
}

func (g *game) subscribed(p *poller) bool {
	_, ok := g.world.marks[p.name]
	return ok
}

func (g *game) resubscribe(t *rapid.T) {
	g.subscribe(t, g.pick(t, func(p *poller) bool { return !p.polling && !g.subscribed(p) }))
}

func (g *game) disconnect(t *rapid.T) {
	keep := rapid.IntRange(0, len(g.world.queue)).Draw(t, "keep")
	for _, e := range g.world.queue[keep:] {
		for _, p := range g.pollers {
			p.unheard = p.unheard || e.Kind == EventUnsubscribed && e.Subscriber == p.name
		}
	}
	g.world.disconnect(keep)
}

func (g *game) deliver(t *rapid.T) {
	if len(g.world.queue) == 0 {
		t.Skip("nothing on its way")
	}
	g.world.deliver()
}

func (g *game) answer(t *rapid.T) {
	if len(g.world.held) == 0 {
		t.Skip("nothing on its way")
	}
	g.world.release(rapid.IntRange(0, len(g.world.held)-1).Draw(t, "answer"))
}

// collect takes in the polls that have ended.
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

// check holds what a poll got against what it should: everything after what was read before, in order.
func (g *game) check(t *rapid.T, p *poller, got polled) {
	if got.err != nil {
		require.ErrorIs(t, got.err, ErrNoSubscriber)
		return
	}
	require.NotZero(t, uint64(len(got.Messages))+got.Expired, "a poll ended with nothing")
	r, err := g.service.receipts.Verify(got.Receipt, "ch", p.name)
	require.NoError(t, err)
	last, known := p.read[r.Epoch]
	require.True(t, known)
	require.Equal(t, clock.Distance(last, r.Clock), uint64(len(got.Messages))+got.Expired, "of %s after %d", p.name, last)
	c := last.Add(got.Expired)
	for _, m := range got.Messages {
		c = c.Next()
		require.Equal(t, c, m.Clock)
		require.Equal(t, g.published[Position{Epoch: r.Epoch, Clock: c}], m.ID)
	}
	p.read[r.Epoch] = r.Clock
	if err := g.service.Ack(t.Context(), "ch", p.name, got.Receipt); err != nil {
		require.True(t, errors.Is(err, ErrReceiptEpoch) || errors.Is(err, ErrNoSubscriber), "%v", err)
	}
}

// finish lets everything arrive and looks at who still waits.
func (g *game) finish(t *rapid.T) {
	g.world.connect()
	g.world.settle()
	pass(2 * lastPause) // a read of the clock that failed is repeated
	g.collect(t)
	for _, p := range g.pollers {
		if !p.polling || p.unheard {
			continue
		}
		require.True(t, g.subscribed(p), "%s waits, but is removed", p.name)
		require.Equal(t, g.world.now.Clock, g.world.marks[p.name], "%s waits, but there is something to read", p.name)
	}
}

// TestNoWakeUpIsLost plays with everything that can come in any order: publishes, expiries, new lives, removals,
// fetches and clock reads whose answers take their time, notifications that come late or never, reconnects.
// Whatever happens, each subscriber reads everything in order, and once all that is on its way has arrived nobody
// waits who has something to read. The backstop is too far away to help.
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
				"fail": func(*rapid.T) { g.world.failing = true },
				"":     g.collect,
			})
			g.finish(t)
		})
	})
}
