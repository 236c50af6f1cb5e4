package watch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// store is a queue in memory whose tickets and notifications are controlled by the test.
type store struct {
	mu        sync.Mutex
	tickets   map[string]matchmaking.TicketState
	listeners map[string]matchmaking.AssignedListener
	unheard   bool        // new subscriptions aren't confirmed
	fail      error       // of reads
	reads     []int       // tickets of each
	reading   func()      // called after a read was answered, before it returns; optional
	at        []time.Time // of each read
}

func (s *store) ListenAssigned(queue string, l matchmaking.AssignedListener) (stop func()) {
	s.mu.Lock()
	s.listeners[queue] = l
	unheard := s.unheard
	s.mu.Unlock()
	if !unheard {
		l.Confirmed()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, queue)
	}
}

func (s *store) States(ctx context.Context, _ string, ids []string) ([]matchmaking.TicketState, error) {
	states, reading, err := s.read(ids)
	if reading != nil {
		reading()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return states, err
}

func (s *store) read(ids []string) (states []matchmaking.TicketState, reading func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads, s.at = append(s.reads, len(ids)), append(s.at, time.Now())
	for _, id := range ids {
		states = append(states, s.tickets[id])
	}
	return states, s.reading, s.fail
}

// set calls change with the lock held.
func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// create creates waiting tickets.
func (s *store) create(created time.Time, left time.Duration, ids ...string) {
	s.set(func() {
		for _, id := range ids {
			s.tickets[id] = matchmaking.TicketState{Created: created, Remaining: left}
		}
	})
}

// assign assigns a ticket without a notification, and returns the notification.
func (s *store) assign(id, match string) (e matchmaking.TicketEnd) {
	s.set(func() {
		created := s.tickets[id].Created
		content := `{"ticketId":"` + id + `","matchId":"` + match + `"}`
		s.tickets[id] = matchmaking.TicketState{Created: created, Content: content}
		e = matchmaking.TicketEnd{ID: id, Created: created, Content: content}
	})
	return e
}

func (s *store) remove(id string) {
	s.set(func() { delete(s.tickets, id) })
}

func (s *store) listener() (l matchmaking.AssignedListener) {
	s.set(func() { l = s.listeners["q"] })
	return l
}

// taken returns the number of reads, and of tickets read, since the last call.
func (s *store) taken() (reads, tickets int) {
	s.set(func() {
		for _, n := range s.reads {
			tickets += n
		}
		reads, s.reads, s.at = len(s.reads), nil, nil
	})
	return reads, tickets
}

// scene is watches in a bubble of synctest.
type scene struct {
	*Watches
	t     *testing.T
	store *store
	made  time.Time // when the tickets were created
	stop  func()    // ends Run, and waits for its return
}

// play runs a test with watches on a store, whose tickets a and b wait for an hour.
func play(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := &store{tickets: map[string]matchmaking.TicketState{},
			listeners: map[string]matchmaking.AssignedListener{}}
		s := &scene{Watches: New(st, slog.New(slog.DiscardHandler)), t: t, store: st, made: time.Now()}
		st.create(s.made, time.Hour, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		s.stop = func() {
			cancel()
			running.Wait()
		}
		defer s.stop()
		test(t, s)
	})
}

func (s *scene) requireNoNotes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Zero(s.t, s.noteBytes)
	require.Empty(s.t, s.feeds["q"].notes.oldest)
}

// wait is a wait in progress.
type wait struct {
	leave func()
	ended chan struct{}
	got   *matchmaking.Assignment
	err   error
}

func (s *scene) await(ids ...string) (waits []*wait) {
	for _, id := range ids {
		ctx, cancel := context.WithCancel(s.t.Context())
		w := &wait{leave: cancel, ended: make(chan struct{})}
		go func() {
			defer close(w.ended)
			defer cancel()
			w.got, w.err = s.Await(ctx, "q", id)
		}()
		waits = append(waits, w)
	}
	synctest.Wait()
	return waits
}

func (s *scene) single(id string) *wait { return s.await(id)[0] }

func (w *wait) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-w.ended:
		require.Fail(t, "the wait has ended", "%v, %v", w.got, w.err)
	default:
	}
}

