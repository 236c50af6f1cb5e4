package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// The window of a stream: how many messages of a source it sends that aren't acknowledged.
const (
	DefaultWindow = 256
	MaxWindow     = 1000
	windowBytes   = 4 << 20 // bytes of contents; always one message
)

const (
	streamBytes   = 256 << 10   // of contents that a stream reads at a time, from all of its sources; one message of each
	streamRenewal = time.Minute // how often a stream makes sure that its subscribers live on, at least
	firstRetry    = 250 * time.Millisecond
)

// MaxTails is how many tails a stream may have: each has an entry in every resume token.
const MaxTails = 32

// StreamQuery is the input of OpenStream.
type StreamQuery struct {
	// From is 1 to MaxSources subscribers and tails, MaxTails of them tails at most, no two of the same channel and
	// subscriber, without receipts.
	From   []Source
	Window int // of subscribers; 0: DefaultWindow
	// Resume is a token of an earlier stream from the same sources; empty: none. It is verified in any case. With one that
	// no known key has signed the stream begins without it, and each source with a GapLost.
	Resume string
	// Acknowledge acknowledges what Resume covers. The stream then ends with ErrStreamWindow when a window is full, so
	// that the client resumes.
	Acknowledge bool
	// Ahead begins after what Resume covers, where the mark is behind it, and acknowledges nothing.
	Ahead bool
	// Socket says that it is a subscription of a WebSocket, for Service.Connected.
	Socket bool
	// Ready is called when Take or Next should be called: something may have arrived, or the stream may have ended. It may
	// be called when that isn't so, from any goroutine, while locks are held: it must not block, nor call the stream. With
	// it Next doesn't wait for what arrives: call it with a wait of 0. Without it call only Next.
	Ready func()
}

// Arrival is something that a stream has for its client: a message, a gap or the error of a source.
type Arrival struct {
	Source  int // its index in the query
	Message *Message
	Gap     *Gap
	// Err is why the source has failed, which is no longer part of the stream.
	Err error
	// Closed says that the channel is closed, and that the source, which is no longer part of the stream, has sent all.
	Closed bool
	// Receipt acknowledges everything of the source up to here, and resumes a stream from it. That of a tail only resumes.
	// Empty if a message of the source follows.
	Receipt string
}

// Gap is messages of a source that the stream doesn't have.
type Gap struct {
	Reason GapReason
	Count  uint64 // of messages; 0: it isn't known
}

// GapReason is the reason of a Gap.
type GapReason string

// The reasons of gaps.
const (
	GapExpired GapReason = "expired" // they expired before they were read
	GapLost    GapReason = "lost"    // the storage has lost writes in a fail-over, or the channel began another life
	GapPurged  GapReason = "purged"  // an operator purged them before they were read
	GapDamaged GapReason = "damaged" // their storage is damaged: they can't be read any more
	// an operator has set the mark: messages may be sent again, or left out
	GapMoved GapReason = "moved"
)

// Why a stream has ended. Compare with errors.Is.
var (
	ErrStreamDrained = errors.New("the service drains")
	ErrStreamWindow  = errors.New("a window is full, which the next stream acknowledges")
	ErrStreamEmpty   = errors.New("no source is left")
	ErrStreamClosed  = errors.New("all channels are closed, and everything of them is sent")
)

// Stream sends the messages after the marks of subscribers as they come, without waiting for acknowledgements, and
// those of tails. It moves no mark. It is used by one goroutine at a time, and must be closed.
//
// A tail has no window, and doesn't keep its channel: when that ends, it waits for the next life, from its earliest
// message on. After a fail-over it continues behind the last messages that it has sent, as far as it remembers them.
type Stream struct {
	service     *Service
	waiter      *waiter
	targets     []target
	sources     []streamSource
	at          []Position // up to where each source has arrived
	watch       *markWatch
	window      int
	tails       int
	acknowledge bool
	list        [16]byte // identifies the sources in tokens

	arrivals []Arrival
	returned bool // arrivals: the next call forgets them
	woken    []wakeup
	sequence uint64        // of arrived messages
	opening  bool          // tails are read to find where they begin
	failed   int           // sources, and those that have ended
	ended    int           // of them, those whose channels are closed
	renewal  time.Duration // between polls of all sources
	renewAt  time.Time
	retry    time.Duration // after the next failure
	retryAt  time.Time     // after a failure of the store
}

