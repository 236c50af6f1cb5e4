package channel

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// sources returns the subscriber "s" of n channels.
func sources(n int) []Source {
	list := make([]Source, n)
	for i := range list {
		list[i] = Source{Channel: fmt.Sprint("ch", i), Subscriber: "s"}
	}
	return list
}

func TestManyQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serviceOn(t, &stubStore{}, DefaultLimits())
	for _, tt := range []struct {
		query ManyQuery
		slug  fault.Slug
		field string
	}{
		{ManyQuery{}, fault.SlugInvalidSources, "/from"},
		{ManyQuery{From: sources(257)}, fault.SlugInvalidSources, "/from"},
		{ManyQuery{From: append(sources(3), Source{Channel: "ch1", Subscriber: "s"})}, fault.SlugInvalidSources,
			"/from/3"},
		{ManyQuery{From: append(sources(3), Source{Channel: "ch1", Subscriber: "s", Receipt: "x"})},
			fault.SlugInvalidSources, "/from/3"},
		{ManyQuery{From: append(sources(1), Source{Channel: "{", Subscriber: "s"})}, fault.SlugInvalidChannel,
			"/from/1/channel"},
		{ManyQuery{From: append(sources(1), Source{Channel: "c"})}, fault.SlugInvalidSubscriber, "/from/1/subscriber"},
		{ManyQuery{From: sources(1), Max: 1001}, fault.SlugInvalidMax, "max"},
		{ManyQuery{From: sources(1), Wait: time.Hour}, fault.SlugInvalidWait, "wait"},
	} {
		_, err := s.FetchMany(t.Context(), tt.query)
		require.Equal(t, tt.field, requireError(t, err, fault.Invalid, tt.slug).Field)
	}
}

// A source that fails is reported at once, whatever the wait, and doesn't affect the others.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	var polled []string
	store := &stubStore{
		poll: func(r PollRequest) PollResult {
			polled = append(polled, r.Channel)
			return PollResult{Err: map[string]error{"ch1": ErrNoSubscriber, "ch2": fault.ErrUnavailable}[r.Channel]}
		},
		fetchEach: func([]FetchRequest) []BatchResult { return nil },
	}
	s := serviceOn(t, store, DefaultLimits())
	from := sources(5)
	from[3].Receipt = "forged"
	from[4].Receipt = s.receipts.Sign(receipt.Receipt{Channel: "other", Subscriber: "s"})
	for _, wait := range []time.Duration{0, time.Minute} {
		polled = nil
		d, err := s.FetchMany(t.Context(), ManyQuery{From: from, Wait: wait})
		require.NoError(t, err)
		require.Empty(t, d.Found)
		require.Equal(t, []string{"ch0", "ch1", "ch2"}, polled, "a source whose receipt is refused isn't read")
		require.Len(t, d.Problems, 4)
		for i, want := range []error{
			ErrNoSubscriber, fault.ErrUnavailable, &fault.Error{Slug: fault.SlugReceiptMalformed},
			&fault.Error{Slug: fault.SlugReceiptChannel},
		} {
			require.Equal(t, i+1, d.Problems[i].Source)
			require.ErrorIs(t, d.Problems[i].Err, want)
		}
	}
	_, err := s.FetchMany(t.Context(), ManyQuery{From: from[2:3], Wait: time.Minute})
	require.ErrorIs(t, err, fault.ErrUnavailable, "no source can be served")
	d, err := s.FetchMany(t.Context(), ManyQuery{From: from[1:2]})
	require.NoError(t, err, "the store can be reached")
	require.Len(t, d.Problems, 1)
}

// A store that serves nothing isn't asked for the rest: a fetch takes the store's time limit once.
func TestManyOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	rounds := 0
	store := &stubStore{
		poll: func(PollRequest) PollResult { return PollResult{Position: in1(5)} },
		fetchEach: func(requests []FetchRequest) []BatchResult {
			rounds++
			results := make([]BatchResult, len(requests))
			for i := range results {
				results[i].Err = fault.ErrUnavailable
			}
			return results
		},
	}
	limits := DefaultLimits()
	limits.FetchBytes = 1 // one source at a time
	_, err := serviceOn(t, store, limits).FetchMany(t.Context(), ManyQuery{From: sources(64)})
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Equal(t, 1, rounds)
}

