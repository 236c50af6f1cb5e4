package backend_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// A match reaches its caller while the function and the evaluator go on.
func TestMatchesStream(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		tickets := w.tickets("a", "b")
		on := make(chan struct{})
		w.function("", func(_ context.Context, propose func(*openmatch.Match)) error {
			propose(match("1", tickets[0]))
			await(t, on)
			propose(match("2", tickets[1]))
			return nil
		})
		w.evaluator(all)
		call := w.server().fetch("")
		first := call.match()
		require.True(t, proto.Equal(match("1", tickets[0]), first))
		require.Equal(t, matchmaking.Pending, w.status("a"))
		require.Equal(t, matchmaking.Searching, w.status("b"))
		close(on)
		ids, err := call.rest()
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, ids)
		require.Equal(t, matchmaking.Pending, w.status("b"))
	})
}

func TestEvaluatorIsCalledWithoutProposals(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	called := make(chan *openmatch.Match, 1)
	w.evaluator(func(_ context.Context, next func() *openmatch.Match, _ func(string)) error {
		called <- next()
		return nil
	})
	require.NoError(t, w.server().fetch("").end())
	require.Nil(t, await(t, called))
}

func TestFunctionThatRepeatsAnIDFailsItsCallAtOnce(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	tickets := w.tickets("a", "b")
	w.queue.RegistrationInterval = matchmaking.Duration(time.Hour) // the window is open until the end of the test
	both := make(chan struct{}, 2)
	w.function("wrong", func(ctx context.Context, propose func(*openmatch.Match)) error {
		both <- struct{}{}
		propose(match("1", tickets[0]))
		propose(match("1", tickets[1]))
		<-ctx.Done()
		return nil
	})
	w.function("right", func(_ context.Context, propose func(*openmatch.Match)) error {
		both <- struct{}{}
		propose(match("3", tickets[1]))
		return nil
	})
	w.evaluator(func(_ context.Context, next func() *openmatch.Match, accept func(string)) error {
		for m := next(); m != nil; m = next() {
			if m.GetMatchId() == "3" {
				accept("3")
			}
		}
		return nil
	})
	s := w.server()
	wrong, right := s.fetch("wrong"), s.fetch("right")
	await(t, both)
	await(t, both)
	err := wrong.end()
	require.EqualError(t, err, `MatchMakingFunction returned same match_id twice: "1"`)
	require.Equal(t, "3", right.next())
}

func TestTwoFunctionsWithTheSameIDFailBothCalls(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		tickets := w.tickets("a", "b")
		w.queue.RegistrationInterval = matchmaking.Duration(time.Hour)
		w.function("first", proposing(match("1", tickets[0])))
		w.function("second", proposing(match("1", tickets[0])))
		w.function("third", proposing(match("2", tickets[1])))
		w.evaluator(all)
		s := w.server()
		first := s.fetch("first")
		require.Equal(t, "1", first.next())
		second := s.fetch("second")
		const text = `multiple match functions used same match_id: "1"`
		require.EqualError(t, second.end(), text)
		require.EqualError(t, first.end(), text)
		third := s.fetch("third")
		require.Equal(t, "2", third.next(), "the cycle goes on for others")
	})
}

