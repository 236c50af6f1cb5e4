package channel

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// streaming is a stream whose arrivals are collected by a goroutine of its own.
type streaming struct {
	service *Service
	stream  *Stream
	stop    func()
	mu      sync.Mutex
	got     []string // IDs of messages, and gaps and errors as text
	all     []Arrival
	tokens  []string // after each of all
	err     error    // of Next; nil while it runs
	ended   chan struct{}
}

func openStream(ctx context.Context, t require.TestingT, s *Service, q StreamQuery) *streaming {
	if q.From == nil {
		q.From = []Source{{Channel: "ch", Subscriber: "s"}}
	}
	st, err := s.OpenStream(ctx, q)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	started := &streaming{service: s, stream: st, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(started.ended)
		defer st.Close()
		for ctx.Err() == nil {
			arrivals, err := st.Next(ctx, 15*time.Second)
			started.collect(st, arrivals, err)
			if err != nil {
				return
			}
		}
	}()
	synctest.Wait()
	return started
}

func (s *streaming) collect(st *Stream, arrivals []Arrival, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for _, a := range arrivals {
		switch {
		case a.Gap != nil:
			s.got = append(s.got, fmt.Sprintf("%s %d", a.Gap.Reason, a.Gap.Count))
		case a.Err != nil:
			s.got = append(s.got, a.Err.Error())
		case a.Closed:
			s.got = append(s.got, "closed")
		default:
			s.got = append(s.got, a.Message.ID)
		}
		s.all, s.tokens = append(s.all, a), append(s.tokens, st.Token())
	}
}

// collected returns what has arrived since the last call.
func (s *streaming) collected() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// tokenNow returns the stream's token while it waits.
func (s *streaming) tokenNow() string {
	synctest.Wait()
	return s.stream.Token()
}

func (s *streaming) last() Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[len(s.all)-1]
}

// ack acknowledges what has arrived by way of the service.
func (s *streaming) ack(t *testing.T) {
	t.Helper()
	require.NoError(t, s.service.Ack(t.Context(), "ch", "s", s.last().Receipt))
	synctest.Wait()
}

func (s *streaming) close() {
	s.stop()
	<-s.ended
}

// onStream runs a test of a stream in a bubble, with a service on a world that is connected.
func onStream(t *testing.T, test func(t *testing.T, s *Service, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.Backstop = 5 * time.Second
		s, w := runningService(t, limits)
		w.marks["s"] = 0
		w.connected = true
		test(t, s, w)
		w.settle()
	})
}

func TestStreamsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits())
	handle := func(name, subscriber string) string {
		return s.receipts.Sign(receipt.Receipt{Channel: name, Subscriber: subscriber})
	}
	for _, tt := range []struct {
		query StreamQuery
		slug  fault.Slug
		field string
	}{
		{StreamQuery{}, fault.SlugInvalidSources, "/from"},
		{StreamQuery{From: sources(257)}, fault.SlugInvalidSources, "/from"},
		{StreamQuery{From: append(sources(3), sources(2)[1])}, fault.SlugInvalidSources, "/from/3"},
		{StreamQuery{From: append(sources(1), Source{Channel: "{", Subscriber: "s"})}, fault.SlugInvalidChannel,
			"/from/1/channel"},
		{StreamQuery{From: []Source{{Channel: "{", Subscriber: "s"}}}, fault.SlugInvalidChannel, "channel"},
		{StreamQuery{From: sources(1), Window: -1}, fault.SlugInvalidMax, "window"},
		{StreamQuery{From: sources(1), Window: 1001}, fault.SlugInvalidMax, "window"},
		{StreamQuery{From: sources(1), Resume: handle("ch1", "s")}, fault.SlugReceiptChannel, "lastEventId"},
		{StreamQuery{From: sources(1), Resume: handle("ch0", "x")}, fault.SlugReceiptSubscriber, "lastEventId"},
		{StreamQuery{From: sources(2), Resume: handle("ch0", "s")}, fault.SlugReceiptChannel, "lastEventId"},
	} {
		_, err := s.OpenStream(t.Context(), tt.query)
		require.Equal(t, tt.field, requireError(t, err, fault.Invalid, tt.slug).Field, "%+v", tt)
	}
}