func (w *wait) gets(t *testing.T, match string) {
	t.Helper()
	<-w.ended
	require.NoError(t, w.err)
	require.Equal(t, match, w.got.MatchID)
}

func (w *wait) fails(t *testing.T, err error) {
	t.Helper()
	<-w.ended
	require.ErrorIs(t, w.err, err)
}

// TestAwait: all waits for a ticket receive its assignment, after one read each and one subscription.
func TestAwait(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		waits := s.await("a", "a", "b", "a")
		for _, w := range waits {
			w.waits(t)
		}
		s.store.listener().Ended(s.store.assign("a", "m1"))
		for _, i := range []int{0, 1, 3} {
			waits[i].gets(t, "m1")
		}
		waits[2].waits(t)
		_, read := s.store.taken()
		require.Equal(t, 4, read)
		s.single("a").gets(t, "m1")
		s.single("none").fails(t, matchmaking.ErrNoTicket)
		s.store.listener().Ended(matchmaking.TicketEnd{ID: "b", Created: s.made, Removed: true})
		waits[2].fails(t, matchmaking.ErrNoTicket)
		_, read = s.store.taken()
		require.Equal(t, 2, read)
		require.Empty(t, s.feeds["q"].waits)
		require.Zero(t, s.feeds["q"].agenda.Len())
	})
}

// TestReadsAreGrouped: waits that begin during a read are read together.
func TestReadsAreGrouped(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		ids := make([]string, 600)
		for i := range ids {
			ids[i] = fmt.Sprint("t", i)
		}
		s.store.create(s.made, time.Hour, ids...)
		s.store.set(func() { s.store.reading = func() { <-time.After(time.Millisecond) } })
		s.single("a")
		s.await(ids...)
		<-time.After(10 * time.Millisecond)
		reads, read := s.store.taken()
		require.LessOrEqual(t, reads, 5)
		require.Equal(t, len(ids)+1, read)
	})
}

// TestLives: a wait is for one life of its ticket, independent of notifications about others with its ID.
func TestLives(t *testing.T) {
	t.Parallel()
	earlier, later := -time.Minute, time.Minute
	for name, c := range map[string]struct {
		during  bool // the notification during the read
		at      time.Duration
		removed bool
		then    func(s *scene) // the state at the second read
		want    error
		match   string
	}{
		"an earlier life's assignment":           {at: earlier},
		"an earlier life's end":                  {at: earlier, removed: true},
		"an earlier life's, during the read":     {during: true, at: earlier},
		"an earlier life's end, during the read": {during: true, at: earlier, removed: true},
		"its own, during the read":               {during: true, match: "m"},
		"its end, during the read":               {during: true, removed: true, want: matchmaking.ErrNoTicket},
		"a later life's, and the ticket waits":   {at: later},
		"a later life's, and the ticket has ended": {at: later,
			then: func(s *scene) { s.store.create(s.made.Add(later), 0, "a") }, want: matchmaking.ErrNoTicket},
		"a later life's, during the read": {during: true, at: later},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *scene) {
				notify := func() {
					e := matchmaking.TicketEnd{ID: "a", Created: s.made.Add(c.at), Removed: c.removed}
					if !c.removed {
						e.Content = `{"ticketId":"a","matchId":"m"}`
					}
					s.store.listener().Ended(e)
				}
				if c.during {
					s.store.set(func() { s.store.reading = sync.OnceFunc(notify) })
				}
				w := s.single("a")
				if !c.during {
					if c.then != nil {
						c.then(s)
					}
					notify()
				}
				switch {
				case c.want != nil:
					w.fails(t, c.want)
				case c.match != "":
					w.gets(t, c.match)
				default:
					w.waits(t)
					s.store.set(func() { s.store.reading = nil })
					s.store.listener().Ended(s.store.assign("a", "own"))
					w.gets(t, "own")
				}
			})
		})
	}
}

