package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// queue is a service with one subscriber, and without streams. Its receipts are plain clocks.
type queue struct {
	mu       sync.Mutex
	last     int                   // the channel's clock
	mark     int                   // the subscriber's
	expired  uint64                // reported by the next fetch that finds messages
	refuse   map[string]fault.Slug // receipts that are refused once, with which slug
	asked    []int                 // max of each fetch
	failNext func() http.HandlerFunc
	idle     chan struct{} // gets a value when a fetch waits
}

// newQueue returns a queue with n messages and a client of it.
func newQueue(t *testing.T, n int) (*queue, *client.Client) {
	t.Helper()
	q := &queue{last: n, refuse: map[string]fault.Slug{}, idle: make(chan struct{}, 100)}
	s := httptest.NewServer(q)
	t.Cleanup(s.Close)
	return q, newClient(t, s.URL, client.WithRetry(quick))
}

func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if withoutStream(w, r) {
		return
	}
	var body wire.NextRequest
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(http.ErrAbortHandler)
		}
	} else {
		body.Max, _ = strconv.Atoi(r.URL.Query().Get("max"))
	}
	q.mu.Lock()
	h := q.serve(r, body)
	waits := h == nil
	q.mu.Unlock()
	if waits {
		q.idle <- struct{}{}
		<-r.Context().Done()
		return
	}
	h(w, r)
}

// serve returns the answer, or nil if there is nothing yet.
func (q *queue) serve(r *http.Request, body wire.NextRequest) http.HandlerFunc {
	if slug, ok := q.refuse[body.ReceiptHandle]; ok {
		delete(q.refuse, body.ReceiptHandle)
		return problem(409, slug, 0)
	}
	if n, err := strconv.Atoi(body.ReceiptHandle); err == nil {
		q.mark = max(q.mark, n)
	}
	if q.failNext != nil {
		if h := q.failNext(); h != nil {
			return h
		}
	}
	if strings.HasSuffix(r.URL.Path, "/ack") {
		return answer(http.StatusNoContent, nil)
	}
	q.asked = append(q.asked, body.Max)
	d := client.Delivery{Messages: []client.Message{}, Expired: q.expired}
	for n := q.mark + 1; n <= q.last && (body.Max == 0 || len(d.Messages) < body.Max); n++ {
		d.Messages = append(d.Messages, client.Message{ID: "m" + strconv.Itoa(n), Clock: clock.Clock(n),
			Content: []byte("1")})
	}
	if n := len(d.Messages); n > 0 || q.expired > 0 {
		d.ReceiptHandle, q.expired = strconv.Itoa(q.mark+n), 0
		return answer(http.StatusOK, d)
	}
	return nil
}

func (q *queue) state() (mark int, asked []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mark, q.asked
}

// consumption is a Consumer that records the clocks of its messages, and returns the result of judge.
func consumption(got *[]clock.Clock, judge func(clock.Clock) error) client.Consumer {
	return client.Consumer{Channel: "c", Subscriber: "s", Handle: func(_ context.Context, m client.Message) error {
		*got = append(*got, m.Clock)
		return judge(m.Clock)
	}}
}

// stopAt ends the consumption at a clock.
func stopAt(last clock.Clock) func(clock.Clock) error {
	return func(c clock.Clock) error {
		if c == last {
			return client.ErrStop
		}
		return nil
	}
}

func TestConsumeAcknowledgesWhatWasHandled(t *testing.T) {
	t.Parallel()
	for _, max := range []int{0, 1, 2, 3} {
		q, c := newQueue(t, 6)
		var got []clock.Clock
		consumer := consumption(&got, func(at clock.Clock) error {
			mark, _ := q.state()
			require.Less(t, mark, int(at), "acknowledged before it was handled")
			return stopAt(5)(at)
		})
		consumer.Max = max
		require.NoError(t, c.Consume(t.Context(), consumer))
		require.Equal(t, []clock.Clock{1, 2, 3, 4, 5}, got)
		mark, _ := q.state()
		require.Equal(t, 5, mark, "with a max of %d", max)
	}
}

