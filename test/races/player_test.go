package races_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

// plan describes the actions of a player.
type plan struct {
	queue  string
	ttl    time.Duration // of its ticket; 0: the queue's
	leaves time.Duration // after which it cancels; 0: never
	looks  int           // how often it reads its ticket
	hasty  bool          // it creates its ticket twice and cancels it, at the same time or after an answer
	noID   bool          // the service generates its ticket's ID
	asks   time.Duration // after which it fetches from its channel
	beside *server       // its current server; nil: any
	unsure bool          // Redis may lose what the player was told
}

// player creates one ticket. Its fields may be read after its goroutines have ended.
type player struct {
	plan
	arena  *arena
	number int
	id     string
	random *rand.Rand

	ticket    matchmaking.Ticket // as it was created
	cancelled bool               // the cancellation succeeded
	tooLate   bool               // the cancellation failed, since there was a match
	seen      []matchmaking.Ticket
	received  []channel.Message

	watched chan struct{}           // closed when the player's watch has ended
	got     *matchmaking.Assignment // nil: the ticket didn't exist, or the test has ended
}

// player returns a new player.
func (a *arena) player(p plan) *player {
	a.mu.Lock()
	number := len(a.players)
	created := &player{
		plan: p, arena: a, number: number, id: fmt.Sprintf("p%d", number), random: a.random(number),
		watched: make(chan struct{}),
	}
	a.players = append(a.players, created)
	a.mu.Unlock()
	return created
}

// arrived returns the number of players.
func (a *arena) arrived() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.players)
}

// lastPlayer returns the ID of the last player.
func (a *arena) lastPlayer() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.players[len(a.players)-1].id
}

// play runs a player in the background.
func (a *arena) play(p *player) {
	a.playing.Go(func() { p.report(p.play(a.until)) })
}

// report reports an error to the arena, unless Redis may lose data.
func (p *player) report(err error) {
	if !p.unsure {
		p.arena.report(err)
	}
}

// report records the first error of a player or server.
func (a *arena) report(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	select {
	case a.failed <- err:
	default:
	}
}

// crowd runs n players, which start at random times.
func (a *arena) crowd(n int, every time.Duration, plan func(r *rand.Rand) plan) {
	a.playing.Go(func() {
		r := a.random(-n)
		for i := 0; i < n && wait(a.until, between(r, 0, 2*every)); i++ {
			a.play(a.player(plan(r)))
		}
	})
}

// arrive starts players at random times until stop is called.
func (a *arena) arrive(every time.Duration, plan func(r *rand.Rand) plan) (stop func()) {
	return during(func(ctx context.Context) {
		r := a.random(-1)
		for wait(ctx, between(r, 0, 2*every)) {
			a.play(a.player(plan(r)))
		}
	})
}

// server returns the player's server.
func (p *player) server() *server {
	if p.beside == nil || !p.beside.alive() {
		p.beside = p.arena.anyServer(p.random)
	}
	return p.beside
}

// retry repeats a request while the storage is unavailable or the server has been killed.
func (p *player) retry(ctx context.Context, ask func(context.Context, *server) error) error {
	for {
		s := p.server()
		asking, done := s.during(ctx)
		err := ask(asking, s)
		done()
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, fault.ErrUnavailable) || !s.alive():
			wait(ctx, 10*time.Millisecond)
		default:
			return err
		}
	}
}

func (p *player) create(ctx context.Context) error {
	err := p.retry(ctx, func(ctx context.Context, s *server) (err error) {
		n := service.NewTicket{Queue: p.queue, ID: p.id, TTL: p.ttl}
		if p.noID {
			n.ID = ""
		}
		p.ticket, _, err = s.tickets.Create(ctx, n)
		return err
	})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if p.noID {
		p.id = p.ticket.ID
	}
	return nil
}

// createConcurrently creates the ticket twice on one server, and cancels it at the same time or after an answer. A
// cancellation that comes first changes nothing.
func (p *player) createConcurrently(ctx context.Context) error {
	p.server()
	again, leaver := *p, *p
	again.random, leaver.random = p.arena.random(-2_000_000-p.number), p.arena.random(-3_000_000-p.number)
	var group errgroup.Group
	created := make(chan struct{})
	group.Go(func() error {
		defer close(created)
		return again.create(ctx)
	})
	group.Go(func() error {
		if leaver.random.IntN(2) == 0 {
			<-created
		}
		return leaver.retry(ctx, func(ctx context.Context, s *server) error { return s.tickets.Cancel(ctx, p.id) })
	})
	if err := p.create(ctx); err != nil {
		return err
	}
	err := group.Wait()
	if errors.Is(err, matchmaking.ErrTicketMatched) {
		p.tooLate, err = true, nil
	}
	if err == nil && !p.ticket.CreateTime.Equal(again.ticket.CreateTime) {
		err = fmt.Errorf("%s was created twice: %s and %s", p.id, p.ticket.CreateTime, again.ticket.CreateTime)
	}
	return err
}

