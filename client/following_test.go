package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// requestsOf counts requests by the last segments of their paths.
type requestsOf struct {
	http.RoundTripper
	streams, acks, polls atomic.Int64
}

func (r *requestsOf) RoundTrip(req *http.Request) (*http.Response, error) {
	switch path := req.URL.Path; {
	case strings.HasSuffix(path, "/stream"):
		r.streams.Add(1)
	case strings.HasSuffix(path, "/ack"):
		r.acks.Add(1)
	case strings.HasSuffix(path, "/next"), strings.HasSuffix(path, "/fetch"):
		r.polls.Add(1)
	}
	return r.RoundTripper.RoundTrip(req)
}

// TestConsumeStreams reads messages on one stream of the service, those that are there and those that come, and
// acknowledges each.
func TestConsumeStreams(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	requests := &requestsOf{RoundTripper: transport}
	c := newClient(t, newWorld(), client.WithHTTPClient(&http.Client{Transport: requests}))
	ctx := t.Context()
	const last = 500
	publish := func(from, to int) {
		for n := from; n <= to; n += 100 {
			drafts := make([]client.Draft, 100)
			for i := range drafts {
				drafts[i].Content = fmt.Append(nil, n+i)
			}
			if _, err := c.PublishBatch(ctx, "lobby", drafts); err != nil {
				panic(err)
			}
		}
	}
	_, err := c.Subscribe(ctx, "lobby", "ann", client.Latest)
	require.NoError(t, err)
	publish(1, 200)
	var got []clock.Clock
	consumer := consumption(&got, func(at clock.Clock) error {
		if at == 100 {
			go publish(201, last)
		}
		return stopAt(last)(at)
	})
	consumer.Channel, consumer.Subscriber = "lobby", "ann"
	require.NoError(t, c.Consume(ctx, consumer))
	require.Len(t, got, last)
	for i, at := range got {
		require.EqualValues(t, i+1, at)
	}
	require.Zero(t, requests.polls.Load())
	require.NotZero(t, requests.acks.Load())
	d, err := c.Describe(ctx, "lobby")
	require.NoError(t, err)
	require.Equal(t, []client.SubscriberLag{{Name: "ann", Mark: last, Lag: 0}}, d.Subscribers)
}

// TestConsumeManyStreams is the same for several channels.
func TestConsumeManyStreams(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	requests := &requestsOf{RoundTripper: transport}
	c := newClient(t, newWorld(), client.WithHTTPClient(&http.Client{Transport: requests}))
	ctx := t.Context()
	var from []client.Source
	for _, name := range []string{"x", "y", "z"} {
		_, err := c.Subscribe(ctx, name, "ann", client.Latest)
		require.NoError(t, err)
		from = append(from, client.Source{Channel: name, Subscriber: "ann"})
	}
	publish := func() {
		for _, source := range from {
			for range 20 {
				if _, err := c.Publish(ctx, source.Channel, client.Draft{Content: []byte("1")}); err != nil {
					panic(err)
				}
			}
		}
	}
	publish()
	got := map[string]int{}
	all := 0
	require.NoError(t, c.ConsumeMany(ctx, client.ManyConsumer{From: from, Handle: func(_ context.Context,
		of client.Source, m client.Message) error {
		got[of.Channel]++
		require.EqualValues(t, got[of.Channel], m.Clock)
		if all++; all == 60 {
			go publish()
		}
		if all == 120 {
			return client.ErrStop
		}
		return nil
	}}))
	require.EqualValues(t, 1, requests.streams.Load())
	for _, source := range from {
		d, err := c.Describe(ctx, source.Channel)
		require.NoError(t, err)
		require.Equal(t, []client.SubscriberLag{{Name: "ann", Mark: 40, Lag: 0}}, d.Subscribers)
	}
}

// finish calls Consume, which must end before a silent stream does.
func finish(t *testing.T, c *client.Client, consumer client.Consumer) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := c.Consume(ctx, consumer)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	return err
}

