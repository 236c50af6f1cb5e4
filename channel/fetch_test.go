package channel

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

func TestQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits())
	for _, tt := range []struct {
		query Query
		slug  fault.Slug
		field string
	}{
		{Query{Max: -1}, fault.SlugInvalidMax, "max"},
		{Query{Max: 1001}, fault.SlugInvalidMax, "max"},
		{Query{Wait: -1}, fault.SlugInvalidWait, "wait"},
		{Query{Wait: time.Minute + 1}, fault.SlugInvalidWait, "wait"},
	} {
		q := tt.query
		q.Channel, q.Subscriber = "ch", "s"
		_, err := s.Fetch(t.Context(), q)
		require.Equal(t, tt.field, requireError(t, err, fault.Invalid, tt.slug).Field)
		_, err = s.Next(t.Context(), q, s.receipts.Sign(receipt.Receipt{Channel: "ch", Subscriber: "s"}))
		requireError(t, err, fault.Invalid, tt.slug)
	}
}

func TestFetchAsksFor(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	var asked FetchRequest
	s := serviceOn(t, &stubStore{fetch: func(r FetchRequest) (Batch, error) {
		asked = r
		return Batch{}, nil
	}}, limits)
	for given, want := range map[int]int{0: limits.DefaultMax, 1: 1, limits.MaxMax: limits.MaxMax} {
		d, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: "s", Max: given})
		require.NoError(t, err)
		require.Equal(t, Delivery{}, d)
		require.Equal(t, FetchRequest{
			Channel: "ch", Subscriber: "s", Max: want, MaxBytes: limits.FetchBytes, Policy: testPolicy,
		}, asked)
	}
}

// A batch is returned with a receipt for all of it.
func TestDelivery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		batch   Batch
		receipt *receipt.Receipt
		more    bool
	}{
		{name: "nothing", batch: Batch{Mark: 5, Through: 5, Clock: 5}},
		{
			name: "all", batch: Batch{Mark: 4, Through: 6, Clock: 6, Messages: []Message{*messageAt(5), *messageAt(6)},
				Last: *messageAt(6)},
			receipt: &receipt.Receipt{Clock: 6, MessageID: "m6"},
		},
		{
			name: "some", batch: Batch{Mark: 4, Through: 5, Clock: 6, Messages: []Message{*messageAt(5)},
				Last: *messageAt(5)},
			receipt: &receipt.Receipt{Clock: 5, MessageID: "m5"}, more: true,
		},
		{
			name: "across the wrap", batch: Batch{Mark: clock.Max, Through: clock.Min, Clock: clock.Min,
				Messages: []Message{*messageAt(clock.Min)}, Last: *messageAt(clock.Min)},
			receipt: &receipt.Receipt{Clock: clock.Min, MessageID: "m" + clock.Min.String()},
		},
		{name: "expired", batch: Batch{Mark: 4, Through: 9, Clock: 9, Expired: 5}, receipt: &receipt.Receipt{Clock: 9}},
		{
			name: "expired before and after", batch: Batch{Mark: 4, Through: 7, Clock: 9, Expired: 2,
				Messages: []Message{*messageAt(6)}, Last: *messageAt(6)},
			receipt: &receipt.Receipt{Clock: 7}, more: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.batch.Epoch = life1
			s := serviceOn(t, &stubStore{fetch: func(FetchRequest) (Batch, error) { return tt.batch, nil }},
				DefaultLimits())
			d, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: "s"})
			require.NoError(t, err)
			require.Equal(t, tt.batch.Messages, d.Messages)
			require.Equal(t, tt.batch.Expired, d.Expired)
			require.Equal(t, tt.more, d.More)
			requireReceipt(t, s, tt.receipt, d.Receipt)
		})
	}
}

// requireReceipt checks that a handle has a clock and message ID, or that there is none.
func requireReceipt(t *testing.T, s *Service, want *receipt.Receipt, handle string) {
	t.Helper()
	if want == nil {
		require.Empty(t, handle)
		return
	}
	got, err := s.receipts.Verify(handle, "ch", "s")
	require.NoError(t, err)
	want.Channel, want.Subscriber, want.Epoch = "ch", "s", life1
	require.Equal(t, want.MessageID == "", got.Write.IsZero(), "the write of the message")
	want.Write = got.Write
	require.Equal(t, *want, got)
}

