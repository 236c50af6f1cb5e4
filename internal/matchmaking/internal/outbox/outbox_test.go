package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// world is the outbox of the queue "duel", the channels of its tickets, and the other dependencies of a relay.
type world struct {
	mu        sync.Mutex
	entries   []matchmaking.OutboxEntry // all entries ever made
	in        map[string]time.Time      // entries in the outbox, and the time of their addition
	published []string                  // "<ticket> <epoch>" of each successful publish
	batches   []int                     // number of assignments in each batch
	looks     int                       // number of reads of the outbox
	lags      []time.Duration
	log       bytes.Buffer

	publish func(e *matchmaking.OutboxEntry) error // nil: succeeds
	hangs   string                                 // a ticket whose batch never returns
	remove  func() error                           // nil: succeeds
	owner   matchmaking.Owner
	ticket  *matchmaking.Ticket // nil: no later ticket exists
	created time.Time           // of the existing ticket
}

func (w *world) Outgoing(_ context.Context, _ string, age time.Duration, limit int) ([]matchmaking.OutboxEntry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	var found []matchmaking.OutboxEntry
	for _, e := range w.entries {
		since, in := w.in[e.Entry]
		e.Age = time.Since(since)
		if in && e.Age >= age && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func (w *world) Delivered(_ context.Context, _ string, entries []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remove != nil {
		if err := w.remove(); err != nil {
			return err
		}
	}
	for _, e := range entries {
		delete(w.in, e)
	}
	return nil
}

func (w *world) Ticket(context.Context, string, string) (matchmaking.Ticket, error) {
	if w.ticket == nil {
		return matchmaking.Ticket{}, matchmaking.ErrNoTicket
	}
	return *w.ticket, nil
}

func (w *world) States(context.Context, string, []string) ([]matchmaking.TicketState, error) {
	return []matchmaking.TicketState{{Created: w.created}}, nil
}

func (w *world) Reserve(context.Context, matchmaking.Reservation) (matchmaking.Owner, error) {
	return matchmaking.Owner{}, errors.ErrUnsupported
}

func (w *world) Owner(context.Context, string) (matchmaking.Owner, error) { return w.owner, nil }

func (w *world) Publish(ctx context.Context, entries []matchmaking.OutboxEntry) []error {
	w.mu.Lock()
	hangs := slices.ContainsFunc(entries, func(e matchmaking.OutboxEntry) bool { return e.TicketID == w.hangs })
	w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return slices.Repeat([]error{ctx.Err()}, len(entries))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches = append(w.batches, len(entries))
	errs := make([]error, len(entries))
	for i := range entries {
		if w.publish != nil {
			errs[i] = w.publish(&entries[i])
		}
		if errs[i] == nil {
			w.published = append(w.published, entries[i].TicketID+" "+entries[i].Epoch.String())
		}
	}
	return errs
}

func (w *world) Published(age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lags = append(w.lags, age)
}

// assign puts assignments into the outbox.
func (w *world) assign(tickets ...string) []matchmaking.OutboxEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []matchmaking.OutboxEntry
	for _, id := range tickets {
		list = append(list, matchmaking.OutboxEntry{Entry: "entry-" + id, TicketID: id, MatchID: "m", Epoch: epoch(1)})
		w.in["entry-"+id] = time.Now()
	}
	w.entries = append(w.entries, list...)
	return list
}

func epoch(ms uint64) ulid.ULID { return ulid.MustNew(ms, bytes.NewReader(make([]byte, 10))) }

const (
	testAge  = time.Second
	testKeep = time.Hour
)

// test runs a relay of a world, including its queue's backstop, in simulated time. It fails unless the outbox is empty
// at the end of the test.
func test(t *testing.T, run func(t *testing.T, w *world, q *Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{in: map[string]time.Time{}}
		r := New(Options{
			Store: w, Publisher: w, Lookup: w, Logger: slog.New(slog.NewTextHandler(w, nil)), Age: testAge,
			Keep: testKeep,
		})
		q := r.Queue("duel", w)
		ctx, cancel := context.WithCancel(context.Background())
		var running, backstop sync.WaitGroup
		running.Go(func() { r.Run(context.WithoutCancel(ctx)) })
		backstop.Go(func() { q.Run(ctx, func() bool { return true }) })
		stop := sync.OnceFunc(func() {
			cancel()
			backstop.Wait()
			r.Close()
			running.Wait()
		})
		defer stop() // also after a failure
		run(t, w, q)
		stop()
		require.Zero(t, w.outgoing())
	})
}