// TestAcknowledgementsGoTogether: messages are handled while an acknowledgement is under way, up to Max of them, and
// then acknowledged by one request.
func TestAcknowledgementsGoTogether(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]string{
		0: "stream 1 2 3 4 5 6 7 8 ack m8", 4: "stream 1 2 ack m2 3 4 ack m4 5 6 ack m6 7 8 ack m8",
		3: "stream 1 2 ack m2 3 4 ack m4 5 6 ack m6 7 8 ack m8",
		1: "stream 1 ack m1 2 ack m2 3 ack m3 4 ack m4 5 ack m5 6 ack m6 7 ack m7 8 ack m8",
	} {
		synctest.Test(t, func(t *testing.T) {
			var messages []string
			for n := range 8 {
				messages = append(messages, message(fmt.Sprint("m", n+1)))
			}
			s := newStreamer(t, streamOf(messages...))
			s.Close() // it has no network
			underWay := 0
			s.ack = func(w http.ResponseWriter, r *http.Request) {
				underWay++
				require.Equal(t, 1, underWay)
				time.Sleep(time.Second) //nolint:forbidigo // the time of synctest
				underWay--
				answer(http.StatusNoContent, nil)(w, r)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			consumer := consumption(new([]clock.Clock), func(at clock.Clock) error {
				synctest.Wait() // until all have arrived, and an acknowledgement is under way if there is one
				s.mu.Lock()
				defer s.mu.Unlock()
				s.log = append(s.log, at.String())
				return nil
			})
			consumer.Max = limit
			require.ErrorIs(t, inMemory(t, s).Consume(ctx, consumer), context.DeadlineExceeded)
			require.Equal(t, want, strings.Join(s.requests(), " "), "with a Max of %d", limit)
		})
	}
}

// TestConsumeContinues: what follows when a stream ends.
func TestConsumeContinues(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", wire.MediaEvents)
		_, _ = io.WriteString(w, message("m1")+"id: m2\nevent: message\ndata: {")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	rest := answer(http.StatusOK, client.Delivery{ReceiptHandle: "m2", Messages: []client.Message{
		{ID: "m2", Clock: 2, Content: []byte("1")}}})
	refused := problem(404, fault.SlugNoSubscriber, 0)
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		streams   []http.HandlerFunc
		poll, ack http.HandlerFunc
		handle    error // of message 2
		want      error
		skipped   []uint64
		handled   []clock.Clock
		requests  []string // message 1 may be acknowledged by a request of its own instead of the next poll
		last      string   // of all requests, if not of those
	}{
		"window": {streams: []http.HandlerFunc{streamOf(message("m1"), end("window")), streamOf(message("m2"))},
			handle: client.ErrStop, handled: []clock.Clock{1, 2}, requests: []string{"stream", "stream m1", "ack m2"}},
		"age": {streams: []http.HandlerFunc{streamOf(message("m1"), end("age")), streamOf(message("m2"))},
			handle: client.ErrStop, handled: []clock.Clock{1, 2}, requests: []string{"stream", "stream m1", "ack m2"}},
		"drain": {streams: []http.HandlerFunc{streamOf(message("m1"), end("drain"))}, poll: rest,
			handle: client.ErrStop, handled: []clock.Clock{1, 2}, requests: []string{"stream", "next m1", "ack m2"}},
		"cut in an event": {streams: []http.HandlerFunc{cut}, poll: rest,
			handle: client.ErrStop, handled: []clock.Clock{1, 2}, requests: []string{"stream", "next m1", "ack m2"}},
		"removed": {streams: []http.HandlerFunc{streamOf(message("m1"), end("removed"))}, poll: refused,
			want: client.ErrNoSubscriber, handled: []clock.Clock{1}, requests: []string{"stream", "next m1"}},
		"older": {streams: []http.HandlerFunc{problem(404, fault.SlugNoPath, 0)}, poll: rest,
			handle: client.ErrStop, handled: []clock.Clock{2}, requests: []string{"stream", "next", "ack m2"}},
		"not JSON": {streams: []http.HandlerFunc{streamOf("event: message\ndata: {\n\n")}, poll: rest,
			handle: client.ErrStop, handled: []clock.Clock{2}, requests: []string{"stream", "next", "ack m2"}},
		"no message": {streams: []http.HandlerFunc{streamOf("event: message\nid: m2\ndata: null\n\n")}, poll: rest,
			handle: client.ErrStop, handled: []clock.Clock{2}, requests: []string{"stream", "next", "ack m2"}},
		"no gap": {streams: []http.HandlerFunc{streamOf("event: gap\nid: m2\ndata: null\n\n", message("m2"))}, poll: rest,
			handle: client.ErrStop, handled: []clock.Clock{2}, requests: []string{"stream", "next", "ack m2"}},
		"handling fails": {streams: []http.HandlerFunc{streamOf(message("m1"), message("m2"))}, handle: broken, want: broken,
			handled: []clock.Clock{1, 2}, requests: []string{"stream"}, last: "ack m1"},
		"gaps": {streams: []http.HandlerFunc{streamOf(gap("m1", "expired", 3), gap("m1", "lost", 0), gap("m1", "damaged", 4),
			message("m2"))}, handle: client.ErrStop, skipped: []uint64{3, 0, 4}, handled: []clock.Clock{2}, requests: []string{"stream", "ack m2"}},
		"the receipt is lost": {streams: []http.HandlerFunc{streamOf(message("m1"), message("m2"))},
			ack: problem(409, fault.SlugReceiptEpoch, 0), handle: client.ErrStop, handled: []clock.Clock{1, 2},
			requests: []string{"stream", "ack m2"}},
		"no acknowledgement": {streams: []http.HandlerFunc{streamOf(message("m1"))}, ack: refused, poll: refused,
			want: client.ErrNoSubscriber, handled: []clock.Clock{1}, requests: []string{"stream", "next m1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStreamer(t, tt.streams...)
			s.poll = tt.poll
			if tt.ack != nil {
				s.ack = tt.ack
			}
			var got []clock.Clock
			consumer := consumption(&got, func(at clock.Clock) error {
				if at == 2 {
					return tt.handle
				}
				return nil
			})
			var skipped []uint64
			consumer.Gap = func(gap client.Gap) { skipped = append(skipped, gap.Count) }
			err := finish(t, s.client(t), consumer)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, tt.handled, got)
			require.Equal(t, tt.skipped, skipped)
			var requests []string
			acknowledged := false
			for _, r := range s.requests() {
				switch {
				case r == "ack m1":
					acknowledged = true
				case r == "next" && acknowledged:
					requests = append(requests, "next m1")
				default:
					requests = append(requests, r)
				}
			}
			require.Equal(t, tt.requests, requests)
			if tt.last != "" {
				all := s.requests()
				require.Equal(t, tt.last, all[len(all)-1])
			}
		})
	}
}