// A message whose notification has it needs no read, however many come while the client is slow.
func TestStreamReadsNothingTwice(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.publish("a", false)
		st := openStream(t.Context(), t, s, StreamQuery{})
		defer st.close()
		require.Equal(t, []string{"a"}, st.collected())
		fetches, _ := w.counts()
		for i := range 40 {
			w.publish(fmt.Sprint(i), false)
			if i%3 == 0 {
				w.settle()
			}
		}
		w.settle()
		require.Len(t, st.collected(), 40)
		again, _ := w.counts()
		require.Equal(t, fetches, again)
		require.Equal(t, clock.Clock(0), w.snapshot().marks["s"], "it moves nothing")
		waiters, channels := s.Waiting()
		require.Equal(t, [2]int{0, 1}, [2]int{waiters, channels}, "a stream isn't a waiting fetch")

		w.publish("large", true)
		w.settle()
		require.Equal(t, []string{"large"}, st.collected())
		again, polls := w.counts()
		require.Equal(t, fetches+1, again)
		require.Equal(t, 1, polls, "the mark was read when it was opened")
		requireReceipt(t, s, &receipt.Receipt{Clock: 42, MessageID: "large"}, st.last().Receipt)
	})
}

// The messages that arrive while the client doesn't read are kept for it.
func TestStreamOfASlowClient(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		st, err := s.OpenStream(t.Context(), StreamQuery{From: []Source{{Channel: "ch", Subscriber: "s"}}})
		require.NoError(t, err)
		defer st.Close()
		next := func() (ids []string) {
			arrivals, err := st.Next(t.Context(), time.Second)
			require.NoError(t, err)
			for _, a := range arrivals {
				ids = append(ids, a.Message.ID)
			}
			return ids
		}
		w.settle()
		require.Empty(t, next())
		for n, fetches := range map[int]int{1: 0, 2: 0, recentUpdates + 1: 0, recentUpdates + 2: 1} {
			before, _ := w.counts()
			for i := range n {
				w.publish(fmt.Sprint(i), false)
			}
			w.settle()
			var all []string
			for arrived := next(); len(arrived) > 0; arrived = next() {
				all = append(all, arrived...)
			}
			require.Len(t, all, n)
			after, _ := w.counts()
			require.Equal(t, fetches, after-before, "%d messages", n)
		}
	})
}

func TestStreamWindow(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{Window: 2})
		defer st.close()
		var all []Message
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			all = append(all, w.publish(id, false))
		}
		w.settle()
		require.Equal(t, []string{"a", "b"}, st.collected())
		began := time.Now()
		st.ack(t) // wakes it at once
		require.Equal(t, []string{"c", "d"}, st.collected())
		require.Zero(t, time.Since(began))

		m := AckRequest{Receipt: receipt.Receipt{Subscriber: "s", Epoch: life1, Clock: 3, MessageID: "c", Write: all[2].Write}}
		require.NoError(t, w.Ack(t.Context(), m), "by way of another server")
		require.Empty(t, st.collected())
		pass(5 * time.Second)
		require.Equal(t, []string{"e"}, st.collected())
		st.ack(t)
		require.Equal(t, []string{"f"}, st.collected())
		require.NoError(t, st.service.Ack(t.Context(), "ch", "s", st.all[0].Receipt), "again, and out of order")
		require.Empty(t, st.collected())
	})
}

