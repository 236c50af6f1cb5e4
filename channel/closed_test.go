package channel

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
)

// onClosing runs a test in a bubble, with a service on a world that is connected and has the subscribers s, a and b.
func onClosing(t *testing.T, test func(t *testing.T, s *Service, w *world)) {
	t.Helper()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.marks["a"], w.marks["b"] = 0, 0
		test(t, s, w)
	})
}

// A fetch that waits ends with its channel, without another read, and one of a channel that is closed doesn't wait. What
// is left to read comes first.
func TestFetchOfAClosedChannel(t *testing.T) {
	t.Parallel()
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		waits := poll(t.Context(), s, "s", "")
		fetches, _ := w.counts()
		w.end("")
		w.settle()
		require.Equal(t, polled{Delivery: Delivery{Closed: true}}, <-waits)
		require.Equal(t, polled{Delivery: Delivery{Closed: true}}, <-poll(t.Context(), s, "s", ""))
		again, _ := w.counts()
		require.Equal(t, 1, again-fetches, "only that of the second")
	})
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		waits := poll(t.Context(), s, "s", "")
		w.publish("m1", false)
		w.end("m2")
		first, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: "a", Max: 1})
		require.NoError(t, err)
		require.Equal(t, []any{true, false}, []any{first.More, first.Closed})
		rest, err := s.Next(t.Context(), Query{Channel: "ch", Subscriber: "a", Wait: time.Minute}, first.Receipt)
		require.NoError(t, err)
		require.Equal(t, []any{"m2", false, true}, []any{rest.Messages[0].ID, rest.More, rest.Closed})
		w.settle()
		got := <-waits
		require.Equal(t, "m1", got.Messages[0].ID)
		require.False(t, got.Closed, "the end came after it")
		got = <-poll(t.Context(), s, "s", got.Receipt)
		require.Equal(t, "m2", got.Messages[0].ID)
		require.True(t, got.Closed)
		got = <-poll(t.Context(), s, "s", got.Receipt)
		require.Empty(t, got.Messages)
		require.True(t, got.Closed)
	})
}

// The backstop finds the end whose notification is lost.
func TestFetchThatMissesTheEnd(t *testing.T) {
	t.Parallel()
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		waits := poll(t.Context(), s, "s", "")
		many := manyPoll(t.Context(), s, 0, Source{Channel: "ch", Subscriber: "a"}, Source{Channel: "ch", Subscriber: "b"})
		st := openStream(t.Context(), t, s, StreamQuery{})
		tail := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{})})
		fetches, polls := w.counts()
		w.disconnect(0)
		w.end("")
		pass(time.Second)
		require.Empty(t, waits)
		pass(10 * time.Second)
		require.True(t, (<-waits).Closed)
		require.Len(t, (<-many).Found, 2)
		for _, s := range []*streaming{st, tail} {
			require.Equal(t, []string{"closed"}, s.collected())
			<-s.ended
		}
		again, polled := w.counts()
		require.Equal(t, [2]int{fetches, polls}, [2]int{again, polled}, "the read of the clock was enough")
	})
}

// A fetch from many channels that waits ends when one of them is closed, and at once if all are. It goes on for the
// others if some were closed before.
func TestManyOfClosedChannels(t *testing.T) {
	t.Parallel()
	a := Source{Channel: "ch", Subscriber: "a"}
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		b := Source{Channel: "ch", Subscriber: "b"}
		m := w.publish("m1", false)
		w.change(func() { w.marks["a"] = 1 })
		w.end("")
		first := <-manyPoll(t.Context(), s, 0, a, b)
		require.NoError(t, first.err)
		require.Len(t, first.Found, 2)
		require.Equal(t, Found{Delivery: Delivery{Closed: true}}, first.Found[0])
		require.Equal(t, []Message{m}, first.Found[1].Messages)
		require.True(t, first.Found[1].Closed)
		b.Receipt = first.Found[1].Receipt
		for _, d := range []manyPolled{<-manyPoll(t.Context(), s, 0, a, b), <-manyPoll(t.Context(), s, 0, a)} {
			for i := range d.Found {
				require.Equal(t, Found{Source: i, Delivery: Delivery{Closed: true}}, d.Found[i])
			}
		}
		w.change(func() { w.stale = true }) // the mark moves between poll and fetch
		began := time.Now()
		require.True(t, (<-manyPoll(t.Context(), s, 0, a)).Found[0].Closed)
		require.Zero(t, time.Since(began))
	})
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		ended := manyPoll(t.Context(), s, 0, a, Source{Channel: "ch", Subscriber: "b"})
		fetches, polls := w.counts()
		w.end("")
		w.settle()
		d := <-ended
		require.Len(t, d.Found, 2)
		require.True(t, d.Found[0].Closed && d.Found[1].Closed)
		again, polled := w.counts()
		require.Equal(t, [2]int{fetches, polls}, [2]int{again, polled})
	})
}