// TestDoubt: the assignment is found by a read after any loss of notifications.
func TestDoubt(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(s *scene, e matchmaking.TicketEnd){
		"an interruption": func(s *scene, _ matchmaking.TicketEnd) {
			s.store.listener().Interrupted()
			s.store.listener().Confirmed()
		},
		"without the assignment": func(s *scene, e matchmaking.TicketEnd) {
			e.Content = ""
			s.store.listener().Ended(e)
		},
		"not an assignment": func(s *scene, e matchmaking.TicketEnd) {
			e.Content = "{"
			s.store.listener().Ended(e)
		},
		"another's assignment": func(s *scene, e matchmaking.TicketEnd) {
			e.Content = `{"ticketId":"b","matchId":"forged"}`
			s.store.listener().Ended(e)
		},
		"an interruption during the read": func(s *scene, _ matchmaking.TicketEnd) {
			s.store.listener().Interrupted()
			s.store.set(func() {
				s.store.tickets["late"] = matchmaking.TicketState{Created: s.made, Remaining: time.Hour}
				s.store.reading = sync.OnceFunc(func() {
					s.store.assign("late", "m2")
					s.store.listener().Confirmed()
				})
			})
			from := time.Now()
			s.single("late").gets(s.t, "m2")
			require.Less(s.t, time.Since(from), time.Second)
		},
		"an assignment that is not on replicas": func(s *scene, e matchmaking.TicketEnd) {
			s.store.set(func() { s.store.tickets["a"] = matchmaking.TicketState{Created: s.made, Unconfirmed: true} })
			e.Content = ""
			s.store.listener().Ended(e) // it is read
			synctest.Wait()
			s.store.assign("a", "m1")
		},
		"nothing at all": func(*scene, matchmaking.TicketEnd) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *scene) {
				w, other := s.single("a"), s.single("b")
				e := s.store.assign("a", "m1")
				from := time.Now()
				interrupt(s, e)
				w.gets(t, "m1")
				require.Less(t, time.Since(from), time.Minute)
				if name != "nothing at all" {
					require.Less(t, time.Since(from), time.Second)
				}
				other.waits(t)
			})
		})
	}
}

// TestUnreadableAssignment checks that an unreadable stored assignment ends the wait.
func TestUnreadableAssignment(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		s.store.set(func() { s.store.tickets["a"] = matchmaking.TicketState{Created: s.made, Content: "{"} })
		w := s.single("a")
		<-w.ended
		require.ErrorContains(t, w.err, "can't be read")
	})
}

// TestExpiry: a wait ends with its ticket's life, which a heartbeat may have extended, without a notification.
func TestExpiry(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		s.store.create(s.made, 10*time.Second, "a")
		w, other := s.single("a"), s.single("b")
		from := time.Now()
		s.store.set(func() { s.store.reading = func() { time.AfterFunc(time.Second, func() { s.store.remove("a") }) } })
		w.fails(t, matchmaking.ErrNoTicket)
		require.InDelta(t, 20*time.Second, time.Since(from), float64(3*readGranularity))
		other.waits(t)
	})
}

// TestReadingAgainIsBounded: many tickets are read again in batches, at a limited rate, after an interruption and as a
// backstop.
func TestReadingAgainIsBounded(t *testing.T) {
	t.Parallel()
	const crowd = 20_000
	play(t, func(t *testing.T, s *scene) {
		ids := make([]string, crowd)
		for i := range ids {
			ids[i] = fmt.Sprint("t", i)
		}
		s.store.create(s.made, 24*time.Hour, ids...)
		s.await(ids...)
		_, read := s.store.taken()
		require.Equal(t, crowd, read)

		s.store.listener().Interrupted()
		s.store.listener().Confirmed()
		<-time.After(100 * time.Millisecond)
		_, early := s.store.taken()
		require.LessOrEqual(t, early, readBurst+readRate/10)
		<-time.After(10 * time.Second)
		_, read = s.store.taken()
		require.GreaterOrEqual(t, early+read, crowd, "all are read again")
		require.Less(t, early+read, crowd+crowd/10)

		<-time.After(10 * time.Minute)
		var highest int
		s.store.set(func() {
			second := map[int64]int{}
			for i, at := range s.store.at {
				second[at.Unix()] += s.store.reads[i]
				highest = max(highest, second[at.Unix()])
			}
		})
		require.LessOrEqual(t, highest, readRate+readBurst)
		reads, read := s.store.taken()
		require.InDelta(t, crowd*600/backstop.Seconds(), read, crowd*600/backstop.Seconds()/10)
		t.Logf("%d waits: %.0f reads of %.0f tickets a second", crowd, float64(reads)/600, float64(read)/600)
	})
}

