package service

import (
	"context"
	"fmt"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

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
					"the ID doesn't name the match's queue, as a match function chose it: give the queue, too")
		}
		queue = named
	}
	if err := matchmaking.CheckQueueName(queue); err != nil {
		return matchmaking.AssignedMatch{}, err
	}
	record, at, err := s.o.Store.Match(ctx, queue, id)
	if err != nil {
		return matchmaking.AssignedMatch{}, fmt.Errorf("read match %s: %w", id, err)
	}
	return matchmaking.ParseMatch(record, at)
}