func TestNext(t *testing.T) {
	t.Parallel()
	var acked AckRequest
	var fetched FetchRequest
	s := serviceOn(t, &stubStore{next: func(a AckRequest, f FetchRequest) (Batch, error) {
		acked, fetched = a, f
		return Batch{Epoch: life1, Mark: 5, Through: 6, Clock: 6, Messages: []Message{*messageAt(6)},
			Last: *messageAt(6)}, nil
	}}, DefaultLimits())
	r := receipt.Receipt{Channel: "ch", Subscriber: "s", Epoch: life1, Clock: 5, MessageID: "m5"}
	for _, wait := range []time.Duration{0, time.Second} {
		d, err := s.Next(t.Context(), Query{Channel: "ch", Subscriber: "s", Max: 3, Wait: wait}, s.receipts.Sign(r))
		require.NoError(t, err)
		require.Equal(t, AckRequest{Receipt: r, Policy: testPolicy}, acked)
		require.Equal(t, FetchRequest{
			Channel: "ch", Subscriber: "s", Max: 3, MaxBytes: s.Limits().FetchBytes, Policy: testPolicy, Wait: wait,
		}, fetched)
		require.Equal(t, []Message{*messageAt(6)}, d.Messages)
		requireReceipt(t, s, &receipt.Receipt{Clock: 6, MessageID: "m6"}, d.Receipt)
	}
}

// poll starts a fetch that waits.
func poll(ctx context.Context, s *Service, subscriber, handle string) <-chan polled {
	ended := make(chan polled, 1)
	go func() {
		d, err := s.Next(ctx, Query{Channel: "ch", Subscriber: subscriber, Wait: time.Minute}, handle)
		ended <- polled{d, err}
	}()
	synctest.Wait()
	return ended
}

func TestPollIsHandedAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		w.connected = true
		ended := poll(t.Context(), s, "s", "")
		waiters, channels := s.Waiting()
		require.Equal(t, [2]int{1, 1}, [2]int{waiters, channels})

		m := w.publish("m1", false)
		w.settle()
		got := <-ended
		require.NoError(t, got.err)
		require.Equal(t, []Message{m}, got.Messages)
		require.False(t, got.More)
		requireReceipt(t, s, &receipt.Receipt{Clock: 1, MessageID: "m1"}, got.Receipt)
		require.Equal(t, 2, w.fetches, "before it was listened to, and after")

		require.NoError(t, s.Ack(t.Context(), "ch", "s", got.Receipt))
		require.Equal(t, clock.Clock(1), w.marks["s"])
	})
}

// A poll that acknowledges does so once, however often it fetches.
func TestPollAcknowledgesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		w.connected = true
		w.publish("m1", false)
		first := <-poll(t.Context(), s, "s", "")
		second := poll(t.Context(), s, "s", first.Receipt)
		require.Equal(t, clock.Clock(1), w.marks["s"])

		w.restart(life2) // an acknowledgement would be refused from now on
		w.publish("m2", true)
		w.settle()
		got := <-second
		require.NoError(t, got.err)
		require.Equal(t, "m2", got.Messages[0].ID)
	})
}

func TestPollOfASubscriberThatIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"], w.marks["other"] = 0, 0
		w.connected = true
		removed, other := poll(t.Context(), s, "s", ""), poll(t.Context(), s, "other", "")
		require.NoError(t, s.Unsubscribe(t.Context(), "ch", "s", AnyLife))
		w.settle()
		got := <-removed
		require.ErrorIs(t, got.err, ErrNoSubscriber)
		require.Equal(t, Delivery{}, got.Delivery)
		require.Empty(t, other)
		s.Drain()
		require.Equal(t, polled{}, <-other)
	})
}

// A removal during an interruption is detected after it.
func TestPollOfASubscriberWhoseRemovalIsMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"], w.marks["other"] = 0, 0
		w.connected = true
		removed, other := poll(t.Context(), s, "s", ""), poll(t.Context(), s, "other", "")
		w.disconnect(0)
		require.NoError(t, s.Unsubscribe(t.Context(), "ch", "s", AnyLife))
		w.settle()
		require.Empty(t, removed)
		w.connect()
		w.settle()
		require.Len(t, removed, 1)
		require.ErrorIs(t, (<-removed).err, ErrNoSubscriber)
		require.Empty(t, other)
		require.Equal(t, 5, w.fetches)
		require.Zero(t, w.reads)
	})
}

// A fail-over that lost a message and gave its clock to another one is detected, although the clock is the same.
func TestPollAcrossAFailOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.connected = true
		w.publish("kept", false)
		w.marks["s"] = 1
		w.replicate()
		w.publish("lost", false)
		w.marks["s"] = 2
		w.settle()
		ended := poll(t.Context(), s, "s", "")
		w.failOver()
		m := w.publish("other", false)
		require.Equal(t, clock.Clock(2), m.Clock)
		w.settle()
		require.Empty(t, ended)
		w.connect()
		w.settle()
		require.Len(t, ended, 1)
		got := <-ended
		require.NoError(t, got.err)
		require.Equal(t, []Message{m}, got.Messages)
		require.Zero(t, w.reads)
	})
}

