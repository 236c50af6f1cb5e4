package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/load"
)

// playerLoad is the number of players, who look for one match after the other.
type playerLoad struct {
	Queues []string // that they choose in turns
	REST   int      // with requests and long polls
	GRPC   int      // with Open Match's calls
	Pause  time.Duration
}

// StartPlayers starts players. When playing is done, they create no new ticket. All end with ctx.
func (l *clients) StartPlayers(ctx, playing context.Context, c playerLoad) {
	for i := range c.REST + c.GRPC {
		p := &player{clients: l, turn: l.Servers.newTurn(), name: fmt.Sprintf("rest-%d", i), queue: c.Queues[i%len(c.Queues)]}
		p.create, p.await = p.createREST, p.awaitREST
		if i >= c.REST {
			p.name, p.create, p.await = fmt.Sprintf("grpc-%d", i), p.createGRPC, p.awaitGRPC
		}
		l.work(func() {
			for n := 0; playing.Err() == nil; n++ {
				p.play(ctx, n, false)
				pace.Sleep(playing, c.Pause)
			}
		})
	}
}

// filler adds tickets to queues that have too few left for a match.
type filler struct {
	clients *clients
	seats   map[string]int // tickets of a match, by queue
	last    map[string]int // number of waiting tickets at the last check
	checks  map[string]int // how often this number was seen
	added   map[string]int
}

// newFiller returns a filler for queues whose matches have the given numbers of tickets.
func newFiller(l *clients, seats map[string]int) *filler {
	return &filler{clients: l, seats: seats, last: map[string]int{}, checks: map[string]int{}, added: map[string]int{}}
}

// steadyChecks is the number of checks after which an unchanged number of tickets is considered final.
const steadyChecks = 5

// Fill checks the queues once, and adds tickets if necessary.
func (f *filler) Fill(ctx context.Context) {
	for queue, seats := range f.seats {
		n := f.clients.Tickets.Waiting(queue)
		if n != f.last[queue] {
			f.last[queue], f.checks[queue] = n, 0
		}
		f.checks[queue]++
		if f.checks[queue] < steadyChecks || n%seats == 0 {
			continue
		}
		for range seats - n%seats {
			f.clients.fill(ctx, queue, f.added[queue])
			f.added[queue]++
		}
		f.checks[queue] = 0
	}
}

// fill adds a player with one ticket to a queue, to complete its last match.
func (l *clients) fill(ctx context.Context, queue string, n int) {
	p := &player{clients: l, turn: l.Servers.newTurn(), name: "filler-" + queue, queue: queue}
	p.create, p.await = p.createREST, p.awaitREST
	l.work(func() { p.play(ctx, n, true) })
}

// player has one ticket at a time.
type player struct {
	*clients
	*turn
	name, queue string

	create func(ctx context.Context, server int, id string) error
	await  func(ctx context.Context, server int, id string) error
}

// play creates a ticket and waits for its match or its end.
func (p *player) play(ctx context.Context, n int, filler bool) {
	id := fmt.Sprintf("%s-%d", p.name, n)
	p.Tickets.Attempted(id, p.queue)
	if filler {
		p.Tickets.Filler(id)
	}
	err := p.try(ctx, func(server int) error { return p.create(ctx, server, id) })
	if err != nil {
		p.refused(err)
		return
	}
	p.Tickets.Created(id)
	err = p.try(ctx, func(server int) error { return p.awaitFor(ctx, server, id) })
	switch {
	case err == nil || ctx.Err() != nil:
	case ended(err):
		p.Tickets.Ended(id, err.Error())
	default:
		p.refused(err)
	}
}

// refused reports an error that cannot be retried. Other errors mean that the context has ended.
func (p *player) refused(err error) {
	if errors.Is(err, errRefused) {
		p.Tickets.Refused(fmt.Sprintf("%s: %v", p.name, err))
	}
}

// ended reports whether the error means that the ticket has ended without a match.
func ended(err error) bool {
	return errors.Is(err, client.ErrTicketCancelled) || errors.Is(err, client.ErrTicketExpired) ||
		errors.Is(err, client.ErrNoTicket) || status.Code(err) == codes.NotFound
}

// awaitLimit is the time that a player waits at one server before it tries another one.
const awaitLimit = 4 * time.Second

// awaitFor waits for the assignment. If there is none in time, or the server ends the wait, it continues on the next
// server.
func (p *player) awaitFor(ctx context.Context, server int, id string) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, awaitLimit)
		err := p.await(attempt, server, id)
		overdue := attempt.Err() != nil || errors.Is(err, errStreamEnded)
		cancel()
		if err == nil || !overdue || !pace.Sleep(ctx, firstPause) {
			return err
		}
		p.n++
		server = p.servers.pick(p.n)
	}
}

// Audit reads all tickets whose players received an assignment: they must still have it.
func (l *clients) Audit(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(auditors)
	for _, id := range l.Tickets.Matched() {
		g.Go(func() error { return l.audit(ctx, l.Servers.newTurn(), id) })
	}
	return g.Wait()
}

// auditors is the number of tickets that are read concurrently.
const auditors = 8

func (l *clients) audit(ctx context.Context, t *turn, id string) error {
	var ticket client.Ticket
	var ended bool
	err := t.try(ctx, func(server int) (err error) {
		ticket, err = t.servers.rest[server].Ticket(ctx, id)
		if ended = errors.Is(err, client.ErrNoTicket); ended {
			return nil // no failure of the request
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case ended:
		l.Tickets.Vanished(id)
	case ticket.Assignment == nil:
		l.Tickets.Forgotten(id, ticket.Status)
	default:
		l.Tickets.Assigned(id, assigned(ticket.Queue, ticket.Assignment))
	}
	return nil
}

func (p *player) createREST(ctx context.Context, server int, id string) error {
	_, err := p.servers.rest[server].CreateTicket(ctx, client.NewTicket{Queue: p.queue, ID: id})
	return err
}

func (p *player) awaitREST(ctx context.Context, server int, id string) error {
	a, err := p.servers.rest[server].AwaitAssignment(ctx, id)
	if err == nil {
		p.Tickets.Assigned(id, assigned(p.queue, &a))
	}
	return err
}

// ticketMetadata names the ID of a ticket.
const ticketMetadata = "tidemark-ticket-id"

func (p *player) createGRPC(ctx context.Context, server int, id string) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(load.InQueue(ctx, p.queue), ticketMetadata, id)
	_, err := p.servers.frontend[server].Create(ctx, &openmatch.Ticket{})
	return err
}

// errStreamEnded means that a stream ended without an assignment, as on a draining server.
var errStreamEnded = errors.New("the stream ended without an assignment")

// drained reports whether the error is that of a draining server.
func drained(err error) bool {
	return errors.Is(err, io.EOF) || strings.HasSuffix(status.Convert(err).Message(), "the server is shutting down")
}

// awaitGRPC reads the first assignment. The connection of the assignment is the match ID.
func (p *player) awaitGRPC(ctx context.Context, server int, id string) error {
	assignment, err := p.servers.frontend[server].Await(ctx, id)
	switch {
	case err != nil && drained(err):
		return errStreamEnded
	case err != nil:
		return err
	}
	match := assignment.GetConnection()
	p.Tickets.Assigned(id, oracle.Assignment{Match: match, Connection: match})
	return nil
}