// With ack=resume a full window ends the stream, and the next one acknowledges.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.publish(id, false)
		}
		st := openStream(t.Context(), t, s, StreamQuery{Window: 2, Acknowledge: true})
		require.Equal(t, []string{"a", "b"}, st.collected())
		<-st.ended
		require.ErrorIs(t, st.err, ErrStreamWindow)

		manual := openStream(t.Context(), t, s, StreamQuery{Resume: st.tokens[1]})
		require.Equal(t, []string{"a", "b", "c"}, manual.collected(), "nothing is acknowledged")
		manual.close()
		ahead := openStream(t.Context(), t, s, StreamQuery{Resume: st.tokens[1], Ahead: true})
		require.Equal(t, []string{"c"}, ahead.collected())
		ahead.close()
		require.Zero(t, w.marks["s"], "still")
		again := openStream(t.Context(), t, s, StreamQuery{Resume: st.tokens[1], Acknowledge: true})
		require.Equal(t, []string{"c"}, again.collected())
		require.Equal(t, clock.Clock(2), w.snapshot().marks["s"])
		again.close()
		behind := openStream(t.Context(), t, s, StreamQuery{Resume: st.tokens[0], Ahead: true})
		require.Equal(t, []string{"c"}, behind.collected(), "the mark has passed it")
		behind.close()

		w.restart(life2)
		w.publish("x", false)
		other := openStream(t.Context(), t, s, StreamQuery{Resume: st.tokens[1], Acknowledge: true})
		require.Equal(t, []string{"lost 0", "x"}, other.collected(), "a token of an earlier life")
		other.close()
		ahead = openStream(t.Context(), t, s, StreamQuery{Resume: st.tokens[1], Ahead: true})
		require.Equal(t, []string{"lost 0", "x"}, ahead.collected())
		ahead.close()
	})
}

// The gap for a lost history has a receipt if no message follows: the client resumes without another one.
func TestStreamResumesALostHistory(t *testing.T) {
	t.Parallel()
	for _, q := range []StreamQuery{{Acknowledge: true}, {Ahead: true}} {
		onStream(t, func(t *testing.T, s *Service, w *world) {
			st := openStream(t.Context(), t, s, StreamQuery{})
			w.publish("a", false)
			w.settle()
			require.Equal(t, []string{"a"}, st.collected())
			st.close()
			w.restart(life2)
			q.Resume = st.last().Receipt
			w.change(func() { w.broken = true })
			st = openStream(t.Context(), t, s, q)
			pass(2 * streamRenewal)
			require.Empty(t, st.collected())
			w.change(func() { w.broken = false })
			pass(retryRead * 2)
			require.Equal(t, []string{"lost 0"}, st.collected())
			at, err := s.receipts.Verify(st.last().Receipt, "ch", "s")
			require.NoError(t, err)
			require.Equal(t, receipt.Receipt{Channel: "ch", Subscriber: "s", Epoch: life2}, at)
			st.close()

			q.Resume = st.last().Receipt
			again := openStream(t.Context(), t, s, q)
			require.Empty(t, again.collected())
			w.connect()
			w.publish("b", false)
			w.settle()
			require.Equal(t, []string{"b"}, again.collected())
			again.close()
		})
	}
}

// A stream with tails has no token for its beginning while a gap is ahead, which a reconnect would not show again.
func TestStreamBeginsBeforeAGap(t *testing.T) {
	t.Parallel()
	for _, q := range []StreamQuery{{Acknowledge: true}, {Ahead: true}} {
		onStream(t, func(t *testing.T, s *Service, w *world) {
			q.From = append(tailOf(From{}), Source{Channel: "ch", Subscriber: "s"})
			st := openStream(t.Context(), t, s, q)
			w.publish("a", false)
			w.settle()
			require.Len(t, st.collected(), 2)
			st.close()
			w.restart(life2)
			w.change(func() { w.broken = true })
			q.Resume = st.tokens[1]
			again, err := s.OpenStream(t.Context(), q)
			require.NoError(t, err)
			require.Empty(t, again.Began())
			again.Close()
		})
	}
}

