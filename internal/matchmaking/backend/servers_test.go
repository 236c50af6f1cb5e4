package backend_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/proxy"
	"github.com/tidemark-dev/tidemark/test/redistest"
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

// leads makes a server the queue's synchronizer.
func (s *server) leads() *server {
	s.w.t.Helper()
	require.NoError(s.w.t, s.fetch("none").end())
	require.True(s.w.t, await(s.w.t, s.metrics.synchronizing))
	return s
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorContains(t, err, "repeat the call")
}

func TestCallsFailWhenTheirSynchronizerStopsAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.evaluator(all)
		tickets := w.tickets("a", "b")
		f, started, ended := holding(nil, match("1", tickets[0]))
		w.function("long", f)
		w.function("next", proposing(match("2", tickets[1])))
		holder := w.server().leads()
		here, there := holder.fetch("long"), w.server().fetch("next")
		await(t, started)
		holder.stop()
		await(t, ended)
		_, err := here.rest()
		unavailable(t, err)
		if _, err = there.rest(); err != nil { // it hadn't been accepted, or was about to be served
			unavailable(t, err)
			ids, err := w.server().fetch("next").rest()
			require.NoError(t, err)
			require.Equal(t, []string{"2"}, ids)
		}
		require.Equal(t, matchmaking.Pending, w.status("b"))
	})
}

// silent returns a world whose first server reaches Redis through a proxy, and that proxy.
func silent(t *testing.T) (w *world, through *server, p *proxy.Proxy) {
	t.Helper()
	node := redistest.Standalone(t)
	w = newWorld(t, node.URL())
	w.limits.Silence = 2 * time.Second
	w.evaluator(all)
	p = redistest.Forward(t, node)
	through = w.serverAt(strings.Replace(node.URL(), node.Addr(), p.Addr(), 1))
	t.Cleanup(p.Pass)
	return w, through, p
}

func TestCallsFailWhenTheNetworkOfTheirSynchronizerIsSilent(t *testing.T) {
	t.Parallel()
	w, holder, network := silent(t)
	holder.leads()
	tickets := w.tickets("a", "b")
	f, started, ended := holding(nil, match("1", tickets[0]))
	w.function("long", f)
	w.function("next", proposing(match("2", tickets[1])))
	other := w.server()
	call := other.fetch("long")
	require.Equal(t, "1", call.next())
	await(t, started)
	network.Hold()
	unavailable(t, call.end())
	await(t, ended)
	ids, err := other.fetch("next").rest()
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, ids)
	require.Equal(t, matchmaking.Pending, w.status("a"), "it was given out")
}

func TestCallOfASilentServerIsDroppedAndItsUnreadMatchesAreReleased(t *testing.T) {
	t.Parallel()
	w, caller, network := silent(t)
	holder := w.server().leads()
	tickets := w.tickets("a", "b", "c")
	on := make(chan struct{})
	f, started, ended := holding(nil, match("1", tickets[0]))
	w.function("", func(ctx context.Context, propose func(*openmatch.Match)) error {
		propose(match("0", tickets[2]))
		await(t, on)
		return f(ctx, propose)
	})
	call := caller.fetch("")
	require.Equal(t, "0", call.next())
	network.Hold()
	close(on)
	await(t, started)
	await(t, ended)
	w.awaitStatus("a", matchmaking.Searching)
	require.Equal(t, matchmaking.Pending, w.status("c"), "it was given out")
	require.Positive(t, holder.metrics.releasedTickets())
	network.Pass()
	_, err := call.rest()
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// losing loses the reply of the first Accept, and the first request of a holder's Leave.
type losing struct {
	backend.Handover
	accepted, left atomic.Bool
}

var errLost = errors.New("lost")

func (l *losing) Accept(ctx context.Context, r backend.AcceptRequest) error {
	err := l.Handover.Accept(ctx, r)
	if l.accepted.CompareAndSwap(false, true) {
		return errLost
	}
	return err
}

func (l *losing) Leave(ctx context.Context, r backend.LeaveRequest) ([][]byte, error) {
	if len(r.Last) > 0 && l.left.CompareAndSwap(false, true) {
		return nil, errLost
	}
	return l.Handover.Leave(ctx, r)
}

func TestCallWhoseAcceptanceIsUnknownFails(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.lossy = func(h backend.Handover) backend.Handover { return &losing{Handover: h} }
	holder := w.server().leads()
	w.lossy = nil
	on := make(chan struct{})
	defer close(on)
	long, started, _ := holding(on)
	w.function("long", long)
	holder.fetch("long") // keeps the lease
	await(t, started)
	unavailable(t, w.server().fetch("next").end())
}

// leaving cancels its call when answers arrive, and loses them.
type leaving struct {
	backend.Handover
	cancel chan func()
}

func (l *leaving) Ask(ctx context.Context, r backend.AskRequest) (backend.Asked, error) {
	asked, err := l.Handover.Ask(ctx, r)
	if len(asked.Answers) > 0 {
		(<-l.cancel)()
		return backend.Asked{}, context.Canceled
	}
	return asked, err
}

func TestTicketsOfACallerThatLeavesWhileItReadsAreReleased(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.evaluator(all)
	holder := w.server().leads()
	cancel := make(chan func(), 1)
	w.lossy = func(h backend.Handover) backend.Handover { return &leaving{Handover: h, cancel: cancel} }
	long, _, ended := holding(nil, match("1", w.tickets("a")...))
	w.function("long", long)
	call := w.server().fetch("long")
	w.awaitStatus("a", matchmaking.Pending)
	cancel <- call.cancel
	require.ErrorIs(t, call.end(), context.Canceled)
	await(t, ended)
	w.awaitStatus("a", matchmaking.Searching)
	require.Zero(t, holder.metrics.releasedTickets(), "the caller's server has released it")
}

// A call that gives up while it asks for the lease doesn't fail the others that wait for it.
func TestCallsTryAgainWhenTheOneThatAsksForTheLeaseGivesUp(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	functions := callout.NewFunctions(nil)
	defer functions.Close()
	synctest.Test(t, func(t *testing.T) {
		s := w.synchronizer(w.store, w.store.Handover(), functions, new(counts)) // which never gets a lease
		asking, giveUp := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- s.Lead(asking, w.queue.Name) }()
		synctest.Wait()
		go func() { second <- s.Lead(t.Context(), w.queue.Name) }()
		synctest.Wait()
		giveUp()
		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, <-second)
	})
}