// OpenStream opens a stream. The error is of the query, or of all sources if all fail. Sources that fail alone are
// arrivals; those that can't be served now are read later. Errors: fault.SlugInvalidSources,
// fault.SlugInvalidChannel, fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy, fault.SlugInvalidMax about the window,
// fault.SlugInvalidFrom and ErrClockAhead about a tail, fault.SlugReceipt… about Resume, ErrNoSubscriber and the store's.
func (s *Service) OpenStream(ctx context.Context, q StreamQuery) (*Stream, error) {
	st := &Stream{service: s, window: q.Window, acknowledge: q.Acknowledge, renewal: streamRenewal}
	receipts, err := st.prepare(ctx, &q)
	if err != nil {
		return nil, err
	}
	st.waiter = newWaiter(s.hub, q.Ready)
	st.watch = s.marks.watch(st.targets, st.waiter.signal)
	s.hub.joinStream(st.waiter, st.targets, q.Socket)
	if err := st.begin(ctx, receipts); err != nil {
		st.Close()
		return nil, err
	}
	if q.Ahead {
		st.skip(receipts)
	}
	return st, nil
}

// Began returns the token for where the tails of the stream have begun, before the first call of Next. It is empty if
// there are none, or if there is a gap, as after a fail-over: a client that resumes then needs an earlier token.
func (s *Stream) Began() string {
	if s.tails == 0 || len(s.arrivals) > 0 ||
		slices.ContainsFunc(s.sources, func(src streamSource) bool { return src.lapsed }) {
		return ""
	}
	return s.Token()
}

// Ended reports, before the first call of Next, whether there is nothing to send: the channels of all sources are closed.
func (s *Stream) Ended() bool { return s.ended == len(s.sources) && len(s.arrivals) == s.ended }

// Close ends the stream.
func (s *Stream) Close() {
	s.waiter.leave()
	s.service.marks.unwatch(s.watch, s.targets)
}

// prepare checks the query. It returns the receipt of each source that Resume has.
func (s *Stream) prepare(ctx context.Context, q *StreamQuery) ([]*receipt.Receipt, error) {
	n := len(q.From)
	if n == 0 || n > MaxSources {
		return nil, invalid(fault.SlugInvalidSources, "/from", "the stream has %d sources, it must have 1 to %d", n,
			MaxSources)
	}
	if i := repeated(q.From); i >= 0 {
		return nil, invalid(fault.SlugInvalidSources, fmt.Sprintf("/from/%d", i),
			"the channel and the subscriber are in the list already")
	}
	if s.window == 0 {
		s.window = DefaultWindow
	}
	if s.window < 1 || s.window > MaxWindow {
		return nil, invalid(fault.SlugInvalidMax, "window", "the window is %d, it must be from 1 to %d", s.window, MaxWindow)
	}
	s.targets, s.sources, s.at = make([]target, n), make([]streamSource, n), make([]Position, n)
	for i := range q.From {
		from := &q.From[i]
		policy, err := s.service.policyOfStream(from)
		if err != nil && n > 1 {
			err = atSource(err, i)
		}
		if err != nil {
			return nil, err
		}
		s.targets[i] = target{channel: from.Channel, subscriber: from.Subscriber}
		s.sources[i] = streamSource{fresh: true, unread: true,
			request: FetchRequest{Channel: from.Channel, Subscriber: from.Subscriber, Policy: policy}}
		if from.Tail != nil {
			s.tails++
			s.sources[i].begin(*from.Tail)
		} else {
			s.renewal = min(s.renewal, policy.TTL/2)
		}
	}
	if s.tails > MaxTails {
		return nil, invalid(fault.SlugInvalidSources, "/from", "the stream has %d tails, it must have at most %d",
			s.tails, MaxTails)
	}
	for i := range s.sources {
		s.sources[i].request.Wait = s.renewal
	}
	if n > 1 {
		s.list = listOf(s.targets)
	}
	for i := range q.From {
		if from := &q.From[i]; from.After != nil && from.Tail != nil {
			s.continueAt(i, from.After.receipt(from.Channel))
			s.sources[i].anything = from.After.Write.IsZero()
		}
	}
	receipts, err := s.resume(ctx, q.Resume)
	for i := range receipts {
		if r := receipts[i]; r != nil && s.sources[i].isTail() {
			receipts[i] = nil
			s.continueAt(i, r)
		}
	}
	return receipts, err
}

