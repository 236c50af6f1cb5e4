package insight

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// Limits of the tickets in a report, which bound its memory and time.
const (
	MaxExamined = 10_000   // tickets
	maxBytes    = 32 << 20 // of their criteria and statistics
	maxTime     = 10 * time.Second
)

// Waiting reads the waiting tickets of a queue, as Store.Waiting does.
type Waiting interface {
	Waiting(ctx context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error
}

// Reader makes reports of queues, one at a time. Several goroutines may use it.
type Reader struct {
	waiting Waiting
	busy    sync.Mutex
}

// NewReader returns a Reader.
func NewReader(w Waiting) *Reader { return &Reader{waiting: w} }

var errBusy = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugOverloaded, RetryAfter: time.Second,
	Detail: "the server is examining the waiting tickets of a queue for another request; trying again is safe",
}

var errEnough = errors.New("enough tickets were read")

// Report makes a report of a queue from its state, which must be current. Errors: fault.SlugOverloaded while another
// report is computed, fault.ErrUnavailable if it takes too long, and those of reading.
func (r *Reader) Report(ctx context.Context, d matchmaking.Definition, s matchmaking.QueueState) (Report, error) {
	if !r.busy.TryLock() {
		return Report{}, errBusy
	}
	defer r.busy.Unlock()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	crowd, err := r.read(ctx, d, s.Now)
	if err != nil {
		return Report{}, inTime(err)
	}
	report, err := Examine(ctx, d.Match, crowd)
	if err != nil {
		return Report{}, inTime(err)
	}
	report.Waiting = max(s.Searching+s.Pending, report.Examined) // tickets may have been added meanwhile
	return report, nil
}

func inTime(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.ErrUnavailable.WithCause(err)
	}
	return fmt.Errorf("examine the waiting tickets: %w", err)
}

// read returns the oldest tickets of a queue, with only the fields of a report.
func (r *Reader) read(ctx context.Context, d matchmaking.Definition, now time.Time) (function.Crowd, error) {
	request := matchmaking.WaitingRequest{Queue: d.Name, Fields: matchmaking.FieldsMatching}
	if len(d.Profile.Pools) > 0 {
		request.Fields = matchmaking.FieldsSearch
	}
	crowd, bytes := function.Crowd{Now: now}, 0
	err := r.waiting.Waiting(ctx, request, func(batch []*matchmaking.Ticket) error {
		for _, t := range batch {
			bytes += bytesOf(t)
			if len(crowd.Tickets) == MaxExamined || bytes > maxBytes {
				return errEnough
			}
			crowd.Pools = append(crowd.Pools, function.PoolsOf(d.Profile, t))
			t.KeepOnly(matchmaking.FieldsMatching)
			crowd.Tickets = append(crowd.Tickets, t)
		}
		return ctx.Err()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return crowd, err
}

func bytesOf(t *matchmaking.Ticket) int {
	const perCriterion, perStatistic = 32, 24
	n := len(t.Criteria)*perCriterion + len(t.Statistics)*perStatistic
	for _, c := range t.Criteria {
		n += len(c.Name)
	}
	for _, s := range t.Statistics {
		n += len(s.Name)
	}
	return n
}