// TestWithoutConfirmation: a ticket is read before the subscription is confirmed, and again after the confirmation.
func TestWithoutConfirmation(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		s.store.set(func() { s.store.unheard = true })
		w := s.single("a")
		_, read := s.store.taken()
		require.Zero(t, read)
		s.single("none").fails(t, matchmaking.ErrNoTicket)
		s.store.assign("a", "m1")
		w.waits(t)
		s.store.listener().Confirmed()
		w.gets(t, "m1")
	})
}

// TestFailingReads checks that failing reads end only waits that have just begun.
func TestFailingReads(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		w := s.single("a")
		s.store.set(func() { s.store.fail = fault.ErrUnavailable })
		s.single("b").fails(t, fault.ErrUnavailable)
		s.store.assign("a", "m1")
		s.store.listener().Interrupted()
		s.store.listener().Confirmed()
		s.store.taken()
		<-time.After(time.Minute)
		reads, _ := s.store.taken()
		require.InDelta(t, 60, reads, 2)
		w.waits(t)
		s.store.set(func() { s.store.fail = nil })
		w.gets(t, "m1")
	})
}

// TestExpectedTickets checks that expected tickets need no read while the feed is confirmed.
func TestExpectedTickets(t *testing.T) {
	t.Parallel()
	create := func(s *scene, id string) {
		x := s.Expect("q", id)
		s.store.create(s.made, time.Hour, id)
		x.Created(&matchmaking.Ticket{ID: id, CreateTime: s.made, TTL: time.Hour})
	}
	for name, c := range map[string]struct {
		play func(s *scene) *wait
		read int
	}{
		"assigned while it is waited for": {read: 0, play: func(s *scene) *wait {
			create(s, "n")
			w := s.single("n")
			s.store.listener().Ended(s.store.assign("n", "m"))
			return w
		}},
		"assigned before it is waited for": {read: 0, play: func(s *scene) *wait {
			create(s, "n")
			s.store.listener().Ended(s.store.assign("n", "m"))
			return s.single("n")
		}},
		"assigned before its creation was answered": {read: 0, play: func(s *scene) *wait {
			x := s.Expect("q", "n")
			s.store.create(s.made, time.Hour, "n")
			s.store.listener().Ended(s.store.assign("n", "m"))
			x.Created(&matchmaking.Ticket{ID: "n", CreateTime: s.made, TTL: time.Hour})
			return s.single("n")
		}},
		"waited for before its creation was answered": {read: 1, play: func(s *scene) *wait {
			x := s.Expect("q", "n")
			s.store.create(s.made, time.Hour, "n")
			w := s.single("n")
			x.Created(&matchmaking.Ticket{ID: "n", CreateTime: s.made, TTL: time.Hour})
			s.store.listener().Ended(s.store.assign("n", "m"))
			return w
		}},
		"notified without the assignment": {read: 1, play: func(s *scene) *wait {
			create(s, "n")
			e := s.store.assign("n", "m")
			e.Content = ""
			s.store.listener().Ended(e)
			return s.single("n")
		}},
		"waited for twice": {read: 1, play: func(s *scene) *wait {
			create(s, "n")
			s.single("n")
			w := s.single("n")
			s.store.listener().Ended(s.store.assign("n", "m"))
			return w
		}},
		"interrupted": {read: 1, play: func(s *scene) *wait {
			create(s, "n")
			s.store.listener().Interrupted()
			create(s, "unknown")
			s.store.assign("n", "m")
			return s.single("n")
		}},
		"waited for too late": {read: 1, play: func(s *scene) *wait {
			create(s, "n")
			s.store.assign("n", "m")
			<-time.After(noteLife + time.Second)
			s.requireNoNotes()
			return s.single("n")
		}},
		"too many": {read: 1, play: func(s *scene) *wait {
			s.mu.Lock()
			s.noteBytes += maxNoteBytes
			s.mu.Unlock()
			create(s, "n")
			s.store.assign("n", "m")
			return s.single("n")
		}},
		"its assignment is too large": {read: 1, play: func(s *scene) *wait {
			create(s, "n")
			e := s.store.assign("n", "m")
			e.Content = `{"ticketId":"n","matchId":"` + strings.Repeat("x", maxNoteBytes) + `"}`
			s.store.listener().Ended(e)
			return s.single("n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *scene) {
				create(s, "unheard") // no feed exists yet
				s.single("a")
				s.store.taken()
				w, from := c.play(s), time.Now()
				w.gets(t, "m")
				require.Less(t, time.Since(from), time.Second, "it isn't found by the backstop")
				_, read := s.store.taken()
				require.Equal(t, c.read, read)
			})
		})
	}
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		play(t, func(t *testing.T, s *scene) {
			s.single("a")
			create(s, "n")
			s.store.listener().Ended(matchmaking.TicketEnd{ID: "n", Created: s.made, Removed: true})
			s.single("n").fails(t, matchmaking.ErrNoTicket)
			create(s, "expires")
			w := s.single("expires")
			s.store.remove("expires")
			w.fails(t, matchmaking.ErrNoTicket)
		})
	})
}