// begin waits until the channels are listened to, acknowledges, and reads the positions of the sources.
func (s *Stream) begin(ctx context.Context, receipts []*receipt.Receipt) error {
	timer := time.NewTimer(confirmationTimeout)
	defer timer.Stop()
	s.waiter.awaitConfirmation(ctx, timer, time.Now().Add(confirmationTimeout))
	subscribers, tails := s.which(false), s.which(true)
	s.waiter.prepare(subscribers)
	remaining, failed := s.poll(ctx, subscribers, receipts)
	if len(tails) > 0 {
		s.opening = true
		n, err := s.read(ctx, tails)
		s.opening = false
		remaining, failed = remaining+n, cmp.Or(failed, err)
	}
	s.renewAt = time.Now().Add(spread(s.renewal))
	switch {
	case s.failed == len(s.sources):
		if s.ended > 0 {
			return nil
		}
		return s.arrivals[0].Err
	case s.failed+remaining == len(s.sources):
		return failed
	case failed != nil:
		s.fails(ctx)
	}
	return nil
}

// which returns the indexes of the tails, or of the subscribers, that haven't failed.
func (s *Stream) which(tails bool) []int {
	n := len(s.sources) - s.tails
	if tails {
		n = s.tails
	}
	which := make([]int, 0, n)
	for i := range s.sources {
		if src := &s.sources[i]; !src.failed && src.isTail() == tails {
			which = append(which, i)
		}
	}
	return which
}

