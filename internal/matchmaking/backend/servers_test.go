package backend_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// holding returns a function that proposes matches, and then runs until on is closed or its call is cancelled. It sends
// to started, and to ended when it is cancelled.
func holding(on <-chan struct{}, matches ...*openmatch.Match) (f mmf, started, ended chan struct{}) {
	started, ended = make(chan struct{}, 10), make(chan struct{}, 10)
	return func(ctx context.Context, propose func(*openmatch.Match)) error {
		for _, m := range matches {
			propose(m)
		}
		started <- struct{}{}
		select {
		case <-on:
		case <-ctx.Done():
			ended <- struct{}{}
		}
		return nil
	}, started, ended
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorContains(t, err, "repeat the call")
}

func TestCallsFailWhenTheirServerStopsAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.evaluator(all)
		tickets := w.tickets("a", "b")
		f, started, ended := holding(nil, match("1", tickets[0]))
		w.function("long", f)
		w.function("next", proposing(match("2", tickets[1])))
		s := w.server()
		call := s.fetch("long")
		await(t, started)
		s.stop()
		await(t, ended)
		_, err := call.rest()
		unavailable(t, err)
		_, err = s.fetch("next").rest()
		unavailable(t, err)
		ids, err := w.server().fetch("next").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, ids)
		require.Equal(t, matchmaking.Pending, w.status("b"))
	})
}

// Each server runs cycles of its own, and the script that hands out tickets decides between their matches.
func TestMatchesOfTwoServersShareNoTicket(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		ticket := w.tickets("a")[0]
		w.function("x", proposing(match("1", ticket)))
		w.function("y", proposing(match("2", ticket)))
		first, second := w.server().fetch("x"), w.server().fetch("y")
		ids, err := first.rest()
		require.NoError(t, err)
		others, err := second.rest()
		require.NoError(t, err)
		require.Len(t, append(ids, others...), 1)
	})
}

// A queue without calls has no loop and no evaluator, until its next call.
func TestIdleQueueIsClosedAndServedAgain(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.limits.Idle = time.Nanosecond
	w.function("one", proposing(match("1")))
	s := w.server()
	for range 3 {
		ids, err := s.fetch("one").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"1"}, ids)
		require.Eventually(t, func() bool { return s.Loops() == 0 }, patience, time.Millisecond)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.limits = backend.Limits{Calls: 2, ProfileBytes: 100, Matches: 3, Bytes: 2000, Cycle: 2 * time.Second}
	w.evaluator(all)
	on := make(chan struct{})
	f, started, ended := holding(on)
	w.function("long", f)
	w.function("many", proposing(match("1"), match("2"), match("3"), match("4")))
	large := match("1")
	large.MatchFunction = strings.Repeat("x", 2000)
	w.function("large", proposing(large))
	s := w.server()

	_, err := s.fetch("many").rest()
	require.ErrorContains(t, err, "have proposed more matches than the limit")
	noRoom(t, s.fetch("large").end())

	err = s.fetch(strings.Repeat("p", 101)).end()
	require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidRequest})
	require.ErrorContains(t, err, "the profile has 103 bytes, and may have 100")

	first := s.fetch("long")
	await(t, started)
	second := s.fetch("none")
	require.Eventually(t, func() bool { return s.Waiting(w.queue.Name) == 1 }, patience, time.Millisecond)
	require.ErrorIs(t, s.fetch("").end(), &fault.Error{Slug: fault.SlugOverloaded})
	require.ErrorContains(t, first.end(), "took longer than the limit for a cycle")
	await(t, ended)
	require.NoError(t, second.end(), "the next cycle")

	wrong := w.request("")
	wrong.Function.Kind = "pigeon"
	require.EqualError(t, s.begin(wrong).end(), "provided match function type is not supported")
}

// noRoom expects the error of a call for which its server has no memory.
func noRoom(t *testing.T, err error) {
	t.Helper()
	var failure *backend.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, int(codes.ResourceExhausted), failure.Code)
	require.ErrorContains(t, err, "take too much memory")
}

// The proposals of one queue leave no room for those of another one, until their cycle has ended.
func TestMemoryIsLimitedForAllQueuesOfAServer(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.limits.Bytes = 2000
	large := match("1")
	large.MatchFunction = strings.Repeat("x", 1000)
	on := make(chan struct{})
	long, started, _ := holding(on, large)
	w.function("long", long)
	w.function("large", proposing(large))
	s := w.server()
	first := s.fetch("long")
	await(t, started)
	other := w.request("large")
	other.Queue = "other"
	require.Eventually(t, func() bool { return s.Room() > 1000 }, patience, time.Millisecond)
	noRoom(t, s.begin(other).end())
	close(on)
	ids, err := first.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, ids)
	require.Eventually(t, func() bool { return s.Room() == 0 }, patience, time.Millisecond)
	ids, err = s.begin(other).rest()
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, ids)
}

func TestDefaultEvaluator(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	tickets := w.tickets("a", "b", "c", "d", "e")
	scored := func(id string, score proto.Message, tickets ...*openmatch.Ticket) *openmatch.Match {
		m := match(id, tickets...)
		input, err := anypb.New(score)
		require.NoError(t, err)
		m.Extensions = map[string]*anypb.Any{"evaluation_input": input}
		return m
	}
	score := func(s float64) *openmatch.DefaultEvaluationCriteria {
		return &openmatch.DefaultEvaluationCriteria{Score: s}
	}
	w.function("one", proposing(match("none", tickets[0]), scored("low", score(-1), tickets[0], tickets[1]),
		scored("other type", wrapperspb.String("best"), tickets[3]), scored("lowest", score(math.Inf(-1)), tickets[4])))
	w.function("two", proposing(scored("high", score(2), tickets[1], tickets[2])))
	w.queue.RegistrationInterval = matchmaking.Duration(2 * time.Second)
	s := w.server()
	first, second := s.fetch("one"), s.fetch("two")
	ids, err := first.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"none", "lowest"}, ids)
	ids, err = second.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"high"}, ids)
}
