package channel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// MaxSources is how many sources one FetchMany may have.
const MaxSources = 256

// Source is a subscriber from which FetchMany fetches, or a source of a stream.
type Source struct {
	Channel    string
	Subscriber string
	Receipt    string // acknowledged first; empty: none, as always in a stream
	Last       string // as that of a Query; empty: none, as always in a stream
	// Tail is where a tail begins: a source of a stream without a subscriber. nil: the source has one.
	Tail *From
	// After is where a tail of a stream continues, as if it had sent what is before. nil: it begins at Tail.
	After *Offset
}

// ManyQuery is the input of FetchMany.
type ManyQuery struct {
	From []Source      // 1 to MaxSources, no two of the same channel and subscriber
	Max  int           // messages at most, of all sources together; 0: Limits.DefaultMax
	Wait time.Duration // how long to wait if no source has a message; 0: not at all
}

// Deliveries is the result of FetchMany.
type Deliveries struct {
	Found    []Found   // sources that have something, in the order of the query
	Problems []Problem // sources that failed, in the order of the query
}

// Found is a source that has something, and its delivery.
type Found struct {
	Source int // its index in the query
	Delivery
}

// Problem is why a source failed. It doesn't stop the others.
type Problem struct {
	Source int // its index in the query
	Err    error
}

// FetchMany is Next for several sources with one wait, which ends when any of them has something, fails or is closed, or
// if all are closed already. A source whose receipt is refused isn't fetched.
//
// Limits.FetchBytes and Max are limits for all sources together. The sources that have messages share both evenly, and
// a share that a source doesn't need is divided among the others. If not all can get a message, they are chosen at
// random; a later fetch returns the others' messages.
//
// Errors: fault.SlugInvalidSources, fault.SlugInvalidChannel, fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy,
// fault.SlugInvalidMax and fault.SlugInvalidWait about the query, fault.SlugOverloaded if the turn to read from many
// sources doesn't come in time, and the store's if it can serve no source. Those of a problem are the other errors of
// Next.
func (s *Service) FetchMany(ctx context.Context, q ManyQuery) (Deliveries, error) {
	m := many{service: s}
	all, err := m.prepare(ctx, &q)
	if err != nil {
		return Deliveries{}, err
	}
	if m.wait > 0 && len(m.problems) == 0 {
		err = m.await(ctx)
	} else if len(all) > 0 {
		_, err = m.read(ctx, all)
	}
	if err != nil {
		return Deliveries{}, err
	}
	return m.deliveries(), nil
}

// many is one call of FetchMany. Its slices have an item for each source.
type many struct {
	service  *Service
	max      int           // messages that may still be found
	wait     time.Duration // the shortest of the sources'
	requests []PollRequest
	at       []Position // of sources that were read and had no messages; nil if the fetch doesn't wait
	found    []foundBatch
	lost     map[int]Batch // sources that don't have the history of their Last, without messages
	closed   map[int]Batch // sources whose channels are closed and that have nothing more, without messages
	again    bool          // some were read before
	problems []Problem
}

// foundBatch is a source that has something, and its batch.
type foundBatch struct {
	source int
	Batch
}

