package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// UserQueue returns the definition of a queue that is directed by its user; an empty name means
// matchmaking.DefaultQueue. Errors: ErrNoQueue, ErrQueueDirector if the service directs it, and the store's.
func (s *Service) UserQueue(ctx context.Context, name string) (matchmaking.Definition, error) {
	q, err := s.userQueue(ctx, name)
	if err != nil {
		return matchmaking.Definition{}, err
	}
	return q.Definition, nil
}

func (s *Service) userQueue(ctx context.Context, name string) (*queue, error) {
	if name == "" {
		name = matchmaking.DefaultQueue
	}
	q, err := s.registry.lookup(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case !q.ByUser():
		return nil, &fault.Error{Kind: fault.Conflict, Slug: fault.SlugQueueDirector, Detail: fmt.Sprintf(
			"the queue %q is directed by the service: define it with director: user", name)}
	}
	return q, nil
}

// NewBackfill is the input of CreateBackfill.
type NewBackfill struct {
	Queue string // empty: matchmaking.DefaultQueue
	Spec  matchmaking.BackfillSpec
}

// CreateBackfill creates a backfill, whose generation is 1, in a queue that is directed by its user. Errors:
// ErrNoQueue, ErrQueueDirector, fault.SlugBackfillTooLarge, ErrTooManyBackfills, and the store's; after
// the latter a backfill that nobody acknowledges may exist until its life ends.
func (s *Service) CreateBackfill(ctx context.Context, n NewBackfill) (matchmaking.Backfill, error) {
	q, err := s.userQueue(ctx, n.Queue)
	if err != nil {
		return matchmaking.Backfill{}, err
	}
	if err := s.checkBackfill(q, &n.Spec); err != nil {
		return matchmaking.Backfill{}, err
	}
	backfill, err := s.options.Store.CreateBackfill(ctx, matchmaking.CreateBackfillRequest{
		Queue: q.Name, ID: matchmaking.NewBackfillID(q.Name), Spec: n.Spec, TTL: q.BackfillTTL.Std(), Max: q.MaxBackfills,
	})
	if err != nil {
		return matchmaking.Backfill{}, fmt.Errorf("create a backfill in queue %s: %w", q.Name, err)
	}
	return backfill, nil
}

// checkBackfill returns an error unless a queue accepts a backfill.
func (s *Service) checkBackfill(q *queue, spec *matchmaking.BackfillSpec) error {
	return q.CheckBackfillSize(s.options.Store.BackfillSize(spec))
}

// Backfill reads a backfill. Errors: ErrNoBackfill and the store's.
func (s *Service) Backfill(ctx context.Context, id string) (matchmaking.Backfill, error) {
	queue, ok := matchmaking.QueueOfBackfill(id)
	if !ok {
		return matchmaking.Backfill{}, matchmaking.ErrNoBackfill
	}
	found, err := s.options.Store.Backfill(ctx, queue, id)
	if err != nil {
		return matchmaking.Backfill{}, fmt.Errorf("read backfill %s: %w", id, err)
	}
	return found, nil
}

// UpdateBackfill replaces the content of a backfill, but for its PersistentField, raises its generation by one, and
// releases its associated tickets. Errors: ErrNoBackfill, ErrBackfillExpired, fault.SlugBackfillTooLarge and the
// store's, after which a repetition raises the generation perhaps once more.
func (s *Service) UpdateBackfill(ctx context.Context, backfill string, spec matchmaking.BackfillSpec) (
	matchmaking.Backfill, error) {
	q, err := s.queueOfBackfill(ctx, backfill)
	if err != nil {
		return matchmaking.Backfill{}, err
	}
	spec.PersistentField = nil
	if err := s.checkBackfill(q, &spec); err != nil {
		return matchmaking.Backfill{}, err
	}
	updated, err := s.options.Store.UpdateBackfill(ctx, matchmaking.UpdateBackfillRequest{
		Queue: q.Name, ID: backfill, Attempt: id.New(), Spec: spec,
	})
	if err != nil {
		return matchmaking.Backfill{}, fmt.Errorf("update backfill %s: %w", backfill, err)
	}
	return updated, nil
}