func TestStreamGaps(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{})
		defer st.close()
		w.publish("a", false)
		w.settle()
		w.replicate()
		require.Equal(t, []string{"a"}, st.collected())
		w.disconnect(0)
		for _, id := range []string{"b", "c", "d"} {
			w.publish(id, false)
		}
		w.change(func() {
			delete(w.messages, 2)
			delete(w.messages, 3)
		})
		w.connect()
		w.settle()
		require.Equal(t, []string{"expired 2", "d"}, st.collected())
		w.publish("e", false)
		w.change(func() { delete(w.messages, 5) })
		w.disconnect(0)
		w.connect()
		w.settle()
		require.Equal(t, []string{"expired 1"}, st.collected())
		requireReceipt(t, s, &receipt.Receipt{Clock: 5}, st.last().Receipt)

		w.failOver()
		for _, id := range []string{"x", "y"} {
			w.publish(id, false)
		}
		w.connect()
		w.settle()
		require.Equal(t, []string{"lost 0", "x", "y"}, st.collected(), "and not a, which it has sent")
		w.restart(life2)
		w.publish("z", false)
		w.settle()
		require.Equal(t, []string{"lost 0", "z"}, st.collected())
	})
}

// An operator restores an older state of a channel's keys while a stream listens: no connection breaks.
func TestStreamOnAChannelThatIsRestored(t *testing.T) {
	t.Parallel()
	for _, awake := range []bool{false, true} {
		onStream(t, func(t *testing.T, s *Service, w *world) {
			w.publish("a", false)
			w.replicate()
			w.publish("b", false)
			w.change(func() { w.queue = nil }) // nobody listens yet
			st := openStream(t.Context(), t, s, StreamQuery{})
			defer st.close()
			tail := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{})})
			defer tail.close()
			require.Equal(t, []string{"a", "b"}, st.collected())
			if awake {
				w.hold()
			}
			w.change(func() { w.state = w.replica.clone() })
			for _, id := range []string{"x", "y"} {
				w.publish(id, false)
			}
			w.settle()
			require.Equal(t, []string{"lost 0", "x", "y"}, st.collected(), "and not a, which it has sent")
			require.Equal(t, []string{"lost 0", "y"}, tail.collected())
		})
	}
}

// A client that reconnects is told that the history that it knows was lost, whatever it acknowledges, and once.
func TestStreamThatReconnectsAfterALoss(t *testing.T) {
	t.Parallel()
	for _, query := range []StreamQuery{{}, {Acknowledge: true}, {Ahead: true}} {
		for _, broken := range []bool{false, true} { // when it reconnects
			q := query
			onStream(t, func(t *testing.T, s *Service, w *world) {
				st := openStream(t.Context(), t, s, q)
				w.replicate()
				w.publish("x", false)
				w.publish("y", false)
				w.settle()
				require.Equal(t, []string{"x", "y"}, st.collected())
				st.ack(t)
				q.Resume = st.last().Receipt
				st.close()
				again := openStream(t.Context(), t, s, q)
				w.settle()
				require.Empty(t, again.collected(), "nothing was lost")
				again.close()

				w.failOver()
				w.publish("z", false)
				w.publish("y", false)
				w.connect()
				w.settle()
				if broken {
					w.change(func() { w.broken = true })
					time.AfterFunc(time.Second, func() { w.change(func() { w.broken = false }) })
				}
				again = openStream(t.Context(), t, s, q)
				defer again.close()
				pass(5 * time.Second)
				require.Equal(t, []string{"lost 0", "z", "y"}, again.collected())
			})
		}
	}
}

