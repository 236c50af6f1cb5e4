package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// QueueDescription is a queue and how it stands.
type QueueDescription struct {
	Definition matchmaking.Definition // without its secret
	Fixed      bool                   // it is part of the configuration: PutQueue and DeleteQueue refuse
	Directed   bool                   // this server directs it now

	Searching, Pending, Outgoing           int   // now: tickets, tickets, assignments on their way
	Matched, Cancelled, Expired, Conflicts int64 // see QueueState

	OldestWait                time.Duration // of the tickets that wait; 0: none does
	MatchesPerSecond          float64       // over the last minute
	WaitP50, WaitP90, WaitP99 time.Duration // of the tickets of recent matches; 0: there are none
	Now                       time.Time     // storage's
}

// rateWindow is what MatchesPerSecond looks back on.
const rateWindow = time.Minute

// Waiting calls each with the tickets that wait in a queue, the oldest first, some at a time, until each returns an
// error. Errors: ErrNoQueue, the store's, and that of each.
func (s *Service) Waiting(ctx context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	if _, err := s.queues.lookup(ctx, r.Queue); err != nil {
		return err
	}
	if err := s.o.Store.Waiting(ctx, r, each); err != nil {
		return fmt.Errorf("read the waiting tickets of queue %s: %w", r.Queue, err)
	}
	return nil
}

// Describe tells of a queue. Errors: ErrNoQueue and the store's.
func (s *Service) Describe(ctx context.Context, queue string) (QueueDescription, error) {
	q, err := s.queues.lookup(ctx, queue)
	if err != nil {
		return QueueDescription{}, err
	}
	state, err := s.o.Store.Describe(ctx, queue, fullRecent)
	if err != nil {
		return QueueDescription{}, fmt.Errorf("describe queue %s: %w", queue, err)
	}
	d := QueueDescription{
		Definition: q.Redacted(), Fixed: q.fixed, Directed: s.directed(queue),
		Searching: state.Searching, Pending: state.Pending, Outgoing: state.Outgoing,
		Matched: state.Matched, Cancelled: state.Cancelled, Expired: state.Expired, Conflicts: state.Conflicts,
		OldestWait: state.OldestWait, MatchesPerSecond: matchRate(state.Recent, state.Now), Now: state.Now,
	}
	d.WaitP50, d.WaitP90, d.WaitP99 = waitPercentiles(state.Recent)
	return d, nil
}

// matchRate gives the matches per second over rateWindow. Where the recent matches don't reach back so far it is over
// the time that they do.
func matchRate(recent []matchmaking.RecentMatch, now time.Time) float64 {
	window, matches := rateWindow, 0
	for _, m := range recent {
		if now.Sub(m.At) < rateWindow {
			matches++
		}
	}
	if len(recent) > 0 && matches == len(recent) && len(recent) >= fullRecent {
		window = max(now.Sub(recent[0].At), time.Millisecond)
	}
	return float64(matches) / window.Seconds()
}

// fullRecent is from how many recent matches on there were more, perhaps, that are no longer kept.
const fullRecent = 1000

func waitPercentiles(recent []matchmaking.RecentMatch) (p50, p90, p99 time.Duration) {
	var waits []time.Duration
	for _, m := range recent {
		waits = append(waits, m.Waits...)
	}
	if len(waits) == 0 {
		return 0, 0, 0
	}
	slices.Sort(waits)
	at := func(percent int) time.Duration { return waits[(len(waits)*percent+99)/100-1] }
	return at(50), at(90), at(99)
}

// Definitions gives the queues that this server knows, by name, without their secrets.
func (s *Service) Definitions() []matchmaking.Definition {
	all := s.queues.sorted()
	list := make([]matchmaking.Definition, len(all))
	for i, q := range all {
		list[i] = q.Redacted()
	}
	return list
}

// PutQueue makes or replaces a queue, on all servers, by a definition in JSON. Files of the servers can't be named in
// it. [Hidden] stands for what is stored already. Errors: fault.SlugInvalidQueue, ErrQueueFixed, ErrTooManyQueues and the
// store's, after which a repeat completes it.
func (s *Service) PutQueue(ctx context.Context, name string, definition []byte) (d matchmaking.Definition, created bool, err error) {
	d, err = matchmaking.ParseDefinition(name, definition)
	if err != nil {
		return matchmaking.Definition{}, false, err
	}
	switch {
	case d.Assigner.SecretFile != "":
		return matchmaking.Definition{}, false, matchmaking.InvalidQueue("assigner.secretFile", "assigner.secretFile: only the configuration can name files")
	case d.Assigner.TokenFile != "":
		return matchmaking.Definition{}, false, matchmaking.InvalidQueue("assigner.tokenFile", "assigner.tokenFile: only the configuration can name files")
	}
	if d.Hides() {
		stored, err := s.queues.stored(ctx, name)
		if err != nil {
			return matchmaking.Definition{}, false, err
		}
		if err := d.Reveal(stored); err != nil {
			return matchmaking.Definition{}, false, err
		}
	}
	created, err = s.queues.put(ctx, d)
	if err != nil {
		return matchmaking.Definition{}, false, err
	}
	return d.Redacted(), created, nil
}

// DeleteQueue removes a queue that was put. The default queue then is what it was before. Deleting one that isn't there
// succeeds. Errors: fault.SlugInvalidQueue, fault.SlugQueueInUse, where tickets wait or assignments are on their way, ErrQueueFixed
// and the store's.
func (s *Service) DeleteQueue(ctx context.Context, name string) error {
	return s.queues.remove(ctx, name)
}