func TestEvaluatorThatNamesAWrongIDFailsTheCycle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		accepted []string
		want     string
	}{
		"unknown": {[]string{"1"},
			`evaluator returned match_id "1" which does not correspond to its any match in its input`},
		"twice": {[]string{"m", "m"}, `evaluator returned same match_id twice: "m"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onOne(t)
			w.function("", proposing(match("m")))
			w.evaluator(func(ctx context.Context, next func() *openmatch.Match, accept func(string)) error {
				next()
				for _, id := range c.accepted {
					accept(id)
				}
				<-ctx.Done()
				return nil
			})
			_, err := w.server().fetch("").rest()
			require.EqualError(t, err, c.want)
			var failure *backend.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, int(codes.Unknown), failure.Code)
		})
	}
}

func TestErrorsOfFunctionAndEvaluatorPassThrough(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		tickets := w.tickets("a")
		w.function("failing", func(_ context.Context, propose func(*openmatch.Match)) error {
			propose(match("1", tickets[0]))
			return status.Error(codes.Aborted, "my function")
		})
		w.function("", proposing())
		w.evaluator(all)
		for _, s := range []*server{w.server(), w.server()} {
			call := s.fetch("failing")
			ids, err := call.rest()
			require.Subset(t, []string{"1"}, ids, "its accepted match comes first, if its ticket is free")
			var failure *backend.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, backend.Failure{Code: int(codes.Aborted),
				Text: "match function: my function", Detail: "Aborted"}, *failure, "from both servers")
		}
		require.Equal(t, matchmaking.Pending, w.status("a"))
		w.evaluator(func(context.Context, func() *openmatch.Match, func(string)) error {
			return errors.New("my evaluator")
		})
		err := w.server().fetch("").end()
		require.EqualError(t, err, "evaluator: my evaluator: Unknown")
	})
}

func TestMatchesWithoutTicketsAndWithTheIDsOfEarlierOnes(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.function("", proposing(match("any string: ☃\n"), match("")))
	w.evaluator(all)
	s := w.server()
	for range 2 {
		ids, err := s.fetch("").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"any string: ☃\n", ""}, ids)
	}
}

func TestMatchOfATicketThatIsHeldIsDropped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		tickets := w.tickets("a", "b", "c")
		w.function("", proposing(match("1", tickets[0], tickets[1]), match("2", tickets[1], tickets[2]),
			match("3", tickets[2]), match("4", &openmatch.Ticket{Id: "never created"})))
		w.evaluator(all)
		ids, err := w.server().fetch("").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"1", "3"}, ids)
		ids, err = w.server().fetch("").rest()
		require.NoError(t, err)
		require.Empty(t, ids, "all are held")
	})
}

// Calls that arrive while a cycle runs share the next one.
func TestCallsAreCollectedWhileACycleRuns(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		started, on := make(chan struct{}), make(chan struct{})
		w.function("long", func(context.Context, func(*openmatch.Match)) error {
			close(started)
			await(t, on)
			return nil
		})
		for _, name := range []string{"1", "2", "3"} {
			w.function(name, proposing(match(name)))
		}
		evaluations := make(chan int, 10)
		w.evaluator(func(_ context.Context, next func() *openmatch.Match, accept func(string)) error {
			n := 0
			for m := next(); m != nil; m = next() {
				accept(m.GetMatchId())
				n++
			}
			evaluations <- n
			return nil
		})
		s := w.server()
		long := s.fetch("long")
		await(t, started)
		calls := map[string]*fetching{"1": s.fetch("1"), "2": s.fetch("2"), "3": s.fetch("3")}
		require.Eventually(t, func() bool { return s.Waiting(w.queue.Name) == 3 }, patience, time.Millisecond)
		close(on)
		require.NoError(t, long.end())
		for name, call := range calls {
			ids, err := call.rest()
			require.NoError(t, err)
			require.Equal(t, []string{name}, ids, "each caller gets its own")
		}
		require.Equal(t, 0, await(t, evaluations))
		require.Equal(t, 3, await(t, evaluations), "one evaluation for three")
	})
}

func TestRegistrationIntervalCollectsCalls(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.queue.RegistrationInterval = matchmaking.Duration(2 * time.Second)
		ran := make(chan struct{}, 1)
		w.function("1", func(_ context.Context, propose func(*openmatch.Match)) error {
			propose(match("1"))
			ran <- struct{}{}
			return nil
		})
		w.function("2", proposing(match("2")))
		var got [][]string
		w.evaluator(func(_ context.Context, next func() *openmatch.Match, accept func(string)) error {
			var ids []string
			for m := next(); m != nil; m = next() {
				ids = append(ids, m.GetMatchId())
			}
			got = append(got, ids)
			for _, id := range ids {
				accept(id)
			}
			return nil
		})
		s := w.server()
		first := s.fetch("1")
		await(t, ran)
		second := s.fetch("2")
		for want, call := range map[string]*fetching{"1": first, "2": second} {
			ids, err := call.rest()
			require.NoError(t, err)
			require.Equal(t, []string{want}, ids)
		}
		require.Len(t, got, 1)
		require.ElementsMatch(t, []string{"1", "2"}, got[0])
	})
}

func TestFunctionBeyondTheProposalIntervalIsCancelled(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.queue.ProposalCollectionInterval = matchmaking.Duration(2 * time.Second)
	cancelled := make(chan error, 1)
	w.function("", func(ctx context.Context, propose func(*openmatch.Match)) error {
		propose(match("1"))
		<-ctx.Done()
		cancelled <- ctx.Err()
		return nil
	})
	w.evaluator(func(_ context.Context, next func() *openmatch.Match, accept func(string)) error {
		var ids []string
		for m := next(); m != nil; m = next() {
			ids = append(ids, m.GetMatchId())
		}
		for _, id := range ids { // after the end of its input
			accept(id)
		}
		return nil
	})
	ids, err := w.server().fetch("").rest()
	require.EqualError(t, err, "match function ran longer than proposal window, canceling")
	require.Equal(t, []string{"1"}, ids)
	require.Equal(t, context.Canceled, await(t, cancelled))
}

func TestCancellingReachesFunctionAndEvaluator(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		started, ended := make(chan struct{}, 2), make(chan error, 2)
		w.function("", func(ctx context.Context, _ func(*openmatch.Match)) error {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil
		})
		w.evaluator(func(ctx context.Context, _ func() *openmatch.Match, _ func(string)) error {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil
		})
		call := w.server().fetch("")
		await(t, started)
		await(t, started)
		call.cancel()
		require.Equal(t, context.Canceled, await(t, ended))
		require.Equal(t, context.Canceled, await(t, ended))
		require.ErrorIs(t, call.end(), context.Canceled)
	})
}

// The evaluator is cancelled with the last call only.
func TestEvaluatorGoesOnForOtherCalls(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.queue.RegistrationInterval = matchmaking.Duration(2 * time.Second)
	started := make(chan struct{}, 2)
	on := make(chan struct{})
	w.function("leaving", func(ctx context.Context, _ func(*openmatch.Match)) error {
		started <- struct{}{}
		<-ctx.Done()
		return nil
	})
	w.function("staying", func(_ context.Context, propose func(*openmatch.Match)) error {
		started <- struct{}{}
		await(t, on)
		propose(match("1"))
		return nil
	})
	w.evaluator(all)
	s := w.server()
	leaving, staying := s.fetch("leaving"), s.fetch("staying")
	await(t, started)
	await(t, started)
	leaving.cancel()
	require.ErrorIs(t, leaving.end(), context.Canceled)
	close(on)
	ids, err := staying.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, ids)
}

// A caller that reads nothing doesn't keep the next cycle waiting.
func TestSlowReaderHoldsUpNobody(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.evaluator(all)
		s := w.server()
		tickets := w.tickets("a", "b")
		w.function("slow", proposing(match("1", tickets[0])))
		w.function("quick", proposing(match("2", tickets[1])))
		slow := s.fetch("slow")
		w.awaitStatus("a", matchmaking.Pending)
		ids, err := s.fetch("quick").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, ids)
		ids, err = slow.rest()
		require.NoError(t, err)
		require.Equal(t, []string{"1"}, ids)
	})
}

// The default evaluator accepts all matches of a cycle at its end.
func TestMatchesThatComeTogetherWaitForTheirReader(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		ids, matches := storagetest.Numbered("m", 50), []*openmatch.Match(nil)
		for _, id := range ids {
			m := match(id)
			m.MatchFunction = strings.Repeat("m", 90)
			matches = append(matches, m)
		}
		w.function("many", proposing(matches...))
		s := w.server()
		call := s.fetch("many")
		require.Eventually(t, func() bool { return s.metrics.cyclesRun() == 1 }, patience, time.Millisecond)
		got, err := call.rest()
		require.NoError(t, err)
		require.ElementsMatch(t, ids, got)
	})
}

func TestUnreadMatchesOfAServerAreLimited(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.limits.Bytes = 1200
	tickets := w.tickets("a", "b", "c")
	for i, ticket := range tickets {
		m := match(ticket.GetId(), ticket)
		m.MatchFunction = strings.Repeat("m", 90)
		w.function(strconv.Itoa(i), proposing(m))
	}
	s := w.server()
	slow := s.fetch("0")
	w.awaitStatus("a", matchmaking.Pending)
	noRoom(t, s.fetch("1").end())
	w.awaitStatus("b", matchmaking.Searching)
	_, err := slow.rest()
	require.NoError(t, err)
	ids, err := s.fetch("2").rest()
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, ids)
}

func TestReaderThatIsTooSlowFailsAndItsTicketsAreReleased(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.limits.Stall = time.Nanosecond
		w.evaluator(all)
		s := w.server()
		ids := storagetest.Numbered("t", 8)
		tickets, handedOut := w.tickets(ids...), make(chan struct{})
		w.function("all", func(_ context.Context, propose func(*openmatch.Match)) error {
			for i, ticket := range tickets {
				m := match(ids[i], ticket)
				m.MatchFunction = strings.Repeat("m", 90)
				propose(m)
				if i == 0 {
					await(t, handedOut)
				}
			}
			return nil
		})
		before := s.metrics.releasedTickets()
		call := s.fetch("all")
		w.awaitStatus(ids[0], matchmaking.Pending)
		close(handedOut)
		require.Eventually(t, func() bool { return s.metrics.releasedTickets() > before }, patience,
			time.Millisecond)
		got, err := call.rest()
		require.ErrorContains(t, err, "the caller reads its matches too slowly")
		require.Less(t, len(got), len(ids))
		for i, ticket := range ids {
			if i < len(got) {
				require.Equal(t, matchmaking.Pending, w.status(ticket))
			} else {
				w.awaitStatus(ticket, matchmaking.Searching)
			}
		}
	})
}

// A caller that reads a match late doesn't get it: its tickets may be in another match.
func TestMatchIsNotDeliveredWhenItsTicketsAreFreeAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.queue.PendingTimeout = matchmaking.Duration(2 * time.Second)
		s := w.server()
		tickets := w.tickets("a", "b")
		w.function("slow", proposing(match("1", tickets[0]), match("2", tickets[1])))
		slow := s.fetch("slow")
		require.Eventually(t, func() bool { return s.metrics.cyclesRun() == 1 }, patience, time.Millisecond)
		w.awaitStatus("b", matchmaking.Searching)
		w.function("quick", proposing(match("3", tickets[1])))
		require.Equal(t, "3", s.fetch("quick").next())
		ids, err := slow.rest()
		require.ErrorContains(t, err, "the caller reads its matches too slowly")
		require.NotContains(t, ids, "2")
	})
}

// The tickets of a new backfill that nobody acknowledges are free again before their claims end.
func TestMatchIsNotDeliveredWhenItsNewBackfillHasEnded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.queue.BackfillTTL = matchmaking.Duration(time.Second)
		s := w.server()
		joined := match("2", w.tickets("a")...)
		joined.Backfill = &openmatch.Backfill{}
		w.function("all", proposing(match("1"), joined))
		call := s.fetch("all")
		require.Eventually(t, func() bool { return s.metrics.cyclesRun() == 1 }, patience, time.Millisecond)
		require.Eventually(t, func() bool {
			n := 0
			require.NoError(t, w.store.EachBackfill(t.Context(), w.queue.Name, func(batch []*matchmaking.Backfill) error {
				n += len(batch)
				return nil
			}))
			return n == 0
		}, patience, 5*time.Millisecond)
		ids, err := call.rest()
		require.ErrorContains(t, err, "the caller reads its matches too slowly")
		require.Equal(t, []string{"1"}, ids)
		w.awaitStatus("a", matchmaking.Searching)
	})
}

func TestTicketsOfMatchesThatTheCallerDidNotGetAreReleased(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		s := w.server()
		ids := storagetest.Numbered("t", 3)
		tickets := w.tickets(ids...)
		w.function("all", proposing(match("1", tickets[0]), match("2", tickets[1]), match("3", tickets[2])))
		broken := errors.New("the connection is broken")
		n := 0
		err := s.Fetch(t.Context(), w.request("all"), func(backend.Match) error {
			if n++; n == 2 {
				return broken
			}
			return nil
		})
		require.ErrorIs(t, err, broken)
		require.Equal(t, matchmaking.Pending, w.status(ids[0]))
		w.awaitStatus(ids[1], matchmaking.Searching)
		w.awaitStatus(ids[2], matchmaking.Searching)
	})
}

// A match on a stale generation of a backfill, or on one that doesn't exist, is dropped, and its tickets are free.
func TestMatchesWithBackfills(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.evaluator(all)
		s, tickets := w.server(), w.tickets("a", "b", "c", "d")
		on := func(id string, b *openmatch.Backfill, ticket *openmatch.Ticket) *openmatch.Match {
			m := match(id, ticket)
			m.Backfill = b
			return m
		}
		w.function("create", proposing(on("1", &openmatch.Backfill{Generation: 7}, tickets[0])))
		call := s.fetch("create")
		created := call.match().GetBackfill()
		require.NoError(t, call.end())
		stored, err := w.store.Backfill(t.Context(), w.queue.Name, created.GetId())
		require.NoError(t, err)
		require.EqualValues(t, 1, stored.Generation)
		require.Equal(t, []string{"a"}, stored.Tickets)

		w.function("change", proposing(
			on("stale", &openmatch.Backfill{Id: created.GetId(), Generation: 0}, tickets[1]),
			on("gone", &openmatch.Backfill{Id: matchmaking.NewBackfillID(w.queue.Name), Generation: 1}, tickets[2]),
			on("2", &openmatch.Backfill{Id: created.GetId(), Generation: 1}, tickets[3])))
		call = s.fetch("change")
		got := call.match()
		require.NoError(t, call.end())
		require.Equal(t, "2", got.GetMatchId())
		require.EqualValues(t, 1, got.GetBackfill().GetGeneration(), "the match is unchanged")
		require.Equal(t, matchmaking.Searching, w.status("b"))
		require.Equal(t, matchmaking.Searching, w.status("c"))
		stored, err = w.store.Backfill(t.Context(), w.queue.Name, created.GetId())
		require.NoError(t, err)
		require.EqualValues(t, 2, stored.Generation)
		require.Equal(t, []string{"a", "d"}, stored.Tickets)

		// A match that no caller gets leaves no backfill, and its tickets are free.
		unwanted := errors.New("no")
		var id string
		w.function("unread", proposing(on("3", &openmatch.Backfill{}, tickets[1]),
			on("4", &openmatch.Backfill{Id: created.GetId(), Generation: 2}, tickets[2])))
		require.ErrorIs(t, s.Fetch(t.Context(), w.request("unread"), func(m backend.Match) error {
			id = m.Created.ID
			return unwanted
		}), unwanted)
		w.awaitStatus("b", matchmaking.Searching)
		w.awaitStatus("c", matchmaking.Searching)
		_, err = w.store.Backfill(t.Context(), w.queue.Name, id)
		require.ErrorIs(t, err, matchmaking.ErrNoBackfill)
	})
}

func TestMatchWithALargeBackfillFailsItsCall(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.queue.MaxTicketBytes = 100
	s, ticket := w.server(), w.tickets("a")[0]
	for _, size := range []int{90, 110} {
		m := match("1", ticket)
		m.Backfill = &openmatch.Backfill{SearchFields: &openmatch.SearchFields{Tags: []string{strings.Repeat("x", size)}}}
		w.function("backfill", proposing(m))
		_, err := s.fetch("backfill").rest()
		if size < 100 {
			require.NoError(t, err)
			require.NoError(t, w.store.ReleaseFetched(t.Context(), w.queue.Name, []string{"a"}))
			continue
		}
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugBackfillTooLarge})
		require.Equal(t, matchmaking.Searching, w.status("a"))
	}
}

func TestMatchOfTooManyTicketsForABackfillFailsItsCall(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	s := w.server()
	for _, tickets := range []int{matchmaking.MaxBackfillTickets, matchmaking.MaxBackfillTickets + 1} {
		m := match("1")
		m.Backfill = &openmatch.Backfill{}
		for i := range tickets {
			m.Tickets = append(m.Tickets, &openmatch.Ticket{Id: strconv.Itoa(i)})
		}
		w.function("", proposing(m))
		err := s.fetch("").end() // without a match: there are no such tickets
		if tickets == matchmaking.MaxBackfillTickets {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidBackfill})
			require.ErrorContains(t, err, "a match adds 1001 tickets to a backfill, and may add 1000")
		}
	}
}

func TestFailuresAreLoggedWhenTheyBeginAndEnd(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.evaluator(all)
	s := w.server()
	for _, err := range []error{nil, errors.New("first"), errors.New("second"), nil} {
		w.function("", func(context.Context, func(*openmatch.Match)) error { return err })
		require.Equal(t, err == nil, s.fetch("").end() == nil)
	}
	log := strings.Split(strings.TrimSpace(s.metrics.log.String()), "\n")
	require.Len(t, log, 2)
	require.Contains(t, log[0], `level=WARN msg="match function failing" queue=open function="`+w.mmf.String()+
		`" error="match function: first: Unknown"`)
	require.Contains(t, log[1], `level=INFO msg="recovered: match function failing"`)
}

// An evaluator that fails at once doesn't keep functions from being called.
func TestFunctionsAreCalledBeforeTheEvaluatorFails(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.evaluator(func(context.Context, func() *openmatch.Match, func(string)) error { return errors.New("at once") })
	s := w.server()
	for range 20 {
		called := make(chan struct{})
		w.function("", func(context.Context, func(*openmatch.Match)) error {
			close(called)
			return nil
		})
		require.ErrorContains(t, s.fetch("").end(), "evaluator: at once")
		await(t, called)
	}
}
