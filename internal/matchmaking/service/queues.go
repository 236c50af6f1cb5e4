package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/insight"
)

// QueueDescription describes a queue.
type QueueDescription struct {
	Definition matchmaking.Definition // without its secrets
	Configured bool                   // it is part of the configuration: PutQueue and DeleteQueue return ErrQueueFixed
	Directed   bool                   // this server directs it now

	matchmaking.QueueState
	MatchesPerSecond          float64       // over the last minute
	WaitP50, WaitP90, WaitP99 time.Duration // waiting times of recent matches' tickets; 0: no matches
}

// rateWindow is the period of MatchesPerSecond.
const rateWindow = time.Minute

// Waiting calls each with the waiting tickets of a queue, the oldest first, in batches, until each returns an error.
// Errors: ErrNoQueue, the store's, and that of each.
func (s *Service) Waiting(ctx context.Context, r matchmaking.WaitingRequest,
	each func([]*matchmaking.Ticket) error) error {
	if _, err := s.registry.lookup(ctx, r.Queue); err != nil {
		return err
	}
	if err := s.options.Store.Waiting(ctx, r, each); err != nil {
		return fmt.Errorf("read the waiting tickets of queue %s: %w", r.Queue, err)
	}
	return nil
}

// Describe describes a queue. Errors: ErrNoQueue and the store's.
func (s *Service) Describe(ctx context.Context, queue string) (QueueDescription, error) {
	q, err := s.registry.lookup(ctx, queue)
	if err != nil {
		return QueueDescription{}, err
	}
	state, err := s.options.Store.Describe(ctx, queue, fullRecent)
	if err != nil {
		return QueueDescription{}, fmt.Errorf("describe queue %s: %w", queue, err)
	}
	d := QueueDescription{
		Definition: q.Redacted(), Configured: q.configured, Directed: s.directs(queue), QueueState: state,
		MatchesPerSecond: matchRate(state.Recent, state.Now),
	}
	d.WaitP50, d.WaitP90, d.WaitP99 = waitPercentiles(state.Recent)
	return d, nil
}

// RecentMatches returns the last matches of a queue, the newest first: at most limit. Errors: ErrNoQueue and the
// store's.
func (s *Service) RecentMatches(ctx context.Context, queue string, limit int) ([]matchmaking.RecentMatch, error) {
	if _, err := s.registry.lookup(ctx, queue); err != nil {
		return nil, err
	}
	state, err := s.options.Store.Describe(ctx, queue, min(limit, fullRecent))
	if err != nil {
		return nil, fmt.Errorf("read the matches of queue %s: %w", queue, err)
	}
	slices.Reverse(state.Recent)
	return state.Recent, nil
}

// matchRate returns the matches per second over rateWindow, or over the time since the first of the recent matches if
// the window has more matches than are kept.
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

// fullRecent is the number of recent matches that are kept.
const fullRecent = 1000

// waitPercentiles returns percentiles of the waiting times of recent matches, or 0 without matches.
func waitPercentiles(recent []matchmaking.RecentMatch) (p50, p90, p99 time.Duration) {
	var waits []time.Duration
	for _, m := range recent {
		waits = append(waits, m.Waits...)
	}
	p := insight.PercentilesOf(waits)
	return p.P50, p.P90, p.P99
}

// Definitions returns the queues known to this server, by name, without their secrets.
func (s *Service) Definitions() []matchmaking.Definition {
	all := s.registry.sorted()
	list := make([]matchmaking.Definition, len(all))
	for i, q := range all {
		list[i] = q.Redacted()
	}
	return list
}

// Redefine returns a function that replaces the queues of the configuration, and Options.MaxQueues. A queue with
// another definition is directed under the new one as soon as the matches in progress have ended. A queue that is gone
// isn't directed by this server any more: its matches in progress end, their assignments are published, and its waiting
// tickets stay in the storage until they expire, or until a server has the queue again. Errors: fault.SlugInvalidQueue,
// and nothing changes.
func (s *Service) Redefine(definitions []matchmaking.Definition, maxQueues int) (change func(), err error) {
	configured, err := s.registry.newConfigured(definitions)
	if err != nil {
		return nil, err
	}
	defaultQueue, err := s.registry.defaultQueue()
	if err != nil {
		return nil, err
	}
	return func() { s.registry.setConfigured(configured, defaultQueue, maxQueues) }, nil
}