// TestFeedsEnd: a feed is reused if a wait begins soon, and ends otherwise.
func TestFeedsEnd(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		listening := func() (n int) {
			synctest.Wait()
			s.store.set(func() { n = len(s.store.listeners) })
			_, feeds := s.Count()
			require.Equal(t, n, feeds)
			return n
		}
		w := s.single("a")
		w.leave()
		w.fails(t, context.Canceled)
		<-time.After(linger / 2)
		require.Equal(t, 1, listening())
		w = s.single("a")
		<-time.After(2 * linger)
		require.Equal(t, 1, listening())
		w.leave()
		<-time.After(2 * linger)
		require.Zero(t, listening())
		w = s.single("a")
		s.store.listener().Ended(s.store.assign("a", "m"))
		w.gets(t, "m")
		require.Equal(t, 1, listening())
	})
}

// TestLeaving checks that leaving at any point of a wait leaks nothing.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]func(s *scene) *wait{
		"before the confirmation": func(s *scene) *wait {
			s.store.set(func() { s.store.unheard = true })
			return s.single("a")
		},
		"during the first read": func(s *scene) *wait {
			s.store.set(func() { s.store.reading = func() { <-time.After(time.Second) } })
			return s.single("a")
		},
		"while it waits": func(s *scene) *wait { return s.single("a") },
		"during another read": func(s *scene) *wait {
			w := s.single("a")
			s.store.set(func() { s.store.reading = func() { <-time.After(time.Second) } })
			s.store.listener().Interrupted()
			s.store.listener().Confirmed()
			synctest.Wait()
			return w
		},
		"before another read": func(s *scene) *wait {
			w := s.single("a")
			s.limit.SetBurst(callCost + 1)
			s.limit.ReserveN(time.Now(), callCost+1)
			s.store.listener().Interrupted()
			s.store.listener().Confirmed()
			synctest.Wait()
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *scene) {
				w := until(s)
				w.leave()
				w.fails(t, context.Canceled)
				<-time.After(2 * time.Second)
				s.mu.Lock()
				f := s.feeds["q"]
				require.Zero(t, f.users)
				require.Empty(t, f.waits)
				require.Zero(t, f.agenda.Len())
				require.Empty(t, f.fresh)
				require.Empty(t, f.planned)
				s.mu.Unlock()
				s.store.taken()
				<-time.After(time.Hour)
				_, read := s.store.taken()
				require.Zero(t, read)
				_, feeds := s.Count()
				require.Zero(t, feeds)
			})
		})
	}
}

// TestEnd checks that all waits end, including those that begin later.
func TestEnd(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *scene) {
		waits := s.await("a", "b")
		s.Drain()
		for _, w := range append(waits, s.single("a")) {
			w.fails(t, ErrEnded)
		}
	})
}