// manyStore is a Store of the channels ch0, ch1, …, each of which is at a position of its own, without messages.
type manyStore struct {
	*stubStore
	*fakeNotifier
}

func (s manyStore) Positions(ctx context.Context, channels []string) []PositionResult {
	return s.fakeNotifier.Positions(ctx, channels)
}

func (s manyStore) Listen(name string, sink func(Event)) (stop func()) {
	return s.fakeNotifier.Listen(name, sink)
}

func TestManyWithAClosedChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := map[string]Position{"ch0": closedAt(in1(0)).Position, "ch1": in1(0), "ch2": in1(0)}
		store := manyStore{
			stubStore:    &stubStore{poll: func(r PollRequest) PollResult { return PollResult{Position: at[r.Channel]} }},
			fakeNotifier: newFakeNotifier(),
		}
		s := serviceOn(t, store, testLimits())
		defer runService(t.Context(), t, s)()
		wait := func() <-chan manyPolled {
			ended := make(chan manyPolled, 1)
			go func() {
				d, err := s.FetchMany(t.Context(), ManyQuery{From: sources(3), Wait: time.Minute})
				ended <- manyPolled{d, err}
			}()
			pass(time.Second)
			return ended
		}
		ended := wait()
		require.Empty(t, ended, "others can have something")
		store.sinks["ch2"](published(in1(1)))
		got := <-ended
		require.Equal(t, []int{0, 2}, []int{got.Found[0].Source, got.Found[1].Source})
		require.Equal(t, Delivery{Closed: true}, got.Found[0].Delivery)
		require.Equal(t, "m1", got.Found[1].Messages[0].ID)

		ended = wait()
		require.Empty(t, ended)
		at["ch1"] = closedAt(in1(0)).Position
		store.sinks["ch1"](closedAt(in1(0)))
		got = <-ended
		require.Equal(t, []int{0, 1}, []int{got.Found[0].Source, got.Found[1].Source})
		ended = wait()
		pass(time.Minute)
		require.Len(t, (<-ended).Found, 2, "it waited for the third, and tells the others' ends")

		ended = wait()
		at["ch0"] = in2(0) // another life, which is open
		store.sinks["ch0"](Event{Kind: EventDeleted})
		pass(time.Minute)
		require.Equal(t, 1, (<-ended).Found[0].Source)
	})
}

// Streams end with their channel once they have sent everything, whatever they do when it is closed. None reads then but
// those that aren't at the end.
func TestStreamsOfAClosedChannel(t *testing.T) {
	t.Parallel()
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		var all []*streaming
		for i := range 20 {
			q := StreamQuery{From: []Source{{Channel: "ch", Subscriber: fmt.Sprint("s", i)}}}
			if i%2 == 0 {
				q.From = tailOf(From{})
			}
			w.change(func() { w.marks[fmt.Sprint("s", i)] = 0 })
			all = append(all, openStream(t.Context(), t, s, q))
		}
		w.publish("m1", false)
		w.settle()
		fetches, polls := w.counts()
		w.end("")
		w.settle()
		for _, st := range all {
			require.Equal(t, []string{"m1", "closed"}, st.collected())
			<-st.ended
			require.ErrorIs(t, st.err, ErrStreamClosed)
			require.Equal(t, st.all[0].Receipt, st.last().Receipt)
		}
		again, polled := w.counts()
		require.Equal(t, [2]int{fetches, polls}, [2]int{again, polled})
		waiters, _ := s.Waiting()
		require.Zero(t, waiters)
	})
}

// The end comes after the messages that precede it, with it or in the same moment, whether the stream sleeps or is about
// to, and however slow its client is.
func TestStreamIsSentAllBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for name, from := range map[string][]Source{"subscriber": nil, "tail": tailOf(From{})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onClosing(t, func(t *testing.T, s *Service, w *world) {
				st := openStream(t.Context(), t, s, StreamQuery{From: from})
				w.publish("m1", false)
				w.publish("large", true)
				w.end("m3")
				w.settle()
				require.Equal(t, []string{"m1", "large", "m3", "closed"}, st.collected())
				<-st.ended
			})
			onClosing(t, func(t *testing.T, s *Service, w *world) {
				if from == nil {
					from = []Source{{Channel: "ch", Subscriber: "s"}}
				}
				st, err := s.OpenStream(t.Context(), StreamQuery{From: from})
				require.NoError(t, err)
				defer st.Close()
				_, err = st.Next(t.Context(), time.Second)
				require.NoError(t, err)
				w.publish("m1", false) // while the client doesn't read
				w.publish("m2", false)
				w.end("")
				w.settle()
				fetches, _ := w.counts()
				var got []Arrival
				for err == nil {
					var arrivals []Arrival
					arrivals, err = st.Next(t.Context(), time.Second)
					got = append(got, arrivals...)
				}
				require.ErrorIs(t, err, ErrStreamClosed)
				require.Len(t, got, 3)
				require.True(t, got[2].Closed)
				again, _ := w.counts()
				require.Equal(t, fetches, again, "the messages came with the notifications")
			})
		})
	}
}