// A publisher repeats a message that a fail-over has lost, after one of another publisher, so that it has its clock
// again. The subscriber gets it again, with a receipt for the new write, even if its window is full. The tail doesn't.
func TestStreamAfterALostWriteIsRepeated(t *testing.T) {
	t.Parallel()
	for _, window := range []int{0, 2} {
		onStream(t, func(t *testing.T, s *Service, w *world) {
			st := openStream(t.Context(), t, s, StreamQuery{Window: window})
			defer st.close()
			tail := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{})})
			defer tail.close()
			w.replicate()
			w.publish("x", false)
			w.publish("y", false)
			w.settle()
			require.Equal(t, []string{"x", "y"}, st.collected())
			require.Equal(t, []string{"x", "y"}, tail.collected())
			lost := st.last().Receipt

			w.failOver()
			w.publish("z", false)
			w.publish("y", false)
			w.connect()
			w.settle()
			pass(5 * time.Second)
			require.ErrorIs(t, s.Ack(t.Context(), "ch", "s", lost), ErrReceiptSuperseded)
			require.Equal(t, []string{"lost 0", "z", "y"}, st.collected())
			require.Equal(t, []string{"lost 0", "z"}, tail.collected())
			st.ack(t)
			require.Equal(t, clock.Clock(2), w.snapshot().marks["s"])
		})
	}
}

func TestStreamEnds(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		_, err := s.OpenStream(t.Context(), StreamQuery{From: []Source{{Channel: "ch", Subscriber: "nobody"}}})
		require.ErrorIs(t, err, ErrNoSubscriber)
		st := openStream(t.Context(), t, s, StreamQuery{})
		w.settle()
		require.NoError(t, s.Unsubscribe(t.Context(), "ch", "s", AnyLife))
		w.settle()
		<-st.ended
		require.ErrorIs(t, st.all[0].Err, ErrNoSubscriber)
		require.ErrorIs(t, st.err, ErrStreamEmpty)

		w.change(func() { w.marks["s"] = 0 })
		w.publish("a", false)
		drained := openStream(t.Context(), t, s, StreamQuery{})
		full := openStream(t.Context(), t, s, StreamQuery{Window: 1})
		require.Equal(t, []string{"a"}, full.collected())
		began := time.Now()
		s.Drain()
		for _, st := range []*streaming{drained, full} {
			<-st.ended
			require.ErrorIs(t, st.err, ErrStreamDrained)
		}
		require.Zero(t, time.Since(began))
		late := openStream(t.Context(), t, s, StreamQuery{})
		<-late.ended
		require.ErrorIs(t, late.err, ErrStreamDrained)
		require.Empty(t, s.marks.watching)
	})
}

// A stream outlives failures of the store, and is renewed while it is idle.
func TestStreamSurvives(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{})
		defer st.close()
		w.settle()
		w.change(func() { w.broken = true })
		w.publish("a", true)
		w.settle()
		require.Empty(t, st.collected())
		before, _ := w.counts()
		pass(time.Minute)
		fetches, _ := w.counts()
		require.Less(t, fetches-before, 30, "it doesn't repeat too often")
		w.change(func() { w.broken = false })
		pass(5 * time.Second)
		require.Equal(t, []string{"a"}, st.collected())
		before, polled := w.counts()
		w.change(func() { w.due = true })
		pass(10 * time.Minute)
		fetches, polls := w.counts()
		require.InDelta(t, 11, polls-polled, 3)
		require.Equal(t, polls-polled, fetches-before, "each of which has found that it must be renewed")
		w.change(func() { require.Equal(t, time.Minute, w.wait) })
	})
}

// A source that a limit of the client's refuses is read later.
func TestStreamAtALimit(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.marks["other"] = 0
		st := openStream(t.Context(), t, s, StreamQuery{From: []Source{{Channel: "ch", Subscriber: "s"},
			{Channel: "ch", Subscriber: "other"}}})
		defer st.close()
		w.change(func() { w.limited = "other" })
		w.publish("a", true)
		w.settle()
		require.Equal(t, []string{"a"}, st.collected())
		w.change(func() { w.limited = "" })
		pass(5 * time.Second)
		require.Equal(t, []string{"a"}, st.collected())
		require.Equal(t, 1, st.last().Source)
	})
}