// Next returns what has arrived, in order for each source, and waits if there is nothing. It returns nothing when the
// time is over or ctx ends. The arrivals are valid until the next call. Failures of the store don't end a stream: it
// reads again when the store serves. Errors: ErrStreamDrained, ErrStreamWindow, ErrStreamEmpty and, instead of that if
// no source has failed, ErrStreamClosed.
func (s *Stream) Next(ctx context.Context, wait time.Duration) ([]Arrival, error) {
	end := time.Now().Add(wait)
	var timer *time.Timer
	for {
		arrivals, again, done := s.Take()
		if len(arrivals) == 0 && !done {
			if err := s.advance(ctx); err != nil {
				return nil, err
			}
			arrivals = s.take()
		}
		if len(arrivals) > 0 || ctx.Err() != nil || !time.Now().Before(end) {
			return arrivals, nil
		}
		if !done {
			continue
		}
		if timer == nil {
			timer = time.NewTimer(time.Until(earlier(again, end)))
			defer timer.Stop()
		} else {
			timer.Reset(time.Until(earlier(again, end)))
		}
		select {
		case <-s.waiter.ready:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// CaughtUp reports whether nothing follows what was returned, as far as the stream knows: no source has to be read.
func (s *Stream) CaughtUp() bool {
	for i := range s.sources {
		if s.sources[i].isReadable() {
			return false
		}
	}
	return s.returned || len(s.arrivals) == 0
}

// Take returns what has arrived, as Next, but neither waits nor reads from the store. If done, it need not be called
// before again or the next call of Ready. Otherwise Next must be called: something has to be read, or the stream has
// ended.
func (s *Stream) Take() (arrivals []Arrival, again time.Time, done bool) {
	if arrivals := s.take(); len(arrivals) > 0 { // of OpenStream
		return arrivals, time.Time{}, false
	}
	s.takeWoken()
	s.takeMarks()
	now := time.Now()
	if !s.mustAdvance(now) {
		s.rest()
	}
	return s.take(), s.until(now), !s.mustAdvance(now)
}

// take returns the arrivals, and forgets those that it has returned before.
func (s *Stream) take() []Arrival {
	if s.returned {
		clear(s.arrivals) // their messages aren't kept while the stream waits
		s.arrivals, s.returned = s.arrivals[:0], false
		if cap(s.arrivals) > keptArrivals {
			s.arrivals = nil
		}
	}
	s.returned = len(s.arrivals) > 0
	return s.arrivals
}

// keptArrivals is how many entries of an empty list of arrivals stay allocated.
const keptArrivals = 1

// takeWoken takes the wake-ups of the hub.
func (s *Stream) takeWoken() {
	s.woken = s.waiter.takeWoken(s.woken)
	for _, w := range s.woken {
		s.waiter.members[w.target].sleeping = false
		s.wake(w)
	}
	clear(s.woken)
	s.woken = s.woken[:0]
}

// takeMarks takes acknowledgements, and marks that operators have set.
func (s *Stream) takeMarks() {
	for _, m := range s.watch.take() {
		if m.sought {
			s.sources[m.source].seek()
			s.fill(m.source)
		}
		if m.acked.Epoch == s.at[m.source].Epoch && isAhead(m.acked.Clock, s.sources[m.source].mark) {
			s.acknowledged(m.source, m.acked.Clock)
		}
	}
}

// mustAdvance reports whether the stream has to read, or has ended.
func (s *Stream) mustAdvance(now time.Time) bool {
	if s.waiter.isOver() || s.failed == len(s.sources) {
		return true
	}
	if now.Before(s.retryAt) {
		return false
	}
	if !now.Before(s.renewAt) {
		return true
	}
	for i := range s.sources {
		if src := &s.sources[i]; src.isReadable() || src.full && !now.Before(src.checkAt) {
			return true
		}
	}
	return false
}

// rest puts to sleep what is awake, and takes what has arrived meanwhile. A source that can't be read now stays awake:
// it must not end the sleep.
func (s *Stream) rest() {
	for i := range s.sources {
		src, m := &s.sources[i], &s.waiter.members[i]
		for !m.sleeping && !src.full && !src.failed && !src.unread {
			m.write = s.position(i).Write
			if woken, by := m.fallAsleep(s.at[i]); woken {
				s.wake(by)
			}
		}
	}
}

// advance does what is due: it renews, and reads.
func (s *Stream) advance(ctx context.Context) error {
	s.waiter.endSleep()
	s.takeWoken()
	if len(s.arrivals) > 0 {
		return nil
	}
	switch {
	case s.ended == len(s.sources):
		return ErrStreamClosed
	case s.waiter.isOver():
		return ErrStreamDrained
	case s.failed == len(s.sources):
		return ErrStreamEmpty
	}
	now := time.Now()
	if now.Before(s.retryAt) {
		return nil
	}
	if which := s.due(now); len(which) > 0 {
		if _, err := s.poll(ctx, which, nil); err != nil {
			s.fails(ctx)
			return nil
		}
		if s.acknowledge && len(s.arrivals) == 0 && s.isFull() {
			return ErrStreamWindow
		}
	}
	if which := s.readable(); len(which) > 0 {
		if _, err := s.read(ctx, which); err != nil {
			s.fails(ctx)
		} else {
			s.retry = 0
		}
	}
	return nil
}

// until returns when the stream has to do something.
func (s *Stream) until(now time.Time) time.Time {
	if now.Before(s.retryAt) {
		return s.retryAt
	}
	end := s.renewAt
	for i := range s.sources {
		if src := &s.sources[i]; src.full {
			end = earlier(end, src.checkAt)
		}
	}
	return end
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// due returns the sources whose marks must be read: all subscribers to renew them, or those whose window is full.
func (s *Stream) due(now time.Time) (which []int) {
	if !now.Before(s.renewAt) {
		s.renewAt = now.Add(spread(s.renewal))
		for i := range s.sources {
			if src := &s.sources[i]; src.kept && !src.failed {
				src.unread = true
			}
		}
		return s.which(false)
	}
	for i := range s.sources {
		if src := &s.sources[i]; src.full && !now.Before(src.checkAt) {
			which = append(which, i)
		}
	}
	return which
}

func (s *Stream) isFull() bool {
	for i := range s.sources {
		if s.sources[i].full {
			return true
		}
	}
	return false
}

// readable returns the sources that have to be read and have room, or must be renewed.
func (s *Stream) readable() (which []int) {
	for i := range s.sources {
		if s.sources[i].isReadable() {
			which = append(which, i)
		}
	}
	return which
}

// poll reads the marks and the clocks of subscribers, compares the receipts of a token, if there are any, with the
// histories of their channels, and acknowledges them before that if the stream does. It returns how many the store
// can't serve, which have to be read, and its error.
func (s *Stream) poll(ctx context.Context, which []int, receipts []*receipt.Receipt) (remaining int, failed error) {
	if len(which) == 0 {
		return 0, nil
	}
	end, err := s.service.awaitTurn(ctx, len(which))
	if err != nil {
		for _, i := range which {
			s.postpone(i, receipts)
		}
		return len(which), err
	}
	defer end()
	requests := make([]PollRequest, len(which))
	for n, i := range which {
		requests[n].FetchRequest = s.sources[i].request
		switch {
		case receipts == nil:
			requests[n].Last = s.sources[i].resumed
		case s.acknowledge:
			requests[n].Last, requests[n].Receipt = receipts[i], receipts[i]
		default:
			requests[n].Last = receipts[i]
		}
	}
	for n, r := range aside(func() []PollResult { return s.service.store.Poll(ctx, requests) }) {
		i := which[n]
		s.sources[i].checkAt = time.Now().Add(spread(s.service.hub.limits.Backstop))
		switch {
		case r.Err == nil:
			s.service.marks.acknowledged(requests[n].Receipt)
			s.sources[i].lapsed, s.sources[i].resumed = s.sources[i].lapsed || r.Lost, nil
			s.found(i, &r)
		case isOfHistory(r.Err):
			s.sources[i].lapsed, s.sources[i].unread = true, true // the stream begins at the mark
		case unserved(r.Err):
			remaining, failed = remaining+1, r.Err
			s.postpone(i, receipts)
		default:
			s.fail(i, r.Err)
		}
	}
	return remaining, failed
}

// postpone marks a source that can't be polled now to be read; its receipt, if it has one, is compared by the read.
func (s *Stream) postpone(i int, receipts []*receipt.Receipt) {
	if s.sources[i].unread = true; receipts != nil {
		s.sources[i].resumed = receipts[i]
	}
}

// isOfHistory reports whether an error is of a receipt of a history that the channel doesn't have.
func isOfHistory(err error) bool {
	return errors.Is(err, ErrReceiptEpoch) || errors.Is(err, ErrReceiptAhead) || errors.Is(err, ErrReceiptSuperseded)
}

// found takes the result of a poll.
func (s *Stream) found(i int, r *PollResult) {
	src := &s.sources[i]
	src.renew = src.renew || r.Due || src.full && s.waiter.members[i].isStale()
	if src.fresh {
		src.fresh, src.unread, src.mark, s.at[i] = false, false, r.Mark, Position{Epoch: r.Epoch, Clock: r.Mark}
	}
	if r.Epoch == s.at[i].Epoch {
		s.acknowledged(i, r.Mark)
	}
	src.unread = src.unread || src.lapsed || src.moved || r.Epoch != s.at[i].Epoch || r.Clock != s.at[i].Clock
	if r.Closed && !src.unread {
		s.end(i)
	}
}

// read reads sources after their positions, and adds what they have to the arrivals. It returns how many the store
// can't serve, and its error.
func (s *Stream) read(ctx context.Context, which []int) (remaining int, failed error) {
	end, err := s.service.awaitTurn(ctx, len(which))
	if err != nil {
		return len(which), err
	}
	defer end()
	s.waiter.prepare(which)
	requests, after := make([]FetchRequest, len(which)), make([]receipt.Receipt, len(which))
	for n, i := range which {
		src, r := &s.sources[i], &requests[n]
		*r = src.request
		r.Identify = true
		r.Max, r.MaxBytes = s.service.configured.Load().limits.DefaultMax, streamBytes/len(which)
		if !src.isTail() {
			r.Max, r.MaxBytes = min(r.Max, s.window-len(src.sent)), min(r.MaxBytes, windowBytes-src.bytes)
		}
		r.Max, r.MaxBytes = max(1, r.Max), max(1, r.MaxBytes)
		if s.opening { // nothing has arrived that the token for the beginning would cover
			r.Max = 0
		}
		switch {
		case !src.fresh:
			after[n], r.After, r.Anything = s.position(i), &after[n], src.anything
		case src.resumed != nil:
			r.After, r.FromMark = src.resumed, true
		}
	}
	for n, r := range aside(func() []BatchResult { return s.fetch(ctx, requests) }) {
		switch i := which[n]; {
		case r.Err == nil:
			s.accept(i, &r.Batch)
		case errors.Is(r.Err, ErrNoChannel):
			s.lapse(i)
		case unserved(r.Err), isLimit(r.Err):
			remaining, failed = remaining+1, r.Err
		default:
			s.fail(i, r.Err)
		}
	}
	return remaining, failed
}

// isLimit reports whether an error is of a limit of the client's, such as that of answers that it hasn't read.
func isLimit(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.Limited
}

func (s *Stream) fetch(ctx context.Context, requests []FetchRequest) []BatchResult {
	if len(requests) > 1 {
		return s.service.store.FetchEach(ctx, requests)
	}
	b, err := s.service.store.Fetch(ctx, requests[0])
	return []BatchResult{{Batch: b, Err: err}}
}

// aside returns the result of a call on a goroutine of its own. The stack of a goroutine grows with its deepest call, and
// that of a stream, or of a fetch that waits, is then kept for long.
func aside[T any](call func() T) (result T) {
	var failed error
	var task sync.WaitGroup
	task.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				failed = fmt.Errorf("%v\n%s", p, debug.Stack())
			}
		}()
		result = call()
	})
	if task.Wait(); failed != nil {
		panic(failed)
	}
	return result
}

