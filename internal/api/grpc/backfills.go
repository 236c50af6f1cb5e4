package grpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// CreateBackfill creates a backfill in the queue from the metadata, or in the default one.
func (f *frontend) CreateBackfill(
	ctx context.Context, request *openmatch.CreateBackfillRequest,
) (*openmatch.Backfill, error) {
	switch backfill := request.GetBackfill(); {
	case backfill == nil:
		return nil, badRequest(".backfill is required")
	case backfill.GetCreateTime() != nil:
		return nil, badRequest("backfills cannot be created with create time set")
	}
	b, err := f.backfills.CreateBackfill(ctx, service.NewBackfill{
		Queue: queueOf(ctx), Spec: convert.ToBackfillSpec(request.GetBackfill()),
	})
	if err != nil {
		return nil, err
	}
	return convert.FromBackfill(&b), nil
}

// GetBackfill returns a backfill.
func (f *frontend) GetBackfill(
	ctx context.Context, request *openmatch.GetBackfillRequest,
) (*openmatch.Backfill, error) {
	id := request.GetBackfillId()
	b, err := f.backfills.Backfill(ctx, id)
	if err != nil {
		return nil, orNoBackfill(id, err)
	}
	return convert.FromBackfill(&b), nil
}

// UpdateBackfill replaces a backfill's content, except its persistent_field, and releases its tickets.
func (f *frontend) UpdateBackfill(
	ctx context.Context, request *openmatch.UpdateBackfillRequest,
) (*openmatch.Backfill, error) {
	backfill := request.GetBackfill()
	switch {
	case backfill == nil:
		return nil, badRequest(".backfill is required")
	case backfill.GetId() == "":
		return nil, badRequest("backfill ID should exist")
	}
	b, err := f.backfills.UpdateBackfill(ctx, backfill.GetId(), convert.ToBackfillSpec(backfill))
	switch {
	case errors.Is(err, matchmaking.ErrBackfillExpired):
		return nil, status.Errorf(codes.FailedPrecondition, "can not update an expired backfill, id: %s", backfill.GetId())
	case err != nil:
		return nil, orNoBackfill(backfill.GetId(), err)
	}
	return convert.FromBackfill(&b), nil
}

// DeleteBackfill removes a backfill and releases its tickets. It succeeds if the backfill does not exist.
func (f *frontend) DeleteBackfill(ctx context.Context, request *openmatch.DeleteBackfillRequest) (*emptypb.Empty, error) {
	if err := f.backfills.DeleteBackfill(ctx, request.GetBackfillId()); err != nil {
		return nil, err
	}
	return new(emptypb.Empty), nil
}

// AcknowledgeBackfill renews a backfill's life, and assigns its tickets.
func (f *frontend) AcknowledgeBackfill(
	ctx context.Context, request *openmatch.AcknowledgeBackfillRequest,
) (*openmatch.AcknowledgeBackfillResponse, error) {
	id := request.GetBackfillId()
	switch {
	case id == "":
		return nil, badRequest(".BackfillId is required")
	case request.GetAssignment() == nil:
		return nil, badRequest(".Assignment is required")
	}
	done, err := f.backfills.AcknowledgeBackfill(ctx, id, convert.ToAllocation(request.GetAssignment()))
	switch {
	case errors.Is(err, matchmaking.ErrBackfillExpired):
		return nil, status.Errorf(codes.Unavailable, "can not acknowledge an expired backfill, id: %s", id)
	case err != nil:
		return nil, orNoBackfill(id, err)
	}
	answer := &openmatch.AcknowledgeBackfillResponse{Backfill: convert.FromBackfill(&done.Backfill)}
	for i := range done.Tickets {
		answer.Tickets = append(answer.Tickets, convert.FromTicket(&done.Tickets[i]))
	}
	return answer, nil
}

// orNoBackfill returns err, or the error of a backfill that doesn't exist, with Open Match's text.
func orNoBackfill(id string, err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Kind == fault.NotFound {
		return status.Errorf(codes.NotFound, "Backfill id: %s not found", id)
	}
	return err
}
