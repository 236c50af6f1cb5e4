package channel

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// tailOf is a tail of the world's channel.
func tailOf(from From) []Source { return []Source{{Channel: "ch", Tail: &from}} }

func TestTailsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits())
	many := make([]Source, MaxTails+1)
	for i := range many {
		many[i] = Source{Channel: fmt.Sprint("ch", i), Tail: &From{}}
	}
	for _, tt := range []struct {
		query StreamQuery
		slug  fault.Slug
		field string
	}{
		{StreamQuery{From: many}, fault.SlugInvalidSources, "/from"},
		{StreamQuery{From: append(tailOf(From{}), tailOf(From{Start: StartEarliest})...)}, fault.SlugInvalidSources,
			"/from/1"},
		{StreamQuery{From: tailOf(From{Start: StartAt, Clock: clock.Max + 1})}, fault.SlugInvalidFrom, "/from"},
		{StreamQuery{From: append(sources(1), tailOf(From{Start: 3})...)}, fault.SlugInvalidFrom, "/from/1/from"},
		{StreamQuery{From: []Source{{Channel: "{", Tail: &From{}}}}, fault.SlugInvalidChannel, "channel"},
		{StreamQuery{From: []Source{{Channel: "ch", Subscriber: "s", Tail: &From{}}}}, fault.SlugInvalidSubscriber,
			"subscriber"},
		{StreamQuery{From: []Source{{Channel: "ch"}}}, fault.SlugInvalidSubscriber, "subscriber"},
		{StreamQuery{From: tailOf(From{}), Resume: s.receipts.Sign(receipt.Receipt{Channel: "ch", Subscriber: "s"})},
			fault.SlugReceiptSubscriber, "lastEventId"},
		{StreamQuery{From: tailOf(From{}), Resume: s.receipts.Sign(receipt.Receipt{Channel: "other"})},
			fault.SlugReceiptChannel, "lastEventId"},
	} {
		_, err := s.OpenStream(t.Context(), tt.query)
		require.Equal(t, tt.field, requireError(t, err, fault.Invalid, tt.slug).Field, "%+v", tt)
	}
}

// A tail begins where it says, reads nothing that is in a notification, and is never full.
func TestTail(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.publish(id, false)
		}
		all := map[From][]string{{Start: StartLatest}: nil, {Start: StartEarliest}: {"a", "b", "c"},
			{Start: StartAt, Clock: 2}: {"c"}, {Start: StartAt, Clock: 3}: nil}
		for from, want := range all {
			st := openStream(t.Context(), t, s, StreamQuery{From: tailOf(from)})
			require.Equal(t, want, st.collected())
			st.close()
		}
		_, err := s.OpenStream(t.Context(), StreamQuery{From: tailOf(From{Start: StartAt, Clock: 4})})
		require.ErrorIs(t, err, ErrClockAhead)

		st := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{}), Window: 1})
		defer st.close()
		w.connect()
		w.settle()
		before, polls := w.counts()
		for i := range 2 * DefaultWindow {
			w.publish(fmt.Sprint(i), false)
			w.settle()
		}
		require.Len(t, st.collected(), 2*DefaultWindow)
		pass(10 * time.Minute)
		fetches, polled := w.counts()
		require.Equal(t, [2]int{before, polls}, [2]int{fetches, polled}, "an idle tail reads nothing, and renews nothing")
		at, err := s.receipts.Verify(st.last().Receipt, "ch", "")
		require.NoError(t, err)
		require.Equal(t, receipt.Receipt{Channel: "ch", Epoch: life1, Clock: 515, MessageID: "511",
			Write: at.Write}, at)
	})
}

// After a fail-over a tail continues behind what it has sent, and repeats nothing.
func TestTailAfterFailOver(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		st := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{})})
		defer st.close()
		for i := range keptSent + 5 {
			w.publish(fmt.Sprint("m", i), false)
		}
		w.settle()
		w.replicate()
		w.publish("a", false)
		w.publish("b", false)
		w.settle()
		require.Len(t, st.collected(), keptSent+7)
		w.failOver()
		w.publish("x", false)
		w.connect()
		w.settle()
		require.Equal(t, []string{"lost 0", "x"}, st.collected())
		w.publish("y", false)
		w.settle()
		require.Equal(t, []string{"y"}, st.collected())
		w.change(func() { delete(w.messages, w.now.Clock) })
		w.disconnect(0)
		w.publish("gone", false)
		w.publish("z", false)
		w.change(func() { delete(w.messages, w.now.Clock.Sub(1)) })
		w.connect()
		w.settle()
		require.Equal(t, []string{"expired 1", "z"}, st.collected())
	})
}