// TestConsumeStreamEnds with its context, within the grace of the last acknowledgement.
func TestConsumeStreamEnds(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]string{0: "stream", time.Minute: "ack m2"} {
		s := newStreamer(t, streamOf(message("m1"), message("m2"), message("m3")))
		s.ack = func(w http.ResponseWriter, r *http.Request) { // those of m1 and m2 are interrupted
			if len(s.requests()) > 2 || grace > 0 {
				answer(http.StatusNoContent, nil)(w, r)
				return
			}
			<-r.Context().Done()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []clock.Clock
		consumer := consumption(&got, func(at clock.Clock) error {
			if at == 2 {
				cancel()
			}
			return nil
		})
		consumer.AckGrace = grace
		require.ErrorIs(t, s.client(t).Consume(ctx, consumer), context.Canceled)
		require.Equal(t, []clock.Clock{1, 2}, got)
		require.Contains(t, s.requests(), want)
		if grace == 0 {
			require.NotContains(t, s.requests(), "ack m2")
		}
		cancel()
	}
}

// TestConsumeManyWithoutOne: the problem of a source is that of a poll. When all receipts are acknowledged, the others
// have a stream again.
func TestConsumeManyWithoutOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStreamer(t, streamOf("event: problem\ndata: {\"channel\":\"b\",\"subscriber\":\"s\",\"status\":404}\n\n"),
			streamOf(message("a2")))
		s.Close() // it has no network
		polls := []http.HandlerFunc{deliveries(failed("b", 404, fault.SlugNoSubscriber), delivered("a", "a1")),
			deliveries(), deliveries()} // the last one is asked whether what a stream begins with is lost
		s.poll = func(w http.ResponseWriter, r *http.Request) {
			poll := polls[0]
			polls = polls[1:]
			time.Sleep(2 * time.Second) //nolint:forbidigo // the time of synctest: a stream is due again
			poll(w, r)
		}
		var handled, problems []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, inMemory(t, s).ConsumeMany(ctx, client.ManyConsumer{
			From: []client.Source{sourceA, sourceB},
			Handle: func(_ context.Context, of client.Source, m client.Message) error {
				handled = append(handled, of.Channel+" "+m.ID)
				if m.ID == "a2" {
					return client.ErrStop
				}
				return nil
			},
			Problem: func(p *client.SourceError) error {
				problems = append(problems, p.Channel)
				return nil
			},
		}))
		require.Equal(t, []string{"a a1", "a a2"}, handled)
		require.Equal(t, []string{"b"}, problems)
		require.Equal(t, []string{"stream", "fetch  a= b=", "fetch at once a=after-a1", "fetch at once a=", "stream", "ack a2"},
			s.requests())
	})
}