func TestIdleSynchronizerReleasesItsLease(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.limits.Idle = 50 * time.Millisecond
		first := w.server().leads()
		require.False(t, await(t, first.metrics.synchronizing))
		w.server().leads()
	})
}

func TestCallsGoOnAfterAFailover(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, redistest.Options{Replicas: 1})
	w := newWorld(t, "redis://"+strings.Join(nodes.Addrs(), ","))
	w.evaluator(all)
	on := make(chan struct{})
	f, started, _ := holding(on)
	w.function("long", f)
	holder, other := w.server().leads(), w.server()
	call := other.fetch("long")
	await(t, started)
	nodes.FailoverThatLoses(t, nodes.Slot("{"+w.queue.Name+"}"), func() {})
	close(on)
	if err := call.end(); err != nil {
		require.ErrorIs(t, err, fault.ErrUnavailable)
	}
	w.tickets("a")
	w.function("next", proposing(match("1", &openmatch.Ticket{Id: "a"})))
	for _, s := range []*server{other, holder} {
		require.Eventually(t, func() bool { return s.fetch("none").end() == nil }, patience, time.Millisecond)
	}
	ids, err := other.fetch("next").rest()
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, ids)
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

// A server has room for the profiles that other servers hand over to it, or refuses them.
func TestMemoryOfHandedOverCallsIsLimited(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	w.limits.Bytes = 2000
	holder := w.server().leads()
	w.limits.Bytes = 0
	other := w.server()
	profile := strings.Repeat("p", 1600)
	require.NoError(t, holder.fetch(profile).end())
	noRoom(t, other.fetch(profile).end())
	require.NoError(t, other.fetch("small").end())
}

func TestMemoryOfACallersServerIsLimited(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	holder := w.server().leads()
	w.limits.Bytes = 1000
	large := match("1", w.tickets("a")...)
	large.MatchFunction = strings.Repeat("x", 1000)
	w.function("large", proposing(large))
	noRoom(t, w.server().fetch("large").end())
	w.awaitStatus("a", matchmaking.Searching)
	require.Eventually(t, func() bool { return holder.Room() == 0 }, patience, time.Millisecond)
}

func TestManySmallMatchesReachAnotherServer(t *testing.T) {
	t.Parallel()
	w := onOne(t)
	const many = 20_000
	w.function("small", func(_ context.Context, propose func(*openmatch.Match)) error {
		for i := range many {
			propose(match(strconv.Itoa(i)))
		}
		return nil
	})
	w.server().leads()
	ids, err := w.server().fetch("small").rest()
	require.NoError(t, err)
	require.Len(t, ids, many)
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
	one, two := s.fetch("one"), s.fetch("two")
	ids, err := one.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"none", "lowest"}, ids)
	ids, err = two.rest()
	require.NoError(t, err)
	require.Equal(t, []string{"high"}, ids)
}