// fails delays the next reads after a failure of the store.
func (s *Stream) fails(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	s.retry = min(max(2*s.retry, firstRetry), retryRead)
	s.retryAt = time.Now().Add(spread(s.retry))
}

// wake takes a wake-up of the hub.
func (s *Stream) wake(w wakeup) {
	switch src := &s.sources[w.target]; {
	case w.closed && !src.full && !src.unread && !src.failed:
		s.end(w.target)
	case w.message == nil:
		src.unread = true
	case !src.full && !src.unread && !src.failed:
		s.deliver(w.target, w.message)
	}
}

func (s *Stream) add(a Arrival) { s.arrivals = append(s.arrivals, a) }

// end ends a source whose channel is closed, and that has sent everything.
func (s *Stream) end(i int) {
	s.Drop(i)
	s.ended++
	s.add(Arrival{Source: i, Closed: true, Receipt: s.receipt(i)})
}

// fail ends a source.
func (s *Stream) fail(i int, err error) {
	src := &s.sources[i]
	s.Drop(i)
	s.add(Arrival{Source: i, Err: fmt.Errorf("stream %s/%s: %w", src.request.Channel, src.request.Subscriber, err)})
}

// Drop removes a source from the stream, which fails for a reason of the caller's: nothing of it arrives any more.
func (s *Stream) Drop(source int) {
	if src := &s.sources[source]; !src.failed {
		src.failed, src.full, src.renew = true, false, false
		s.failed++
	}
}

// position returns the receipt for everything that has arrived from a source. That of a channel that doesn't exist has
// no epoch.
func (s *Stream) position(i int) receipt.Receipt {
	at, src := s.at[i], &s.sources[i]
	if at == noChannel {
		at = Position{}
	}
	return receiptFor(&src.request, at, &src.last)
}

// receipt returns the handle for everything that has arrived from a source.
func (s *Stream) receipt(i int) string { return s.service.receipts.Sign(s.position(i)) }

// isAhead reports whether a clock is ahead of another one.
func isAhead(c, of clock.Clock) bool { return !clock.Behind(c, of) }
