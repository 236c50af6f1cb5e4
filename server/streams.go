package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
)

// OpenStream opens a stream and counts its messages. Each 8 of its sources are a request, and one of the client's
// waits. The players of its tickets are present as long as the stream.
func (c *channels) OpenStream(ctx context.Context, q channel.StreamQuery) (streams.Stream, error) {
	for _, from := range q.From {
		if err := c.reserved.read(from.Channel); err != nil {
			return nil, err
		}
	}
	if err := countSources(ctx, q.From); err != nil {
		return nil, err
	}
	done, err := limits.From(ctx).Wait((len(q.From) + sourcesPerWait - 1) / sourcesPerWait)
	if err != nil {
		return nil, err
	}
	return c.openStream(ctx, q, done)
}

// Wait counts one of the client's waits until done is called.
func (c *channels) Wait(ctx context.Context) (done func(), err error) {
	return limits.From(ctx).Wait(1)
}

// OpenCounted is OpenStream for a stream that is part of one of the client's waits.
func (c *channels) OpenCounted(ctx context.Context, q channel.StreamQuery) (streams.Stream, error) {
	for _, from := range q.From {
		if err := c.reserved.read(from.Channel); err != nil {
			return nil, err
		}
	}
	return c.openStream(ctx, q, func() {})
}

// openStream opens a stream. It calls done when the stream ends, or can't be opened.
func (c *channels) openStream(ctx context.Context, q channel.StreamQuery, done func()) (s *stream, err error) {
	s = &stream{
		channels: c, single: len(q.From) == 1, polls: c.players.Polls(q.From), done: done,
	}
	if len(s.polls) > 0 {
		s.leave = make(map[int]func(), len(s.polls))
	}
	for source, id := range s.polls {
		s.leave[source] = c.players.Attend(ctx, id)
	}
	if s.sourceStream, err = c.streams.OpenStream(ctx, q); err != nil {
		s.end()
		return nil, err
	}
	s.checkLater()
	return s, nil
}

// stream is a stream for a client.
type stream struct {
	sourceStream

	channels *channels
	single   bool // it has one source
	polls    delivery.Polls
	checkAt  time.Time         // when it reads the tickets of its players next
	leave    map[int]func()    // end the presence of the players of polls
	dropped  map[int]bool      // sources that were of polls, and have ended
	pending  []channel.Arrival // of Take, for Next
	done     func()
}

// sourceStream is a channel.Stream.
type sourceStream interface {
	streams.Stream
	Drop(source int)
}

// Take is that of channel.Stream. What needs more than to be counted is left to Next.
func (s *stream) Take() (arrivals []channel.Arrival, again time.Time, done bool) {
	if len(s.pending) > 0 {
		return nil, time.Time{}, false
	}
	arrivals, again, done = s.sourceStream.Take()
	if len(s.polls) > 0 {
		again = slices.MinFunc([]time.Time{again, s.checkAt}, time.Time.Compare)
		done = done && time.Now().Before(s.checkAt)
	}
	if len(arrivals) > 0 && (len(s.polls) > 0 || len(s.dropped) > 0 || !allMessages(arrivals)) {
		s.pending = arrivals
		return nil, again, false
	}
	s.channels.counts.delivered.Add(float64(len(arrivals)))
	return arrivals, again, done
}

func allMessages(arrivals []channel.Arrival) bool {
	for i := range arrivals {
		if arrivals[i].Message == nil {
			return false
		}
	}
	return true
}

// Close ends the stream.
func (s *stream) Close() {
	s.sourceStream.Close()
	s.end()
}

func (s *stream) end() {
	for source := range s.polls {
		s.forget(source)
	}
	s.done()
}

// checkInterval is the interval in which a stream reads the tickets of its players, as polls do: a little earlier, at
// random.
const checkInterval = time.Minute

// Next is that of channel.Stream. A message of a ticket that isn't the client's any more is an error, and so is a
// ticket that doesn't exist. It needs little of the stack while it waits.
func (s *stream) Next(ctx context.Context, wait time.Duration) ([]channel.Arrival, error) {
	if arrivals := s.pending; len(arrivals) > 0 {
		s.pending = nil
		return s.taken(ctx, arrivals, nil)
	}
	end := time.Now().Add(wait)
	for {
		arrivals, err := s.sourceStream.Next(ctx, s.untilCheck(wait))
		arrivals, err = s.taken(ctx, arrivals, err)
		if wait = time.Until(end); len(arrivals) > 0 || err != nil || ctx.Err() != nil || wait <= 0 {
			return arrivals, err
		}
	}
}

// untilCheck returns how much of a wait remains until the next check.
func (s *stream) untilCheck(wait time.Duration) time.Duration {
	if len(s.polls) == 0 {
		return wait
	}
	return min(wait, max(0, time.Until(s.checkAt)))
}

// taken checks and counts arrivals.
func (s *stream) taken(ctx context.Context, arrivals []channel.Arrival, err error) ([]channel.Arrival, error) {
	some := arrivals[:0]
	for i := range arrivals {
		a := &arrivals[i]
		if s.dropped[a.Source] {
			continue
		}
		if err := s.recheck(ctx, a); err != nil {
			s.drop(a.Source)
			*a = channel.Arrival{Source: a.Source, Err: err}
		}
		switch {
		case a.Message != nil:
			s.channels.counts.delivered.Inc()
		case a.Gap != nil:
			s.channels.counts.addGap(a.Gap)
		case s.single && a.Closed:
			return some, channel.ErrStreamClosed
		case s.single:
			return some, fmt.Errorf("%w: %w", channel.ErrStreamEmpty, a.Err)
		default: // the source has ended
			s.forget(a.Source)
		}
		some = append(some, *a)
	}
	if err != nil || ctx.Err() != nil || len(s.polls) == 0 || time.Now().Before(s.checkAt) {
		return some, err
	}
	ended, err := s.checkTickets(ctx)
	return append(some, ended...), err
}

// forget ends the presence of a player.
func (s *stream) forget(source int) {
	if leave, ok := s.leave[source]; ok {
		leave()
	}
	delete(s.leave, source)
	delete(s.polls, source)
}

// drop ends a source of a player whose ticket it isn't any more.
func (s *stream) drop(source int) {
	if s.dropped == nil {
		s.dropped = map[int]bool{}
	}
	s.dropped[source] = true
	s.forget(source)
	s.Drop(source)
}

// recheck returns an error for a message of a ticket that isn't the client's any more.
func (s *stream) recheck(ctx context.Context, a *channel.Arrival) error {
	id, ok := s.polls[a.Source]
	if !ok || a.Message == nil {
		return nil
	}
	return s.channels.players.Check(ctx, id)
}

// checkLater sets when the next check is.
func (s *stream) checkLater() {
	earlier := rand.N(checkInterval / 4) //nolint:gosec // chance to spread load, not to keep a secret
	s.checkAt = time.Now().Add(checkInterval - earlier)
}

// checkTickets returns an error for each ticket that doesn't exist any more.
func (s *stream) checkTickets(ctx context.Context) (ended []channel.Arrival, err error) {
	s.checkLater()
	for source, id := range s.polls {
		if _, err := s.channels.players.Redeliver(ctx, id); errors.Is(err, channel.ErrNoSubscriber) {
			s.drop(source)
			ended = append(ended, channel.Arrival{Source: source, Err: err})
		}
	}
	if s.single && len(ended) > 0 {
		return nil, fmt.Errorf("%w: %w", channel.ErrStreamEmpty, ended[0].Err)
	}
	return ended, nil
}