// TestConsumeEndsWithTheErrorOfHandle acknowledges the messages handled before, and no others.
func TestConsumeEndsWithTheErrorOfHandle(t *testing.T) {
	t.Parallel()
	for last, calls := range map[clock.Clock][]int{1: {0}, 4: {0, 3}} {
		q, c := newQueue(t, 9)
		broken := errors.New("broken")
		var got []clock.Clock
		err := c.Consume(t.Context(), consumption(&got, func(at clock.Clock) error {
			if at == last {
				return broken
			}
			return nil
		}))
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, fmt.Sprintf("handle message m%d", last))
		mark, asked := q.state()
		require.EqualValues(t, last-1, mark)
		require.Equal(t, calls, asked)
	}
}

// TestConsumeAfterARefusal continues where only the receipt is lost.
func TestConsumeAfterARefusal(t *testing.T) {
	t.Parallel()
	for slug, goesOn := range map[fault.Slug]bool{
		fault.SlugReceiptSuperseded: true, fault.SlugReceiptEpoch: true, fault.SlugReceiptAhead: true,
		fault.SlugNoSubscriber: false, fault.SlugReceiptForged: false, fault.SlugInvalidWait: false,
	} {
		q, c := newQueue(t, 3)
		q.refuse["2"] = slug
		var got []clock.Clock
		consumer := consumption(&got, stopAt(3))
		consumer.Max = 1
		err := c.Consume(t.Context(), consumer)
		if goesOn {
			require.NoError(t, err)
			require.Equal(t, []clock.Clock{1, 2, 2, 3}, got, slug)
			continue
		}
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, slug, e.Slug())
		require.Equal(t, []clock.Clock{1, 2}, got)
	}
}

func TestConsumeBearsLostAnswers(t *testing.T) {
	t.Parallel()
	q, c := newQueue(t, 5)
	n := 0
	q.failNext = func() http.HandlerFunc {
		if n++; n%2 == 1 {
			return lost
		}
		return nil
	}
	var got []clock.Clock
	consumer := consumption(&got, stopAt(5))
	consumer.Max = 2
	require.NoError(t, c.Consume(t.Context(), consumer))
	require.Equal(t, []clock.Clock{1, 2, 3, 4, 5}, got)
	mark, _ := q.state()
	require.Equal(t, 5, mark)
}

func TestConsumeTellsOfExpiredMessages(t *testing.T) {
	t.Parallel()
	q, c := newQueue(t, 0)
	q.expired, q.mark = 7, 10 // all of them: the answer has only a receipt
	ctx, cancel := context.WithCancel(t.Context())
	var gaps []client.Gap
	consumer := consumption(new([]clock.Clock), stopAt(1))
	consumer.Gap = func(gap client.Gap) { gaps = append(gaps, gap) }
	go func() {
		<-q.idle
		cancel()
	}()
	require.ErrorIs(t, c.Consume(ctx, consumer), context.Canceled)
	require.Equal(t, []client.Gap{{Reason: client.GapExpired, Count: 7}}, gaps)
}

func TestConsumeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]int{time.Minute: 2, 0: 0} {
		q, c := newQueue(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		var got []clock.Clock
		consumer := consumption(&got, func(at clock.Clock) error {
			if at == 2 {
				cancel()
			}
			return nil
		})
		consumer.AckGrace = grace
		require.ErrorIs(t, c.Consume(ctx, consumer), context.Canceled)
		require.Equal(t, []clock.Clock{1, 2}, got)
		mark, _ := q.state()
		require.Equal(t, want, mark)
	}
}

func TestConsumeEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	q, c := newQueue(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-q.idle
		cancel()
	}()
	var got []clock.Clock
	require.ErrorIs(t, c.Consume(ctx, consumption(&got, stopAt(9))), context.Canceled)
	mark, _ := q.state()
	require.Equal(t, 3, mark)
}