// Each confirmation costs a poll one fetch, and those that come during a fetch cost one together.
func TestPollAndManyConfirmations(t *testing.T) {
	t.Parallel()
	const many = 100
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		ended := poll(t.Context(), s, "s", "")
		for range many {
			w.sinks["ch"](confirmed)
			synctest.Wait()
		}
		require.Equal(t, 1+many, w.fetches, "the first one, and one after each confirmation")

		w.slow = true
		for range many {
			w.sinks["ch"](confirmed)
			synctest.Wait()
		}
		require.Equal(t, 2+many, w.fetches)
		w.settle()
		require.Equal(t, 3+many, w.fetches)
		require.Zero(t, w.reads)
		s.Drain()
		require.Equal(t, polled{}, <-ended)
	})
}

// Messages that have expired end a poll: its receipt moves the mark past them.
func TestPollThatFindsOnlyExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		w.publish("m1", false)
		clear(w.messages)
		got := <-poll(t.Context(), s, "s", "")
		require.NoError(t, got.err)
		require.Equal(t, uint64(1), got.Expired)
		requireReceipt(t, s, &receipt.Receipt{Clock: 1}, got.Receipt)
	})
}

func TestPollThatEndsWithNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Service, context.CancelFunc){
		"wait":    func(*Service, context.CancelFunc) { pass(time.Minute) },
		"context": func(_ *Service, cancel context.CancelFunc) { cancel() },
		"drain":   func(s *Service, _ context.CancelFunc) { s.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, w := runningService(t, testLimits())
				w.marks["s"] = 0
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := poll(ctx, s, "s", "")
				pass(time.Minute - 1)
				require.Empty(t, ended)
				end(s, cancel)
				synctest.Wait()
				require.Len(t, ended, 1)
				require.Equal(t, polled{}, <-ended)
				require.Equal(t, 2, w.fetches)
				waiters, _ := s.Waiting()
				require.Zero(t, waiters)
			})
		})
	}
}

func TestPollAfterDrainFetchesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		s.Drain()
		require.Equal(t, polled{}, <-poll(t.Context(), s, "s", ""))
		m := w.publish("m1", false)
		require.Equal(t, []Message{m}, (<-poll(t.Context(), s, "s", "")).Messages)
		require.Equal(t, 2, w.fetches)
	})
}

// A fetch of a service that is suspended returns what is there at once. Otherwise it waits a second, so that its client
// doesn't repeat it without a pause, and the one after that returns what has come meanwhile.
func TestPollWhileSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		waiting := poll(t.Context(), s, "s", "")
		pass(time.Second)
		s.Suspend()
		began := time.Now()
		require.Equal(t, polled{}, <-waiting)
		require.Zero(t, time.Since(began))
		require.Equal(t, polled{}, <-poll(t.Context(), s, "s", ""))
		require.Equal(t, suspendedWait, time.Since(began))
		m := w.publish("m1", false)
		require.Equal(t, []Message{m}, (<-poll(t.Context(), s, "s", "")).Messages)
		require.Equal(t, suspendedWait, time.Since(began))
		s.Resume()
		resumed := poll(t.Context(), s, "t", "")
		require.ErrorIs(t, (<-resumed).err, ErrNoSubscriber)
	})
}

// A fetch waits no longer than half of the channel's TTL, and passes this wait to the store, which renews the
// subscriber for it.
func TestPollEndsBeforeItsSubscriberExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(in1(0))
		w.marks["s"] = 0
		s := serviceOn(t, w, testLimits(), Rule{Pattern: "ch", TTL: "10s"})
		defer runService(t.Context(), t, s)()
		ended := poll(t.Context(), s, "s", "")
		pass(5*time.Second - 1)
		require.Empty(t, ended)
		pass(1)
		require.Len(t, ended, 1)
		require.Equal(t, polled{}, <-ended)
		require.Equal(t, 5*time.Second, w.wait, "the store knows how long the subscriber has to live")
	})
}

// One message for 5,000 subscribers that wait costs the store one notification and no command.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	const many = 5000
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.connected = true
		var group sync.WaitGroup
		var right atomic.Int64
		for i := range many {
			w.marks[fmt.Sprint("s", i)] = 0
		}
		for subscriber := range w.marks {
			group.Go(func() {
				d, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: subscriber, Wait: time.Minute})
				if err == nil && len(d.Messages) == 1 && d.Messages[0].ID == "m1" && d.Receipt != "" {
					right.Add(1)
				}
			})
		}
		synctest.Wait()
		waiters, channels := s.Waiting()
		require.Equal(t, [2]int{many, 1}, [2]int{waiters, channels})
		before := w.fetches
		require.LessOrEqual(t, before, 2*many, "those who came before it was listened to have fetched twice")

		w.publish("m1", false)
		w.settle()
		group.Wait()
		require.EqualValues(t, many, right.Load())
		require.Equal(t, before, w.fetches, "nobody fetched again")
		waiters, _ = s.Waiting()
		require.Zero(t, waiters)
	})
}

