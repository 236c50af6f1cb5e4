package channel

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// ReadQuery is the input of Read.
type ReadQuery struct {
	Channel  string
	After    *Offset       // where the reading begins; nil: at From
	From     From          // where it begins without After
	Max      int           // messages at most; 0: Limits.DefaultMax
	MaxBytes int           // bytes of contents at most, but always one message; 0: Limits.FetchBytes
	Wait     time.Duration // how long to wait for a message if there is none; 0: not at all
}

// Reading is the result of Read.
type Reading struct {
	Life     // Closed: the channel is, whether or not all is read
	Messages []Message
	Through  Offset // after the last message; where the reading began if there are none
	More     bool   // there is more to read now
	Missing  uint64 // messages in between that have expired, or were purged or damaged
	// Lost is set if After isn't of the channel's history: the storage has lost writes, or the channel has begun another
	// life. Messages, if there are any, are from the earliest on.
	Lost bool
}

// Ended reports whether the channel is closed and nothing follows.
func (r *Reading) Ended() bool { return r.Closed && !r.More }

// Read returns messages of a channel to a reader without a subscriber. It moves nothing; it renews a channel with a TTL
// of its own. If there is no message it waits, unless the channel is closed or After is Lost. It returns early, with
// nothing, when ctx ends or the service drains. Errors: fault.SlugInvalidChannel, fault.SlugInvalidPolicy,
// fault.SlugInvalidMax, fault.SlugInvalidWait, ErrNoChannel, ErrClockAhead and the store's.
func (s *Service) Read(ctx context.Context, q ReadQuery) (Reading, error) {
	limits := s.Limits()
	policy, err := s.policy(q.Channel)
	if err = cmp.Or(err, limits.bound(&q.Max, q.Wait), q.From.check()); err != nil {
		return Reading{}, err
	}
	if q.MaxBytes < 1 || q.MaxBytes > limits.FetchBytes {
		q.MaxBytes = limits.FetchBytes
	}
	f := &waitingFetch{fetch: fetch{service: s, request: FetchRequest{Channel: q.Channel, Tail: &q.From, Max: q.Max,
		MaxBytes: q.MaxBytes, Policy: policy, Identify: true}}}
	if q.After != nil {
		f.request.After, f.request.Anything = q.After.receipt(q.Channel), q.After.Write.IsZero()
	}
	if f.request.Wait = q.Wait; q.Wait > 0 {
		err = f.wait(ctx, false)
	} else {
		err = f.read(ctx)
	}
	if err != nil {
		return Reading{}, fmt.Errorf("read %s: %w", q.Channel, err)
	}
	return f.reading(), nil
}

// reading returns what was read.
func (f *fetch) reading() Reading {
	b := &f.batch
	r := Reading{
		Life: Life{Position: Position{Epoch: b.Epoch, Clock: b.Clock, Closed: b.Closed}, Properties: b.Properties,
			First: b.First},
		Messages: b.Messages, Through: Offset{Position: Position{Epoch: b.Epoch, Clock: b.Through}},
		More: b.Through != b.Clock, Missing: b.Expired + b.Purged + b.Damaged, Lost: b.Lost,
	}
	if b.Last.Clock == b.Through {
		r.Through.Write = b.Last.Write
	}
	return r
}