// Many sources share one token, which has those with messages that aren't acknowledged.
func TestStreamOfMany(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		from := make([]Source, 256)
		for i := range from {
			from[i] = Source{Channel: "ch", Subscriber: fmt.Sprint("s", i)}
			w.marks[from[i].Subscriber] = 0
		}
		delete(w.marks, "s7")
		st := openStream(t.Context(), t, s, StreamQuery{From: from})
		w.publish("a", false)
		w.settle()
		require.Len(t, st.collected(), 256)
		require.ErrorIs(t, st.all[0].Err, ErrNoSubscriber)
		require.Equal(t, 7, st.all[0].Source)
		token := st.tokens[255]
		require.Greater(t, len(token), maxTokenBytes/2)
		require.LessOrEqual(t, len(token), maxTokenBytes)
		st.close()

		again := openStream(t.Context(), t, s, StreamQuery{From: from, Resume: token, Acknowledge: true})
		defer again.close()
		moved := 0
		for _, mark := range w.snapshot().marks {
			moved += int(mark)
		}
		require.Greater(t, moved, 30)
		require.Len(t, again.collected(), 256-moved, "the rest is sent again")

		from[0], from[1] = from[1], from[0]
		for _, from := range [][]Source{from, {{Channel: "ch", Subscriber: "s1"}}} {
			_, err := s.OpenStream(t.Context(), StreamQuery{From: from, Resume: token})
			requireError(t, err, fault.Invalid, fault.SlugReceiptChannel)
		}
	})
}

// TestStreamResumesWithoutKey: a resume token that no known key has signed is no error. The stream begins at the marks,
// or where its tails begin, with a gap, and acknowledges nothing.
func TestStreamResumesWithoutKey(t *testing.T) {
	t.Parallel()
	single, several := []Source{{Channel: "ch", Subscriber: "s"}}, []Source{{Channel: "ch", Subscriber: "s"},
		{Channel: "ch", Tail: &From{Start: StartAt, Clock: 2}}}
	for name, tt := range map[string]struct {
		query StreamQuery
		want  []string
	}{
		"manual":       {StreamQuery{From: single}, []string{"lost 0", "b", "c"}},
		"acknowledged": {StreamQuery{From: single, Acknowledge: true}, []string{"lost 0", "b", "c"}},
		"ahead":        {StreamQuery{From: single, Ahead: true}, []string{"lost 0", "b", "c"}},
		"many":         {StreamQuery{From: several, Acknowledge: true}, []string{"lost 0", "b", "c", "lost 0", "c"}},
		"latest":       {StreamQuery{From: tailOf(From{})}, []string{"lost 0"}},
		"earliest":     {StreamQuery{From: tailOf(From{Start: StartEarliest})}, []string{"lost 0", "a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStream(t, func(t *testing.T, s *Service, w *world) {
				w.publish("a", false)
				w.marks["s"] = 1
				st := openStream(t.Context(), t, s, tt.query)
				w.publish("b", false)
				w.publish("c", false)
				w.settle()
				st.collected()
				token := []byte(st.tokenNow())
				st.close()
				forged := bytes.Clone(token)
				forged[len(forged)/2] = map[bool]byte{true: 'B', false: 'A'}[forged[len(forged)/2] == 'A']
				for _, unknown := range []string{string(forged), string(token[:len(token)-4]), "x", "42", "AQ",
					strings.Repeat("A", 4000), "AQ" + strings.Repeat("A", 100), "\x00"} {
					q := tt.query
					q.Resume = unknown
					again := openStream(t.Context(), t, s, q)
					require.ElementsMatch(t, tt.want, again.collected(), unknown)
					q.Resume, q.Acknowledge = again.tokenNow(), false
					again.close()
					again = openStream(t.Context(), t, s, q)
					require.NotContains(t, again.collected(), "lost 0", "reported once")
					again.close()
				}
				require.EqualValues(t, 1, w.snapshot().marks["s"])
			})
		})
	}
}