// outgoing returns the number of entries in the outbox.
func (w *world) outgoing() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.in)
}

// done returns the published assignments.
func (w *world) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.published)
}

// repair makes publishing succeed again.
func (w *world) repair() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.publish, w.hangs = nil, ""
}

// logged returns the number of times that a message was logged.
func (w *world) logged(message string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), message)
}

// Write implements io.Writer for the log.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

// after advances the time.
func after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's simulated time
	synctest.Wait()
}

func TestOfferedAssignmentsArePublishedAndRemoved(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, w *world, q *Queue) {
		q.Offer(w.assign("ann", "ben"))
		after(removeDelay)
		require.ElementsMatch(t, []string{"ann " + epoch(1).String(), "ben " + epoch(1).String()}, w.done())
		require.Zero(t, w.outgoing())
		require.Len(t, w.lags, 2)
	})
}

func TestAssignmentsOfADeadServerArePublished(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, w *world, _ *Queue) {
		w.assign("ann")
		after(testAge / 2)
		require.Empty(t, w.done(), "its server may still publish it")
		after(3 * testAge)
		require.Len(t, w.done(), 1)
		require.GreaterOrEqual(t, w.lags[0], testAge, "the age is that of the assignment")
	})
}

// TestAQuietOutboxIsReadRarely checks that reads are rare until matches are assigned again, with or without known
// entries.
func TestAQuietOutboxIsReadRarely(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, w *world, q *Queue) {
		looks := func(d time.Duration) int {
			w.mu.Lock()
			w.looks = 0
			w.mu.Unlock()
			after(d)
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.looks
		}
		looks(10 * testAge)
		require.LessOrEqual(t, looks(100*testAge), 100/backstopOthers*4/3+1)
		w.assign("ann")
		q.Offer(nil)
		after(3 * testAge)
		require.Len(t, w.done(), 1)
		require.GreaterOrEqual(t, looks(100*testAge), 100/backstopOthers*4/5)
	})
}

// TestRemovalFails checks that an assignment is published again; the channel recognizes it by its message ID.
func TestRemovalFails(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, w *world, q *Queue) {
		failures := 0
		w.remove = func() error {
			if failures++; failures == 1 {
				return fault.ErrUnavailable
			}
			return nil
		}
		q.Offer(w.assign("ann"))
		after(3 * testAge)
		require.Len(t, w.done(), 2)
	})
}

func TestPublishFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		logged int
	}{
		"too large":      {&fault.Error{Kind: fault.TooLarge, Slug: fault.SlugMessageTooLarge}, 1},
		"not replicated": {&fault.Error{Kind: fault.Unavailable, Slug: fault.SlugNotReplicated}, 0},
		"timeout":        {fmt.Errorf("publish: %w", context.DeadlineExceeded), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T, w *world, q *Queue) {
				w.publish = func(e *matchmaking.OutboxEntry) error {
					if e.TicketID == "ann" {
						return c.err
					}
					return nil
				}
				q.Offer(w.assign("ann", "ben"))
				after(20 * testAge)
				require.Len(t, w.done(), 1, "the other is not held up")
				require.Equal(t, c.logged, w.logged("cannot publish an assignment"))
				w.repair()
				after(10 * time.Second) // longer than any backoff
				require.Len(t, w.done(), 2)
			})
		})
	}
}

// TestANodeThatHangs checks that a hanging node delays only its own channels, and only for a while.
func TestANodeThatHangs(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, w *world, q *Queue) {
		w.hangs = "ann"
		q.Offer(w.assign("ann"))
		synctest.Wait()
		q.Offer(w.assign("ben"))
		after(removeDelay)
		require.Len(t, w.done(), 1)
		after(publishTime)
		require.Empty(t, q.relay.pendingOf("duel"))
		w.repair()
		after(3 * testAge)
		require.Len(t, w.done(), 2)
		require.NotContains(t, w.log.String(), "ERROR")
	})
}