// TestShares: sources share evenly, and everything that any of them can use is given out.
func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unread := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(1, 5), rapid.Uint64Range(1, 1<<53)), 1, 40).Draw(t,
			"unread")
		limit := rapid.IntRange(1, 60).Draw(t, "most")
		some, all := make([]ready, len(unread)), uint64(0)
		for i, n := range unread {
			some[i] = ready{source: i, unread: n}
			all += n
		}
		sum, largest := 0, 0
		shared := share(some, limit)
		for _, r := range shared {
			require.Equal(t, unread[r.source], r.unread)
			require.Positive(t, r.max)
			require.LessOrEqual(t, uint64(r.max), r.unread)
			sum, largest = sum+r.max, max(largest, r.max)
		}
		require.Len(t, shared, min(len(unread), limit))
		require.EqualValues(t, min(uint64(limit), all), sum)
		for _, r := range shared {
			require.True(t, uint64(r.max) == r.unread || r.max >= largest-1, "%d of %d, another has %d", r.max,
				r.unread, largest)
		}
	})
}

// flooded is a store in which each channel has many messages of the largest size.
func flooded(asked *[][]FetchRequest) *stubStore {
	content := []byte(`"` + strings.Repeat("x", testPolicy.MaxMessageBytes-2) + `"`)
	return &stubStore{
		poll: func(PollRequest) PollResult { return PollResult{Position: in1(1000)} },
		fetchEach: func(requests []FetchRequest) []BatchResult {
			*asked = append(*asked, requests)
			results := make([]BatchResult, len(requests))
			for i, r := range requests {
				b := Batch{Epoch: life1, Clock: 1000}
				for len(b.Messages) == 0 || len(b.Messages) < r.Max && (len(b.Messages)+1)*len(content) <= r.MaxBytes {
					b.Through++
					b.Messages = append(b.Messages, Message{ID: "m", Clock: b.Through, Content: content})
				}
				results[i].Batch = b
			}
			return results
		},
	}
}

// An answer has no more messages and bytes than one source may have, however many sources there are, and each source
// gets some in the end.
func TestManyIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sources, max, bytes, messages, rounds int }{
		{sources: 1, max: 1000, bytes: 10_000, messages: 100, rounds: 1},
		{sources: 4, max: 40, bytes: 100_000, messages: 40, rounds: 1},
		{sources: 256, max: 64, bytes: 100_000, messages: 64, rounds: 1},
		{sources: 256, max: 1000, bytes: 1000, messages: 10, rounds: 1},
		{sources: 10, max: 1000, bytes: 50, messages: 1, rounds: 1}, // one message whatever its size
		{sources: 10, max: 10, bytes: 10_000, messages: 10, rounds: 1},
	} {
		var asked [][]FetchRequest
		limits := DefaultLimits()
		limits.FetchBytes = tt.bytes
		s := serviceOn(t, flooded(&asked), limits)
		seen := make(map[int]bool)
		for range 20 * tt.sources / min(tt.sources, tt.messages) {
			asked = nil
			d, err := s.FetchMany(t.Context(), ManyQuery{From: sources(tt.sources), Max: tt.max})
			require.NoError(t, err)
			require.Len(t, asked, tt.rounds)
			n, last := 0, -1
			for _, found := range d.Found {
				require.Greater(t, found.Source, last)
				require.True(t, found.More)
				n, last = n+len(found.Messages), found.Source
				seen[found.Source] = true
			}
			require.Equal(t, tt.messages, n, "%+v", tt)
			bytes := 0
			for _, r := range asked[0] {
				bytes += r.MaxBytes
			}
			require.LessOrEqual(t, bytes, max(tt.bytes, testPolicy.MaxMessageBytes))
		}
		require.Len(t, seen, tt.sources, "no source starves")
	}
}