// prepare checks the arguments of FetchMany, and returns the sources whose receipts are valid.
func (m *many) prepare(ctx context.Context, q *ManyQuery) (good []int, err error) {
	s := m.service
	if n := len(q.From); n == 0 || n > MaxSources {
		return nil, invalid(fault.SlugInvalidSources, "/from", "from has %d sources, it must have 1 to %d", n,
			MaxSources)
	}
	if err := s.configured.Load().limits.bound(&q.Max, q.Wait); err != nil {
		return nil, err
	}
	m.max, m.wait = q.Max, q.Wait
	m.requests = make([]PollRequest, len(q.From))
	if q.Wait > 0 {
		m.at = make([]Position, len(q.From))
	}
	if i := repeated(q.From); i >= 0 {
		return nil, invalid(fault.SlugInvalidSources, fmt.Sprintf("/from/%d", i),
			"the channel and the subscriber are in the list already")
	}
	v := verifier{service: s}
	good = make([]int, 0, len(q.From))
	for i, from := range q.From {
		policy, err := s.policyFor(from.Channel, from.Subscriber)
		if err != nil {
			return nil, atSource(err, i)
		}
		r := &m.requests[i]
		r.FetchRequest = FetchRequest{Channel: from.Channel, Subscriber: from.Subscriber, Policy: policy,
			Wait: min(q.Wait, policy.TTL/2)}
		m.wait = min(m.wait, r.Wait)
		if from.Receipt != "" {
			if r.Receipt, err = v.verify(ctx, from.Receipt, from.Channel, from.Subscriber); err != nil {
				m.fail(i, atSource(err, i))
				continue
			}
		}
		if from.Last != "" && from.Receipt == "" {
			if r.Last, err = v.verifyLast(ctx, from.Last, from.Channel, from.Subscriber); err != nil {
				m.fail(i, atSource(err, i))
				continue
			}
		}
		good = append(good, i)
	}
	return good, nil
}

var hashSeed = maphash.MakeSeed()

// repeated returns the index of the first source that repeats an earlier one, or -1. It uses a hash table on the stack:
// a map took a tenth of the time of a fetch.
func repeated(from []Source) int {
	const places = 4 * MaxSources
	var table [places]uint16 // the index of a source and 1
	for i := range from {
		s := &from[i]
		at := (maphash.String(hashSeed, s.Channel) + 31*maphash.String(hashSeed, s.Subscriber)) % places
		for ; table[at] != 0; at = (at + 1) % places {
			if other := &from[table[at]-1]; other.Channel == s.Channel && other.Subscriber == s.Subscriber {
				return i
			}
		}
		table[at] = uint16(i + 1)
	}
	return -1
}

// atSource sets the field of an error to the place of a source in the request.
func atSource(err error, i int) error {
	var e *fault.Error
	if errors.As(err, &e) {
		e.Field = fmt.Sprintf("/from/%d/%s", i, strings.TrimPrefix(e.Field, "/"))
	}
	return err
}

// idle records the position of a source without new messages, and whether its channel is closed.
func (m *many) idle(i int, at Position) {
	if m.at != nil {
		m.at[i] = at
	}
	if !at.Closed {
		return
	}
	if m.closed == nil {
		m.closed = make(map[int]Batch)
	}
	m.closed[i] = Batch{Epoch: at.Epoch, Mark: at.Clock, After: at.Clock, Through: at.Clock, Clock: at.Clock, Closed: true}
}

func (m *many) fail(i int, err error) { m.problems = append(m.problems, Problem{Source: i, Err: err}) }

// await reads all sources, and waits until one has something.
func (m *many) await(ctx context.Context) error {
	targets := make([]target, len(m.requests))
	for i := range m.requests {
		targets[i] = target{channel: m.requests[i].Channel, subscriber: m.requests[i].Subscriber}
	}
	woken, err := m.service.hub.wait(ctx, &waitRequest{targets: targets, wait: m.wait, read: m.read, at: m.at})
	for _, w := range woken {
		at := m.at[w.target]
		b := Batch{Epoch: at.Epoch, Mark: at.Clock, After: at.Clock, Through: at.Clock, Clock: at.Clock, Closed: w.closed}
		if w.message != nil {
			if m.max--; m.max < 0 {
				continue
			}
			b.deliver(w.message)
		}
		m.found = append(m.found, foundBatch{source: w.target, Batch: b})
	}
	return err
}

// Reads from more than fewSources sources take turns, so that a crowd of them leaves the server and the store time for
// others. A fetch that waits for a message holds no turn.
const (
	fewSources   = 32
	turnsPerCore = 2                      // while one read waits for the store, others decode and encode
	turnTime     = 250 * time.Millisecond // longer reads wait for a part of the store, and leave their turn to others
	turnTimeout  = 10 * time.Second
)