// A stream with a full window ends when it has room for what it hasn't sent, and soon if that is nothing.
func TestStreamWithAFullWindowOfAClosedChannel(t *testing.T) {
	t.Parallel()
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{Window: 2})
		for i := range 3 {
			w.publish(fmt.Sprint("m", i+1), false)
		}
		w.end("")
		w.settle()
		require.Equal(t, []string{"m1", "m2"}, st.collected())
		pass(10 * time.Minute) // it renews its subscriber meanwhile
		require.Empty(t, st.collected())
		st.ack(t)
		require.Equal(t, []string{"m3", "closed"}, st.collected())
		<-st.ended
		require.NoError(t, s.Ack(t.Context(), "ch", "s", st.last().Receipt), "it acknowledges the last message")
		require.Equal(t, clock.Clock(3), w.snapshot().marks["s"])
	})
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{Window: 2})
		w.publish("m1", false)
		w.publish("m2", false)
		w.settle()
		require.Equal(t, []string{"m1", "m2"}, st.collected())
		w.end("")
		w.settle()
		pass(10 * time.Second)
		require.Equal(t, []string{"closed"}, st.collected())
		<-st.ended
	})
}

// A stream that acknowledges by its token acknowledges what it was sent of a channel that is closed, and has nothing.
// Without acknowledgements everything comes again.
func TestStreamResumesAtTheEnd(t *testing.T) {
	t.Parallel()
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		w.publish("m1", false)
		w.end("")
		open := func(q StreamQuery) *Stream {
			if q.From == nil {
				q.From = []Source{{Channel: "ch", Subscriber: "s"}}
			}
			st, err := s.OpenStream(t.Context(), q)
			require.NoError(t, err)
			t.Cleanup(st.Close)
			return st
		}
		first := openStream(t.Context(), t, s, StreamQuery{Acknowledge: true})
		require.Equal(t, []string{"m1", "closed"}, first.collected())
		<-first.ended
		token := first.stream.Token()
		require.False(t, open(StreamQuery{Resume: token}).Ended())
		require.Zero(t, w.snapshot().marks["s"])
		require.True(t, open(StreamQuery{Resume: token, Acknowledge: true}).Ended())
		require.Equal(t, clock.Clock(1), w.snapshot().marks["s"])
		require.True(t, open(StreamQuery{}).Ended())
		require.True(t, open(StreamQuery{From: tailOf(From{})}).Ended())
		require.False(t, open(StreamQuery{From: tailOf(From{Start: StartEarliest})}).Ended())
		both := []Source{{Channel: "ch", Subscriber: "s"}, {Channel: "ch", Subscriber: "a"}}
		require.False(t, open(StreamQuery{From: both}).Ended(), "the other has a message")
		w.change(func() { w.marks["a"] = 1 })
		require.True(t, open(StreamQuery{From: both}).Ended())

		w.restart(life2)
		w.end("")
		lost := openStream(t.Context(), t, s, StreamQuery{Resume: token, Acknowledge: true})
		require.Equal(t, []string{"lost 0", "closed"}, lost.collected())
		<-lost.ended
	})
}

// A stream from many channels goes on until the last of them has ended. If one has failed, it doesn't end as closed.
func TestStreamFromSomeClosedChannels(t *testing.T) {
	t.Parallel()
	onClosing(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{Window: 1,
			From: []Source{{Channel: "ch", Subscriber: "s"}, {Channel: "ch", Tail: &From{}}}})
		w.publish("m1", false)
		w.publish("m2", false)
		w.end("")
		w.settle()
		require.ElementsMatch(t, []string{"m1", "m1", "m2", "closed"}, st.collected())
		require.Nil(t, st.err, "the subscriber's window is full")
		require.NoError(t, s.Unsubscribe(t.Context(), "ch", "s", AnyLife))
		w.settle()
		pass(2 * streamRenewal)
		require.Len(t, st.collected(), 1)
		<-st.ended
		require.ErrorIs(t, st.err, ErrStreamEmpty)
	})
}