// A tail waits for its channel, and for its next life.
func TestTailOfNoChannel(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.change(func() { w.now = Position{} })
		_, err := s.OpenStream(t.Context(), StreamQuery{From: tailOf(From{Start: StartAt, Clock: 1})})
		require.ErrorIs(t, err, ErrClockAhead)
		st := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{})})
		defer st.close()
		token := st.tokenNow()
		before, _ := w.counts()
		pass(time.Hour)
		fetches, _ := w.counts()
		require.Equal(t, before, fetches, "it costs the reads of the clock for all of the channel's waiters")
		w.restart(life1)
		w.publish("a", false)
		w.settle()
		require.Equal(t, []string{"a"}, st.collected())
		resumed := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{}), Resume: token})
		require.Equal(t, []string{"a"}, resumed.collected())
		resumed.close()

		token = st.tokenNow()
		w.change(func() { w.now = Position{} })
		pass(10 * time.Second)
		require.Empty(t, st.collected())
		w.restart(life2)
		w.publish("b", false)
		w.settle()
		require.Equal(t, []string{"lost 0", "b"}, st.collected())
		resumed = openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{}), Resume: token})
		require.Equal(t, []string{"lost 0", "b"}, resumed.collected())
		resumed.close()
	})
}

// The token for the beginning covers nothing that the client hasn't received.
func TestTailBegan(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.publish("a", false)
		q := StreamQuery{From: tailOf(From{Start: StartEarliest})}
		first, err := s.OpenStream(t.Context(), q)
		require.NoError(t, err)
		q.Resume = first.Began()
		require.NotEmpty(t, q.Resume)
		first.Close()
		q.From = tailOf(From{})
		st := openStream(t.Context(), t, s, q)
		require.Equal(t, []string{"a"}, st.collected())
		q.Resume = st.tokenNow()
		st.close()
		w.restart(life2)
		lost, err := s.OpenStream(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, lost.Began(), "the gap hasn't been received")
		lost.Close()
	})
}

// The ID of an event resumes tails, beside subscribers: each token has all of them.
func TestTailsResume(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.publish("a", false)
		from := []Source{{Channel: "ch", Subscriber: "s"}}
		for i := range MaxTails {
			from = append(from, Source{Channel: fmt.Sprint("ch", i), Tail: &From{}})
		}
		st := openStream(t.Context(), t, s, StreamQuery{From: from})
		require.Equal(t, []string{"a"}, st.collected())
		token := st.tokenNow()
		w.publish("b", false)
		w.settle()
		require.Len(t, st.collected(), 1+MaxTails)
		after := st.tokenNow()
		st.close()
		require.LessOrEqual(t, len(after), maxTokenBytes)
		w.publish("c", false)
		for _, tt := range []struct {
			token string
			want  int
		}{{token, 2*(1+MaxTails) + 1}, {after, MaxTails + 3}, {"", 3}} {
			again := openStream(t.Context(), t, s, StreamQuery{From: from, Resume: tt.token})
			require.Len(t, again.collected(), tt.want, "the subscriber's begin at its mark")
			again.close()
		}
		from[1], from[2] = from[2], from[1]
		_, err := s.OpenStream(t.Context(), StreamQuery{From: from, Resume: after})
		requireError(t, err, fault.Invalid, fault.SlugReceiptChannel)
	})
}

// A resumed tail whose position is lost begins where it says.
func TestTailResumesElsewhere(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.publish("a", false)
		w.replicate()
		w.publish("b", false)
		st := openStream(t.Context(), t, s, StreamQuery{From: tailOf(From{Start: StartEarliest})})
		require.Equal(t, []string{"a", "b"}, st.collected())
		token := st.tokenNow()
		st.close()
		w.failOver()
		w.publish("x", false)
		for from, want := range map[From][]string{{}: {"lost 0"}, {Start: StartEarliest}: {"lost 0", "a", "x"},
			{Start: StartAt, Clock: 1}: {"lost 0", "x"}} {
			again := openStream(t.Context(), t, s, StreamQuery{From: tailOf(from), Resume: token})
			require.Equal(t, want, again.collected())
			again.close()
		}
	})
}

// Sources that the store can't serve when a stream is opened are read later.
func TestStreamOpensInPart(t *testing.T) {
	t.Parallel()
	onStream(t, func(t *testing.T, s *Service, w *world) {
		w.publish("a", false)
		w.change(func() { w.broken = true })
		_, err := s.OpenStream(t.Context(), StreamQuery{From: tailOf(From{Start: StartEarliest})})
		require.ErrorIs(t, err, fault.ErrUnavailable)
		st := openStream(t.Context(), t, s, StreamQuery{From: append(tailOf(From{Start: StartEarliest}),
			Source{Channel: "ch", Subscriber: "s"})})
		defer st.close()
		require.Empty(t, st.collected())
		w.change(func() { w.broken = false })
		pass(5 * time.Second)
		require.Equal(t, []string{"a", "a"}, st.collected())
	})
}