// awaitTurn waits until n sources may be read. The caller calls end when it has read them.
func (s *Service) awaitTurn(ctx context.Context, n int) (end func(), err error) {
	if n <= fewSources {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, turnTimeout, errManySources)
	defer cancel()
	if err := s.turns.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	release := func() { s.turns.Release(1) }
	late := time.AfterFunc(turnTime, release)
	return func() {
		if late.Stop() {
			release()
		}
	}, nil
}

// read polls some sources, and fetches from those that have something or must be renewed. It reports whether any has
// something or failed. The error is the store's if all failed by it.
func (m *many) read(ctx context.Context, which []int) (ended bool, err error) {
	end, err := m.service.awaitTurn(ctx, len(which))
	if err != nil {
		return false, err
	}
	defer end()
	requests := m.requests
	if len(which) < len(requests) {
		requests = make([]PollRequest, len(which))
		for n, i := range which {
			requests[n] = m.requests[i]
		}
	}
	results := m.service.store.Poll(ctx, requests)
	var some, due []ready
	before := len(m.closed)
	for n := range results {
		r := &results[n]
		i := which[n]
		if r.Err == nil {
			m.service.marks.acknowledged(m.requests[i].Receipt)
		}
		m.requests[i].Receipt = nil // acknowledged once, however often it is read
		if !r.Closed {
			delete(m.closed, i) // another life has begun
		}
		if r.Lost && r.Err == nil {
			m.addLost(i, r)
		}
		switch {
		case r.Err != nil:
			m.fail(i, fmt.Errorf("poll %s/%s: %w", requests[n].Channel, requests[n].Subscriber, r.Err))
		case r.Mark != r.Clock:
			some = append(some, ready{source: i, unread: clock.Distance(r.Mark, r.Clock)})
		default:
			m.idle(i, r.Position)
			if r.Due {
				due = append(due, ready{source: i})
			}
		}
	}
	m.fetch(ctx, some, due)
	if len(m.problems) == len(m.requests) &&
		!slices.ContainsFunc(m.problems, func(p Problem) bool { return !unserved(p.Err) }) {
		return true, m.problems[0].Err
	}
	ends := len(m.closed) == len(m.requests) || m.again && len(m.closed) > before
	m.again = true
	return ends || len(m.found)+len(m.problems)+len(m.lost) > 0, nil
}

// addLost records a source that doesn't have the history of its Last.
func (m *many) addLost(i int, r *PollResult) {
	if m.lost == nil {
		m.lost = make(map[int]Batch)
	}
	m.lost[i] = Batch{Epoch: r.Epoch, Mark: r.Mark, After: r.Mark, Through: r.Mark, Clock: r.Clock, Lost: true}
}

// unserved reports whether an error is the store's, and not about one source.
func unserved(err error) bool {
	var e *fault.Error
	return !errors.As(err, &e) || e.Kind == fault.Unavailable || e.Kind == fault.StorageFull || e.Kind == fault.Internal
}

// deliveries returns the deliveries of the sources, in the order of the query.
func (m *many) deliveries() Deliveries {
	for n := range m.found {
		b := &m.found[n]
		_, b.Lost = m.lost[b.source]
		delete(m.lost, b.source)
		delete(m.closed, b.source)
	}
	for i, b := range m.closed {
		_, b.Lost = m.lost[i]
		delete(m.lost, i)
		m.found = append(m.found, foundBatch{source: i, Batch: b})
	}
	for i, b := range m.lost {
		m.found = append(m.found, foundBatch{source: i, Batch: b})
	}
	slices.SortFunc(m.problems, func(a, b Problem) int { return a.Source - b.Source })
	slices.SortFunc(m.found, func(a, b foundBatch) int { return a.source - b.source })
	d := Deliveries{Problems: m.problems, Found: make([]Found, len(m.found))}
	for n := range m.found {
		b := &m.found[n]
		d.Found[n] = Found{Source: b.source, Delivery: m.service.delivery(&m.requests[b.source].FetchRequest, &b.Batch)}
	}
	return d
}