// TestConsumePolls: where there are no streams, few requests ask for one, and a service that has become newer is found.
func TestConsumePolls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		none http.HandlerFunc
		soon bool // a stream may be possible
	}{
		"older":     {problem(404, fault.SlugNoPath, 0), false},
		"held back": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		"cut":       {streamOf(end("drain")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStreamer(t, tt.none)
				s.Close() // it has no network
				began := time.Now()
				s.poll = func(w http.ResponseWriter, r *http.Request) {
					if time.Since(began) > time.Minute {
						time.Sleep(20 * time.Second) //nolint:forbidigo // the time of synctest
					}
					answer(http.StatusOK, client.Delivery{Messages: []client.Message{}})(w, r)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				var got []clock.Clock
				ended := make(chan error)
				go func() { ended <- inMemory(t, s).Consume(ctx, consumption(&got, stopAt(1))) }()
				time.Sleep(40 * time.Second) //nolint:forbidigo // the time of synctest
				tried := strings.Count(strings.Join(s.requests(), "\n"), "stream")
				require.Equal(t, tt.soon, tried >= 6, "the first pauses are of up to 1, 2, 4, 8, 16 s, or minutes")
				time.Sleep(8 * time.Hour) //nolint:forbidigo // the time of synctest
				tried = strings.Count(strings.Join(s.requests(), "\n"), "stream")
				require.Less(t, tried, 8*6*3, "the pauses are of up to 10 minutes, at random")
				require.Greater(t, tried, 8*6/2)
				s.mu.Lock()
				s.streams = []http.HandlerFunc{streamOf(message("m1"))}
				s.mu.Unlock()
				require.NoError(t, <-ended)
				require.Equal(t, []clock.Clock{1}, got)
			})
		})
	}
}

// TestConsumeAsksForTokens: a stream that ends with its credential is followed by one with the next.
func TestConsumeAsksForTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		with := func(stream http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				tokens = append(tokens, r.Header.Get("Authorization"))
				stream(w, r)
			}
		}
		s := newStreamer(t, with(streamOf(message("m1"), end("credential"))), with(streamOf(message("m2"))))
		s.Close() // it has no network
		s.poll = func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second) //nolint:forbidigo // the time of synctest: a stream is due again
			answer(http.StatusOK, client.Delivery{Messages: []client.Message{}})(w, r)
		}
		c := newClient(t, "http://service", client.WithHTTPClient(&http.Client{Transport: memory{s}}),
			client.WithTokenSource(func(context.Context) (string, error) {
				if len(tokens) == 0 {
					return "first", nil
				}
				return "second", nil
			}))
		var got []clock.Clock
		require.NoError(t, c.Consume(t.Context(), consumption(&got, stopAt(2))))
		require.Equal(t, []clock.Clock{1, 2}, got)
		require.Equal(t, []string{"Bearer first", "Bearer second"}, tokens)
	})
}

// TestConsumeWithoutStreams: a client can do without.
func TestConsumeWithoutStreams(t *testing.T) {
	t.Parallel()
	limited := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(limited.CloseIdleConnections)
	for _, option := range []client.Option{client.WithoutStreams(),
		client.WithHTTPClient(&http.Client{Transport: limited})} {
		s := newStreamer(t, streamOf(message("m1")))
		s.poll = answer(http.StatusOK, client.Delivery{ReceiptHandle: "m1", Messages: []client.Message{
			{ID: "m1", Clock: 1, Content: []byte("1")}}})
		require.NoError(t, finish(t, s.client(t, option), consumption(new([]clock.Clock), stopAt(1))))
		require.Equal(t, []string{"next", "ack m1"}, s.requests())
	}
}

// TestReadAhead: what is read and not handled has a bound.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		var written atomic.Int64
		event := strings.Replace(message("m1"), "1.0", strings.Repeat("1", size), 1)
		s := newStreamer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", wire.MediaEvents)
			for {
				n, err := io.WriteString(w, event)
				if err != nil {
					return
				}
				written.Add(int64(n))
			}
		})
		s.Close() // it has no network
		ctx, cancel := context.WithCancel(t.Context())
		consumer := consumption(new([]clock.Clock), func(clock.Clock) error {
			synctest.Wait()
			require.Less(t, written.Load(), int64(client.ReadAhead+3*size))
			require.Greater(t, written.Load(), int64(client.ReadAhead-size))
			cancel()
			return nil
		})
		require.ErrorIs(t, inMemory(t, s).Consume(ctx, consumer), context.Canceled)
	})
}