// Sources with few small messages are read in several rounds if their largest messages would not fit together.
func TestManyInRounds(t *testing.T) {
	t.Parallel()
	limits, sizes := DefaultLimits(), []int(nil)
	limits.FetchBytes = 3 * testPolicy.MaxMessageBytes
	s := serviceOn(t, &stubStore{
		poll: func(PollRequest) PollResult { return PollResult{Position: in1(1)} },
		fetchEach: func(requests []FetchRequest) []BatchResult {
			sizes = append(sizes, len(requests))
			return slices.Repeat(
				[]BatchResult{{Batch: Batch{Epoch: life1, Clock: 1, Through: 1, Messages: []Message{*messageAt(1)}}}},
				len(requests))
		},
	}, limits)
	d, err := s.FetchMany(t.Context(), ManyQuery{From: sources(10)})
	require.NoError(t, err)
	require.Len(t, d.Found, 10)
	require.Equal(t, []int{3, 2, 2, 2, 1}, sizes)
}

// manyPoll starts a FetchMany that waits, for subscribers of the channel "ch".
func manyPoll(ctx context.Context, s *Service, max int, from ...Source) <-chan manyPolled {
	ended := make(chan manyPolled, 1)
	go func() {
		d, err := s.FetchMany(ctx, ManyQuery{From: from, Max: max, Wait: time.Minute})
		ended <- manyPolled{d, err}
	}()
	synctest.Wait()
	return ended
}

type manyPolled struct {
	Deliveries
	err error
}

// One wait for several subscribers is one waiter. It acknowledges once, renews the marks that are due, and ends with
// the first arrival.
func TestManyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["a"], w.marks["b"] = 0, 1
		w.connected = true
		w.publish("m1", false)
		first := <-manyPoll(t.Context(), s, 0, Source{Channel: "ch", Subscriber: "a"},
			Source{Channel: "ch", Subscriber: "b"})
		require.NoError(t, first.err)
		require.Len(t, first.Found, 1)
		require.Equal(t, 0, first.Found[0].Source)
		require.Equal(t, 1, w.fetches, "only one had something")

		w.due = true
		a, b := Source{Channel: "ch", Subscriber: "a", Receipt: first.Found[0].Receipt},
			Source{Channel: "ch", Subscriber: "b"}
		ended := manyPoll(t.Context(), s, 0, a, b)
		waiters, channels := s.Waiting()
		require.Equal(t, [2]int{1, 1}, [2]int{waiters, channels})
		require.Equal(t, clock.Clock(1), w.marks["a"])
		require.Equal(t, 5, w.fetches, "both are renewed, before it listens and after")
		require.Equal(t, time.Minute, w.wait, "the store knows how long they must live")
		m := w.publish("m2", false)
		w.settle()
		got := <-ended
		require.NoError(t, got.err)
		require.Len(t, got.Found, 2)
		for i, found := range got.Found {
			require.Equal(t, i, found.Source)
			require.Equal(t, []Message{m}, found.Messages)
		}
		r, err := s.receipts.Verify(got.Found[1].Receipt, "ch", "b")
		require.NoError(t, err)
		require.Equal(t, receipt.Receipt{Channel: "ch", Subscriber: "b", Epoch: life1, Clock: 2, MessageID: "m2",
			Write: m.Write}, r)
		require.Equal(t, 5, w.fetches, "the messages came with the notification")

		polled := manyPoll(t.Context(), s, 1, Source{Channel: "ch", Subscriber: "a", Receipt: got.Found[0].Receipt},
			Source{Channel: "ch", Subscriber: "b", Receipt: got.Found[1].Receipt})
		w.connect()
		w.settle()
		w.publish("m3", false)
		w.settle()
		require.Len(t, polled, 1, "it came with the notification")
		require.Len(t, (<-polled).Found, 1, "max holds for all sources together")
	})
}

// The mark can move between poll and fetch: the fetch then finds nothing, and the wait is at the fetch's position. A
// receipt that was acknowledged isn't sent again, since a new life would refuse it.
func TestManyThatIsOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.marks["a"] = 0
		w.connected = true
		w.publish("m1", false)
		first := <-manyPoll(t.Context(), s, 0, Source{Channel: "ch", Subscriber: "a"})
		w.stale = true
		second := manyPoll(t.Context(), s, 0, Source{Channel: "ch", Subscriber: "a", Receipt: first.Found[0].Receipt})
		fetches := w.fetches
		m := w.publish("m2", false)
		w.settle()
		require.Equal(t, []Message{m}, (<-second).Found[0].Messages)
		require.Equal(t, fetches, w.fetches, "it came with the notification")

		w.stale, w.marks["a"] = false, 2
		third := manyPoll(t.Context(), s, 0,
			Source{Channel: "ch", Subscriber: "a", Receipt: s.receipts.Sign(receipt.Receipt{
				Channel: "ch", Subscriber: "a", Epoch: life1, Clock: 2, MessageID: "m2", Write: m.Write,
			})})
		w.restart(life2)
		w.publish("m3", true)
		w.settle()
		got := <-third
		require.Empty(t, got.Problems)
		require.Equal(t, "m3", got.Found[0].Messages[0].ID)
	})
}

func TestManyThatEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Service, *world, context.CancelFunc){
		"wait":    func(*Service, *world, context.CancelFunc) { pass(time.Minute) },
		"context": func(_ *Service, _ *world, cancel context.CancelFunc) { cancel() },
		"drain":   func(s *Service, _ *world, _ context.CancelFunc) { s.Drain() },
		"removal": func(_ *Service, w *world, _ context.CancelFunc) {
			_ = w.Unsubscribe(context.Background(), "ch", "b", ulid.ULID{})
			w.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, w := runningService(t, testLimits())
				w.marks["a"], w.marks["b"] = 0, 0
				w.connected = true
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := manyPoll(ctx, s, 0, Source{Channel: "ch", Subscriber: "a"},
					Source{Channel: "ch", Subscriber: "b"})
				require.Empty(t, ended)
				end(s, w, cancel)
				synctest.Wait()
				require.Len(t, ended, 1)
				got := <-ended
				require.NoError(t, got.err)
				require.Empty(t, got.Found)
				if name != "removal" {
					require.Empty(t, got.Problems)
					return
				}
				require.Len(t, got.Problems, 1)
				require.Equal(t, 1, got.Problems[0].Source)
				require.ErrorIs(t, got.Problems[0].Err, ErrNoSubscriber)
			})
		})
	}
}

// TestManyTurns: of fetches from many sources, a few read at the same time, and the others wait for their turn, but not
// for ever. A read that the store delays leaves its turn to the next. A fetch from few sources needs no turn.
func TestManyTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var reading atomic.Int64
		store := &stubStore{poll: func(r PollRequest) PollResult {
			if r.Channel == fmt.Sprint("ch", fewSources) {
				reading.Add(1)
				<-hang
			}
			return PollResult{}
		}}
		s := serviceOn(t, store, DefaultLimits())
		turns := turnsPerCore * runtime.GOMAXPROCS(0)
		limit := turns * int(turnTimeout/turnTime)
		errs := make(chan error, limit+2*turns)
		for range cap(errs) {
			go func() {
				_, err := s.FetchMany(t.Context(), ManyQuery{From: sources(fewSources + 1)})
				errs <- err
			}()
		}
		synctest.Wait()
		require.EqualValues(t, turns, reading.Load())
		_, err := s.FetchMany(t.Context(), ManyQuery{From: sources(fewSources)})
		require.NoError(t, err)
		<-time.After(turnTime)
		synctest.Wait()
		require.EqualValues(t, 2*turns, reading.Load())
		requireError(t, <-errs, fault.Unavailable, fault.SlugOverloaded)
		synctest.Wait()
		require.InDelta(t, limit, reading.Load(), float64(turns))
		close(hang)
		for range cap(errs) - 1 {
			if err := <-errs; err != nil {
				requireError(t, err, fault.Unavailable, fault.SlugOverloaded)
			}
		}
	})
}

// TestManyTurnWhileWaiting: a fetch that waits for a message leaves its turn to others.
func TestManyTurnWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := runningService(t, testLimits())
		w.connected = true
		var from []Source
		for i := range fewSources + 1 {
			from = append(from, Source{Channel: "ch", Subscriber: fmt.Sprint("s", i)})
			w.marks[from[i].Subscriber] = 0
		}
		var fetches []<-chan manyPolled
		for range turnsPerCore*runtime.GOMAXPROCS(0) + 1 {
			fetches = append(fetches, manyPoll(t.Context(), s, 0, from...))
		}
		w.publish("m1", false)
		w.settle()
		for _, ended := range fetches {
			got := <-ended
			require.NoError(t, got.err)
			require.NotEmpty(t, got.Found)
		}
	})
}