func TestAssignmentsThatCanNeverBePublishedAreDropped(t *testing.T) {
	t.Parallel()
	test(t, func(t *testing.T, w *world, q *Queue) {
		w.publish = func(*matchmaking.OutboxEntry) error { return &fault.Error{Kind: fault.TooLarge} }
		q.Offer(w.assign("ann"))
		after(testKeep - time.Minute)
		require.Equal(t, 1, w.outgoing())
		after(2 * time.Minute)
		require.Zero(t, w.outgoing())
		require.Equal(t, 1, w.logged("dropped an assignment that cannot be published"))
	})
}

// TestLaterLives publishes for a channel life that has ended: its ID belongs to another ticket, unless the channel was
// lost and created again for the same ticket.
func TestLaterLives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner  matchmaking.Owner
		ticket *matchmaking.Ticket
		want   []string
	}{
		"a ticket of another queue": {owner: matchmaking.Owner{Queue: "other", Epoch: epoch(2)},
			ticket: &matchmaking.Ticket{Epoch: epoch(1)}},
		"a later ticket": {owner: matchmaking.Owner{Queue: "duel", Epoch: epoch(2)},
			ticket: &matchmaking.Ticket{Epoch: epoch(2)}},
		"no ticket anymore": {owner: matchmaking.Owner{Queue: "duel", Epoch: epoch(2)}},
		"the same ticket": {
			owner: matchmaking.Owner{Queue: "duel", Epoch: epoch(2)}, ticket: &matchmaking.Ticket{Epoch: epoch(1)},
			want: []string{"ann " + epoch(2).String()},
		},
		"a later ticket that a replica lacks": {
			owner: matchmaking.Owner{Queue: "duel", Epoch: epoch(2)}, ticket: &matchmaking.Ticket{Epoch: epoch(1),
				CreateTime: time.Unix(1, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T, w *world, q *Queue) {
				w.owner, w.ticket = c.owner, c.ticket
				w.publish = func(e *matchmaking.OutboxEntry) error {
					if e.Epoch == epoch(1) {
						return matchmaking.ErrLaterTicket
					}
					return nil
				}
				q.Offer(w.assign("ann"))
				after(removeDelay)
				require.Equal(t, c.want, w.done())
				require.Zero(t, w.outgoing())
			})
		})
	}
}

// assignMany adds n assignments to the outbox, each with the given number of bytes of content.
func (w *world) assignMany(n, bytes int) []matchmaking.OutboxEntry {
	tickets := make([]string, n)
	for i := range tickets {
		tickets[i] = fmt.Sprintf("t%05d", i)
	}
	entries := w.assign(tickets...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		entries[i].Content = make([]byte, bytes)
		w.entries[len(w.entries)-n+i].Content = entries[i].Content
	}
	return entries
}

// TestMuchIsPublishedTogether checks that batches stay within their bounds: entries without room wait in the outbox
// until there is room, and are published long before the next pass of the backstop. Nothing is published twice.
func TestMuchIsPublishedTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ entries, bytes, batch, held int }{
		"many":  {entries: 3*maxHeld + 7, bytes: 100, batch: maxBatch, held: maxHeld},
		"large": {entries: 100, bytes: 1 << 19, batch: 2, held: heldBytes >> 19},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T, w *world, q *Queue) {
				free := make(chan struct{})
				w.publish = func(*matchmaking.OutboxEntry) error {
					w.mu.Unlock()
					<-free
					w.mu.Lock()
					return nil
				}
				q.Offer(w.assignMany(c.entries, c.bytes))
				synctest.Wait()
				require.Len(t, q.relay.pendingOf("duel"), c.held)
				w.repair()
				close(free)
				after(testAge / 2)
				require.Equal(t, c.entries, len(w.done()))
				require.Zero(t, w.outgoing())
				require.Equal(t, c.batch, slices.Max(w.batches))
				require.Len(t, w.lags, c.entries, "each is published once")
			})
		})
	}
}

func TestCloseDeliversWhatIsPending(t *testing.T) {
	t.Parallel()
	test(t, func(_ *testing.T, w *world, q *Queue) {
		q.Offer(w.assign("ann", "ben")) // the relay is closed at once, and the outbox must be empty
	})
}
