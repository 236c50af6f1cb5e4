package followers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Bounds of a group of copies, which are sent to Redis together.
const (
	maxMessages   = 16 // of a fetch
	maxGroup      = 256
	maxGroupBytes = 4 << 20 // of contents; one follower is always in a group
)

// reader copies the messages of one channel.
type reader struct {
	job     *Job
	channel string
	oldest  atomic.Pointer[time.Time] // when the first message was published that isn't copied yet; nil: there is none
}

// run copies messages until there are none left and none are announced.
func (r *reader) run(ctx context.Context) error {
	defer r.oldest.Store(nil)
	receipt := ""
	for {
		at, age, err := r.job.o.Store.Age(ctx, r.channel)
		switch {
		case err != nil || at == "" && receipt == "":
			return err
		case at == "":
			age = settleAfter
		}
		started := time.Now()
		wait := max(0, min(settleAfter-age, idleWait))
		d, err := r.job.o.Channels.Next(ctx, channel.Query{
			Channel: r.channel, Subscriber: Subscriber, Max: maxMessages, Wait: wait, Copies: true,
		}, receipt)
		switch {
		case errors.Is(err, channel.ErrNoSubscriber):
			d = channel.Delivery{} // the channel has ended, with all its messages
		case err != nil && receipt != "" && isConflict(err):
			receipt = "" // the channel has lost the copied messages: read again
			continue
		case err != nil:
			return err
		}
		receipt = d.Receipt
		r.count(Expired, int(d.Expired))
		r.count(Purged, int(d.Purged))
		r.count(Damaged, int(d.Damaged))
		switch {
		case len(d.Messages) > 0:
			if err := r.copy(ctx, d.Messages); err != nil {
				return err
			}
		case receipt != "": // only ones that are gone
		case age < settleAfter:
			if time.Since(started) < wait { // the service ends waits early when it shuts down
				pace.Sleep(ctx, min(wait, time.Second))
			}
		case at == "":
			return nil
		default:
			removed, err := r.job.o.Store.Settle(ctx, r.channel, at)
			if removed || err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// outcomeOf returns the outcome of a copy that was published.
func outcomeOf(p channel.Published) Outcome {
	switch {
	case p.Differs:
		return Differs
	case p.Duplicate:
		return Duplicate
	default:
		return Delivered
	}
}

// isConflict reports whether a receipt was refused because it no longer matches the channel.
func isConflict(err error) bool {
	var clientErr *fault.Error
	return errors.As(err, &clientErr) && clientErr.Kind == fault.Conflict
}

func (r *reader) count(o Outcome, n int) {
	if n > 0 {
		r.job.o.Metrics.Count(o, n)
	}
}

// copy publishes messages on the channels of all followers. It returns when all have them.
func (r *reader) copy(ctx context.Context, messages []channel.Message) error {
	r.oldest.Store(&messages[0].PublishedAt)
	defer r.oldest.Store(nil)
	all, err := r.job.o.Followers.Of(ctx, r.channel)
	if err != nil {
		return fmt.Errorf("the list of followers: %w", err)
	}
	drafts, bytes := make([]channel.Draft, len(messages)), 0
	for i := range messages {
		drafts[i] = messages[i].Draft()
		bytes += len(drafts[i].Content)
	}
	size := max(1, min(maxGroup, maxGroupBytes/max(1, bytes)))
	for group := range slices.Chunk(all, size) {
		if err := r.deliver(ctx, group, drafts); err != nil {
			return err
		}
	}
	return nil
}

// deliver publishes messages on the channels of some followers, and retries those that fail with a temporary error.
func (r *reader) deliver(ctx context.Context, group []records.ID, drafts []channel.Draft) error {
	unread := make([]string, 0, len(group))
	for _, id := range group {
		name, err := Channel(string(id))
		if err != nil {
			r.count(Refused, len(drafts))
			continue
		}
		unread = append(unread, name)
	}
	for delay := 100 * time.Millisecond; len(unread) > 0; delay = min(2*delay, retryPause) {
		var err error
		if unread, err = r.publish(ctx, unread, drafts); err != nil {
			r.job.o.Logger.DebugContext(ctx, "some followers can't be reached", "channel", r.channel, "followers",
				len(unread), "error", err)
			pace.Sleep(ctx, delay)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// isRefused reports whether a channel refuses messages for good: they aren't what it takes, or its user has closed it.
func isRefused(err error) bool {
	var clientErr *fault.Error
	return errors.Is(err, channel.ErrClosed) || errors.Is(err, channel.ErrContentType) ||
		errors.As(err, &clientErr) && (clientErr.Kind == fault.Invalid || clientErr.Kind == fault.TooLarge)
}

// publish publishes messages on channels, in one round trip. It returns the channels that failed with a temporary
// error, and one of the errors.
func (r *reader) publish(ctx context.Context, names []string, drafts []channel.Draft) (failing []string, failed error) {
	if err := r.job.flights.Acquire(ctx, 1); err != nil {
		return names, err
	}
	defer r.job.flights.Release(1)
	requests := make([]channel.PublishRequest, len(names))
	for i, name := range names {
		requests[i] = channel.PublishRequest{Channel: name, Drafts: drafts}
	}
	for i, result := range r.job.o.Channels.PublishEach(ctx, requests) {
		switch {
		case result.Err == nil:
			for _, p := range result.Published {
				r.count(outcomeOf(p), 1)
			}
		case isRefused(result.Err):
			r.count(Refused, len(drafts))
		default:
			failing, failed = append(failing, names[i]), cmp.Or(failed, result.Err)
		}
	}
	return failing, failed
}