// TestStreamLosesNothing makes random calls. All messages that are alive arrive, in order, and none twice as long as no
// fail-over has taken back an acknowledgement; those that expired are counted.
func TestStreamLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inside := struct{ rapid.TB }{t}
		rapid.Check(inside, func(t *rapid.T) {
			g := newGame(t)
			stop := runService(t.Context(), t, g.service)
			w := g.world
			w.marks["s"], w.slow = w.now.Clock, false
			w.replicate()
			st := openStream(t.Context(), t, g.service, StreamQuery{Window: rapid.IntRange(1, 5).Draw(t, "window")})
			defer func() {
				st.close()
				w.settle()
				stop()
				synctest.Wait()
			}()
			failing, failedOver, published := rapid.Bool().Draw(t, "failing"), false, 0
			publish := func(t *rapid.T) {
				published++
				w.publish(fmt.Sprint("m", published), rapid.Bool().Draw(t, "large"))
			}
			ack := func(t *rapid.T) {
				if arrived := st.messages(w); len(arrived) > 0 {
					require.NoError(t, g.service.Ack(t.Context(), "ch", "s",
						rapid.SampledFrom(arrived).Draw(t, "acked").Receipt))
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"publish": publish, "publish too": publish, "ack": ack, "ack too": ack,
				"expire": func(t *rapid.T) {
					if failing { // a position after expired messages has no message ID by which a fail-over is noticed
						t.Skip()
					}
					w.expireOldest()
				},
				"disconnect": g.disconnect, "connect": func(*rapid.T) { w.connect() },
				"deliver": func(*rapid.T) { w.deliverAny() },
				"hold":    func(*rapid.T) { w.hold() },
				"answer":  func(*rapid.T) { w.answerAny() },
				"replicate": func(*rapid.T) {
					w.replicate()
				},
				"fail over": func(t *rapid.T) {
					if failedOver = failedOver || failing; !failing {
						t.Skip()
					}
					w.failOver()
				},
				"pass": func(*rapid.T) { pass(time.Second) },
				"":     func(*rapid.T) { synctest.Wait() },
			})
			w.connect()
			for range 2 * (published + 2) {
				w.settle()
				pass(10 * time.Second)
				if arrived := st.messages(w); len(arrived) > 0 {
					require.NoError(t, g.service.Ack(t.Context(), "ch", "s", arrived[len(arrived)-1].Receipt))
				}
			}
			st.check(t, w, failedOver, published)
		})
	})
}

// messages returns the messages that have arrived and that the world hasn't lost. The world takes a receipt of a lost
// message for one of an expired message that got its clock, which a store with dedup records doesn't.
func (s *streaming) messages(w *world) (all []Arrival) {
	log := w.snapshot().log
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if a.Message != nil && log[in1(a.Message.Clock)] == a.Message.ID {
			all = append(all, a)
		}
	}
	return all
}

// check compares what has arrived with what was published.
func (s *streaming) check(t *rapid.T, w *world, failedOver bool, published int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, expired := map[string]int{}, uint64(0)
	for _, a := range s.all {
		switch {
		case a.Message != nil:
			seen[a.Message.ID]++
		case a.Gap.Reason == GapExpired:
			expired += a.Gap.Count
		default:
			require.True(t, failedOver, "messages are lost by a fail-over only")
		}
	}
	for _, m := range w.snapshot().messages {
		require.Positive(t, seen[m.ID], "%s is alive, and must have arrived: %v", m.ID, s.got)
	}
	if failedOver {
		return
	}
	for id, times := range seen {
		require.Equal(t, 1, times, "%s arrived twice", id)
	}
	require.Equal(t, published, len(seen)+int(expired), "each message arrived, or is counted as expired: %v", s.got)
}