// CheckQueue returns the error that PutQueue would return for a definition, and stores nothing; that there are too many
// queues isn't checked.
func (s *Service) CheckQueue(ctx context.Context, d matchmaking.Definition) error {
	d, err := s.complete(ctx, d)
	if err != nil {
		return err
	}
	d.RunTime = true
	if s.registry.isConfigured(d.Name) {
		return matchmaking.ErrQueueFixed
	}
	return s.registry.check(d)
}

// PutQueue defines or replaces a queue, on all servers, by a definition of [matchmaking.ParseDefinition]. The
// definition can't refer to files of the servers. [matchmaking.Hidden] means the stored secret. PutQueue returns the
// definition without its secrets. Errors: fault.SlugInvalidQueue, ErrQueueFixed, ErrTooManyQueues and the store's,
// after which a repetition completes it.
func (s *Service) PutQueue(ctx context.Context, d matchmaking.Definition) (shown matchmaking.Definition, created bool,
	err error) {
	if d, err = s.complete(ctx, d); err != nil {
		return matchmaking.Definition{}, false, err
	}
	created, err = s.registry.put(ctx, d)
	if err != nil {
		return matchmaking.Definition{}, false, err
	}
	return d.Redacted(), created, nil
}

// complete returns a definition that is put, with its secrets. It can't refer to files.
func (s *Service) complete(ctx context.Context, d matchmaking.Definition) (matchmaking.Definition, error) {
	switch {
	case d.Assigner.SecretFile != "":
		return d, matchmaking.InvalidQueue("assigner.secretFile",
			"assigner.secretFile: only the configuration can name files")
	case d.Assigner.TokenFile != "":
		return d, matchmaking.InvalidQueue("assigner.tokenFile",
			"assigner.tokenFile: only the configuration can name files")
	}
	if !d.Hides() {
		return d, nil
	}
	stored, err := s.registry.stored(ctx, d.Name)
	if err == nil {
		err = d.Unhide(stored)
	}
	return d, err
}

// DeleteQueue removes a queue that was put. The default queue reverts to its original definition. It succeeds if the
// queue doesn't exist. Errors: fault.SlugInvalidQueue, fault.SlugQueueInUse if it has waiting tickets or unpublished
// assignments, ErrQueueFixed and the store's.
func (s *Service) DeleteQueue(ctx context.Context, name string) error {
	return s.registry.remove(ctx, name)
}

// Match reads an assigned match. It can be read for the queue's AssignmentTTL, but at least for a minute. An empty
// queue means the queue in the ID, if the service generated it. Errors: ErrNoMatch, fault.SlugInvalidQueue with the
// field "queue", and the store's.
func (s *Service) Match(ctx context.Context, queue, id string) (matchmaking.AssignedMatch, error) {
	if matchmaking.CheckMatchID(id) != nil {
		return matchmaking.AssignedMatch{}, matchmaking.ErrNoMatch
	}
	if queue == "" {
		named, ok := matchmaking.QueueOf(id)
		if !ok {
			return matchmaking.AssignedMatch{},
				matchmaking.InvalidQueue("queue",
					"a match function chose this ID, which doesn't say the match's queue: name the queue, too")
		}
		queue = named
	}
	if err := matchmaking.CheckQueueName(queue); err != nil {
		return matchmaking.AssignedMatch{}, err
	}
	record, at, err := s.options.Store.Match(ctx, queue, id)
	if err != nil {
		return matchmaking.AssignedMatch{}, fmt.Errorf("read match %s: %w", id, err)
	}
	return matchmaking.ParseMatch(record, at)
}