func (p *player) play(ctx context.Context) error {
	create := p.create
	if p.hasty {
		create = p.createConcurrently
	}
	if err := create(ctx); err != nil {
		return err
	}
	reader, watcher := *p, *p // each with its own server and random source
	reader.random, watcher.random = p.arena.random(-2-p.number), p.arena.random(-1_000_000-p.number)
	p.arena.reading.Go(func() { p.report(reader.read(ctx, p)) })
	p.arena.reading.Go(func() { p.report(watcher.watch(ctx, p)) })
	var cancelTime <-chan time.Time
	if p.leaves > 0 {
		timer := time.NewTimer(p.leaves)
		defer timer.Stop()
		cancelTime = timer.C
	}
	for range p.looks {
		select {
		case <-cancelTime:
			return p.cancel(ctx)
		case <-time.After(between(p.random, 0, 40*time.Millisecond)):
		}
		if err := p.readTicket(ctx); err != nil {
			return err
		}
	}
	if cancelTime == nil {
		return nil
	}
	<-cancelTime
	return p.cancel(ctx)
}

func (p *player) readTicket(ctx context.Context) error {
	var t matchmaking.Ticket
	err := p.retry(ctx, func(ctx context.Context, s *server) (err error) {
		t, err = s.tickets.Ticket(ctx, p.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("read ticket %s: %w", p.id, err)
	}
	p.seen = append(p.seen, t)
	return nil
}

func (p *player) cancel(ctx context.Context) error {
	err := p.retry(ctx, func(ctx context.Context, s *server) error { return s.tickets.Cancel(ctx, p.id) })
	switch {
	case err == nil:
		p.cancelled = true
	case errors.Is(err, matchmaking.ErrTicketMatched):
		p.tooLate = true
	default:
		return fmt.Errorf("cancel %s: %w", p.id, err)
	}
	return p.readTicket(ctx)
}

// read polls for messages and acknowledges them until ctx ends, and then fetches the rest.
func (p *player) read(ctx context.Context, to *player) error {
	wait(ctx, p.asks)
	handle, last := "", false
	for {
		q := channel.Query{Channel: matchmaking.ChannelOf(p.id), Subscriber: matchmaking.Subscriber,
			Wait: 10 * time.Second}
		s, within := p.server(), ctx
		if last = ctx.Err() != nil; last {
			s, within, q.Wait = p.arena.observer, context.WithoutCancel(ctx), 0
		}
		asking, done := s.during(within)
		d, err := s.channels.Next(asking, q, handle)
		done()
		switch {
		case errors.Is(err, channel.ErrNoSubscriber):
			return nil
		case err != nil && !last && (errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil || !s.alive()):
			wait(ctx, 10*time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", p.id, err)
		}
		to.received = append(to.received, d.Messages...)
		if d.Receipt != "" {
			handle = d.Receipt
		}
		if last && len(d.Messages) == 0 {
			return nil
		}
	}
}

// watch waits for the assignment in memory, on one server after the other, until the ticket is assigned or gone.
func (p *player) watch(ctx context.Context, to *player) error {
	defer close(to.watched)
	for ctx.Err() == nil {
		s := p.server()
		if s == p.arena.observer { // no server runs
			p.beside = nil
			wait(ctx, 10*time.Millisecond)
			continue
		}
		asking, done := s.during(ctx)
		got, err := s.tickets.Await(asking, p.id)
		done()
		switch {
		case err == nil || errors.Is(err, matchmaking.ErrNoTicket):
			to.got = got
			return nil
		case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil || !s.alive():
			wait(ctx, 10*time.Millisecond)
		default:
			return fmt.Errorf("watch %s: %w", p.id, err)
		}
	}
	return nil
}

// assignmentOf decodes a message.
func assignmentOf(m channel.Message) (a matchmaking.Assignment, err error) {
	err = json.Unmarshal(m.Content, &a)
	return a, err
}