// queueOfBackfill returns the queue of a backfill. A queue that was deleted, or that the service directs now, has no
// backfills. Errors: ErrNoBackfill and the store's.
func (s *Service) queueOfBackfill(ctx context.Context, id string) (*queue, error) {
	name, ok := matchmaking.QueueOfBackfill(id)
	if !ok {
		return nil, matchmaking.ErrNoBackfill
	}
	q, err := s.userQueue(ctx, name)
	if errors.Is(err, matchmaking.ErrNoQueue) || errors.Is(err, matchmaking.ErrQueueDirector) {
		return nil, matchmaking.ErrNoBackfill
	}
	return q, err
}

// DeleteBackfill removes a backfill, and releases its associated tickets. It succeeds if the backfill doesn't exist.
// Errors: the store's, after which a repetition completes it.
func (s *Service) DeleteBackfill(ctx context.Context, id string) error {
	queue, ok := matchmaking.QueueOfBackfill(id)
	if !ok {
		return nil
	}
	if err := s.options.Store.DeleteBackfills(ctx, queue, []string{id}); err != nil {
		return fmt.Errorf("delete backfill %s: %w", id, err)
	}
	return nil
}

// AcknowledgeBackfill extends the life of a backfill by its queue's BackfillTTL, and assigns the tickets that are
// associated with it: their players get the allocation. Errors: ErrNoBackfill, ErrBackfillExpired and the store's.
// After one of the latter the tickets may be assigned, and a repetition doesn't return them again.
func (s *Service) AcknowledgeBackfill(ctx context.Context, id string, a matchmaking.Allocation) (
	matchmaking.Acknowledged, error) {
	q, err := s.queueOfBackfill(ctx, id)
	if err != nil {
		return matchmaking.Acknowledged{}, err
	}
	done, err := s.options.Store.AcknowledgeBackfill(ctx, matchmaking.AcknowledgeRequest{
		Definition: &q.Definition, ID: id, MatchID: matchmaking.NewID(q.Name), Allocation: a,
	})
	if err != nil {
		return matchmaking.Acknowledged{}, fmt.Errorf("acknowledge backfill %s: %w", id, err)
	}
	if len(done.Tickets) > 0 {
		s.options.Metrics.Queue(q.Name).Matched(done.Waits)
		s.offer(q.Name, done.Entries)
	}
	return done, nil
}

// offer hands the assignments of a call of this server to the relay. If the queue is idle on this server, a relay finds
// them in the outbox.
func (s *Service) offer(queue string, entries []matchmaking.OutboxEntry) {
	s.mu.Lock()
	q := s.running[queue]
	s.mu.Unlock()
	if q != nil && len(entries) > 0 {
		q.Offer(entries)
	}
}

// EachBackfill calls each with the backfills of a queue, in batches, until each returns an error. Errors: ErrNoQueue,
// the store's, and that of each.
func (s *Service) EachBackfill(ctx context.Context, queue string, each func([]*matchmaking.Backfill) error) error {
	if _, err := s.registry.lookup(ctx, queue); err != nil {
		return err
	}
	if err := s.options.Store.EachBackfill(ctx, queue, each); err != nil {
		return fmt.Errorf("read the backfills of queue %s: %w", queue, err)
	}
	return nil
}

// ReleaseTickets releases tickets of a queue that were handed out: they wait again. An empty name means
// matchmaking.DefaultQueue. It ignores tickets that don't exist, aren't held, or are of another queue. Errors:
// ErrNoQueue, ErrQueueDirector, and the store's, after which a repetition completes it.
func (s *Service) ReleaseTickets(ctx context.Context, queue string, ids []string) error {
	if ids == nil {
		ids = []string{} // nil would mean all
	}
	return s.releaseFetched(ctx, queue, ids)
}

// ReleaseAllTickets releases all tickets of a queue that were handed out. An empty name means matchmaking.DefaultQueue.
// Errors: those of ReleaseTickets.
func (s *Service) ReleaseAllTickets(ctx context.Context, queue string) error {
	return s.releaseFetched(ctx, queue, nil)
}

func (s *Service) releaseFetched(ctx context.Context, queue string, ids []string) error {
	q, err := s.userQueue(ctx, queue)
	if err != nil {
		return err
	}
	if err := s.options.Store.ReleaseFetched(ctx, q.Name, ids); err != nil {
		return fmt.Errorf("release tickets of queue %s: %w", q.Name, err)
	}
	return nil
}