// The first poll on a channel fetches before it listens, and again after the confirmation.
func TestPollWaitsToBeListenedTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"], w.marks["other"] = 0, 0
		ended := poll(t.Context(), s, "s", "")
		require.Equal(t, 1, w.fetches)
		m := w.publish("m1", false)
		pass(confirmationTimeout / 2)
		require.Empty(t, ended)
		w.connect()
		w.settle()
		require.Equal(t, []Message{m}, (<-ended).Messages)
		require.Equal(t, 2, w.fetches)

		w.marks["s"] = 1
		ended = poll(t.Context(), s, "s", "")
		require.Equal(t, 3, w.fetches, "it is listened to already")
		w.publish("m2", false)
		w.settle()
		require.Equal(t, "m2", (<-ended).Messages[0].ID)
		require.Equal(t, 3, w.fetches)
	})
}

// A poll on a channel that isn't listened to returns existing messages at once, without listening.
func TestPollIsAnsweredBeforeItListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		m := w.publish("m1", false)
		started := time.Now()
		require.Equal(t, []Message{m}, (<-poll(t.Context(), s, "s", "")).Messages)
		require.Equal(t, started, time.Now(), "the time of this test stands still where nothing waits")
		require.Equal(t, 1, w.fetches)
		_, channels := s.Waiting()
		require.Zero(t, channels)
	})
}

// Without a confirmation a poll waits no longer than it is asked to, or than its caller does.
func TestPollThatIsNotListenedTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		const short = confirmationTimeout / 10
		brief := make(chan polled, 1)
		go func() {
			d, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: "s", Wait: short})
			brief <- polled{d, err}
		}()
		pass(short)
		require.Len(t, brief, 1, "a poll waits no longer than it is asked to")

		ctx, cancel := context.WithCancel(t.Context())
		ended := poll(ctx, s, "s", "")
		cancel()
		synctest.Wait()
		require.Len(t, ended, 1)
	})
}

// A fetch that listens first reads once, and finds existing messages.
func TestPollThatListensFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		w.connected = true
		ended := make(chan polled, 1)
		fetch := func() {
			go func() {
				d, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: "s", Wait: time.Minute,
					ListenFirst: true})
				ended <- polled{d, err}
			}()
			synctest.Wait()
		}
		fetch()
		require.Equal(t, 1, w.fetches)
		m := w.publish("m1", false)
		w.settle()
		require.Equal(t, []Message{m}, (<-ended).Messages)
		require.Equal(t, 1, w.fetches)
		fetch()
		require.Equal(t, []Message{m}, (<-ended).Messages)
	})
}

// A long poll that sends its last receipt is told that the history that it is of was lost, also while it waits.
func TestPollIsToldOfALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["s"] = 0
		w.connected = true
		w.replicate()
		w.publish("x", false)
		w.publish("y", false)
		d, err := s.Fetch(t.Context(), Query{Channel: "ch", Subscriber: "s"})
		require.NoError(t, err)
		require.NoError(t, s.Ack(t.Context(), "ch", "s", d.Receipt))
		waiting := Query{Channel: "ch", Subscriber: "s", Wait: time.Minute, Last: d.Receipt}
		ended := make(chan polled, 2)
		fetch := func() {
			d, err := s.Fetch(t.Context(), waiting)
			ended <- polled{d, err}
		}
		go fetch()
		many := manyPoll(t.Context(), s, 0, Source{Channel: "ch", Subscriber: "s", Last: d.Receipt})
		synctest.Wait()
		require.Empty(t, ended, "nothing was lost yet")
		w.failOver()
		w.connect()
		w.settle()
		require.True(t, (<-ended).Lost)
		all := <-many
		require.Len(t, all.Found, 1)
		require.True(t, all.Found[0].Lost)
		require.Empty(t, all.Found[0].Receipt)

		w.publish("z", false)
		w.publish("y", false)
		fetch()
		got := <-ended
		require.True(t, got.Lost)
		require.Len(t, got.Messages, 2)
		waiting.Last = got.Receipt
		fetch()
		require.False(t, (<-ended).Lost)

		keys, err := receipt.NewKeyring(bytes.Repeat([]byte("other"), receipt.MinKeyBytes))
		require.NoError(t, err)
		waiting.Last = keys.Sign(receipt.Receipt{Channel: "ch", Subscriber: "s", Epoch: life1})
		fetch()
		require.True(t, (<-ended).Lost, "a receipt whose key is lost")
		waiting.Last = "x"
		fetch()
		require.True(t, (<-ended).Lost, "a text that is none")
		waiting.Last = s.receipts.Sign(receipt.Receipt{Channel: "other", Subscriber: "s"})
		fetch()
		requireError(t, (<-ended).err, fault.Invalid, fault.SlugReceiptChannel)
	})
}
