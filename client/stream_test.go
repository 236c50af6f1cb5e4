package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// streamer is a service that answers requests for streams in order, the last answer repeatedly. Its receipts are the
// IDs of messages.
type streamer struct {
	*httptest.Server
	mu      sync.Mutex
	streams []http.HandlerFunc
	log     []string         // of requests: what they ask for, and the receipts
	ack     http.HandlerFunc // of acknowledgements
	poll    http.HandlerFunc // of polls; nil: they find nothing
}

func newStreamer(t *testing.T, streams ...http.HandlerFunc) *streamer {
	t.Helper()
	s := &streamer{streams: streams, ack: answer(http.StatusNoContent, nil)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *streamer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, receipt := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], r.Header.Get("Last-Event-ID")
	var body struct {
		wire.NextRequest
		From []client.Source
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(http.ErrAbortHandler)
		}
		receipt = body.ReceiptHandle
		if len(body.From) > 0 && body.Wait == 0 {
			receipt = "at once"
		}
		for _, from := range body.From {
			receipt += " " + from.Channel + "=" + from.ReceiptHandle
		}
	}
	s.mu.Lock()
	s.log = append(s.log, strings.TrimSpace(what+" "+receipt))
	handle := s.poll
	switch {
	case what == "stream":
		handle = s.streams[0]
		if len(s.streams) > 1 {
			s.streams = s.streams[1:]
		}
	case what == "ack":
		handle = s.ack
	case handle == nil && body.From != nil:
		handle = deliveries()
	case handle == nil:
		handle = answer(http.StatusOK, client.Delivery{Messages: []client.Message{}})
	}
	s.mu.Unlock()
	handle(w, r)
}

func (s *streamer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

func (s *streamer) client(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, s.URL, append([]client.Option{client.WithRetry(quick)}, opts...)...)
}

// streamOf is a stream with a ping and these events. It then ends if the last one is an end, and else stays open.
func streamOf(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaEvents)
		text := "retry: 1000\n\n: ping\n\n" + strings.Join(events, "")
		_, _ = w.Write([]byte(text))
		if strings.Contains(text, "event: end") {
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// message is an event of one source, and messageOf of one of several.
func message(id string) string {
	return fmt.Sprintf("id: %s\nevent: message\ndata: {\"id\":%[1]q,\"clock\":%s,\"content\":{ \"n\": 1.0 }}\n\n", id,
		strings.TrimLeft(id, "abm"))
}

func messageOf(channel, id string) string {
	return fmt.Sprintf("event: message\ndata: {\"channel\":%q,\"subscriber\":\"s\",\"receiptHandle\":%q,\"id\":%[2]q,"+
		"\"clock\":%s,\"content\":1}\n\n", channel, id, strings.TrimLeft(id, "abm"))
}

func gap(id, reason string, count int) string {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Sprintf("%sevent: gap\ndata: {\"reason\":%q,\"count\":%d}\n\n", id, reason, count)
}

func end(reason string) string { return fmt.Sprintf("event: end\ndata: {\"reason\":%q}\n\n", reason) }

// collect reads a stream to its end, or up to most arrivals. Arrivals are receipts with their clocks, or gaps.
func collect(t *testing.T, c *client.Client, limit int, from ...client.Source) (all []string, err error) {
	t.Helper()
	for a, err := range c.Stream(t.Context(), from, client.StreamOptions{Window: 300}) {
		switch {
		case err != nil:
			return all, err
		case a.Gap != nil:
			all = append(all, fmt.Sprintf("%s %s %d", a.ReceiptHandle, a.Gap.Reason, a.Gap.Count))
		default:
			require.Equal(t, "s", a.Subscriber)
			all = append(all, fmt.Sprintf("%s %s %d %s", a.ReceiptHandle, a.Channel, a.Message.Clock, a.Message.Content))
		}
		if len(all) == limit {
			break
		}
	}
	return all, nil
}

var sourceA, sourceB = client.Source{Channel: "a", Subscriber: "s"}, client.Source{Channel: "b", Subscriber: "s"}

func TestStream(t *testing.T) {
	t.Parallel()
	var target, accept string
	s := newStreamer(t, func(w http.ResponseWriter, r *http.Request) {
		target, accept = r.URL.RequestURI(), r.Header.Get("Accept")
		streamOf(gap("", "expired", 3), message("m4"), "event: of the future\ndata: 1\n\n", ": ping\n\n", message("m5"),
			gap("m5", "lost", 0), end("drain"))(w, r)
	})
	acknowledged := sourceA
	acknowledged.ReceiptHandle = "m0"
	all, err := collect(t, s.client(t), 0, acknowledged)
	require.Equal(t, []string{" expired 3", `m4 a 4 { "n": 1.0 }`, `m5 a 5 { "n": 1.0 }`, "m5 lost 0"}, all)
	require.EqualError(t, err, `stream a/s: event "end": the service has ended the stream: drain`)
	var ended *client.StreamEnd
	require.ErrorAs(t, err, &ended)
	require.Equal(t, client.EndDrain, ended.Reason)
	require.Equal(t, "/v1/channels/a/subscribers/s/stream?ack=resume&window=300", target)
	require.Contains(t, accept, wire.MediaEvents)
	require.Equal(t, []string{"stream m0"}, s.requests())

	all, err = collect(t, s.client(t), 1, sourceA)
	require.NoError(t, err, "the caller has ended it")
	require.Len(t, all, 1)
}

// TestStreamOfMany: receipts are acknowledged before, and the problem of a source ends it.
func TestStreamOfMany(t *testing.T) {
	t.Parallel()
	var target string
	s := newStreamer(t, func(w http.ResponseWriter, r *http.Request) {
		target = r.URL.RequestURI()
		streamOf("event: gap\ndata: {\"channel\":\"b\",\"subscriber\":\"s\",\"reason\":\"expired\",\"count\":2,"+
			"\"receiptHandle\":\"m6\"}\n\n", messageOf("b", "m7"), "event: problem\ndata: {\"channel\":\"a\",\"subscriber\":\"s\",\"type\":"+
			"\"urn:tidemark:problem:subscriber-not-found\",\"status\":404,\"detail\":\"no\"}\n\n")(w, r)
	})
	acknowledged := []client.Source{sourceA, sourceB}
	acknowledged[1].ReceiptHandle = "m6"
	all, err := collect(t, s.client(t), 0, acknowledged...)
	require.Equal(t, []string{"m6 expired 2", "m7 b 7 1"}, all)
	require.ErrorIs(t, err, client.ErrNoSubscriber)
	var problem *client.SourceError
	require.ErrorAs(t, err, &problem)
	require.Equal(t, "a", problem.Channel)
	require.Equal(t, "/v1/stream?ack=resume&sub=a%2Fs&sub=b%2Fs&window=300", target)
	require.Equal(t, []string{"fetch at once b=m6", "stream"}, s.requests())
}

// TestStreamFails with an error that says why.
func TestStreamFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   error
		text   string
	}{
		"refused":      {problem(404, fault.SlugNoSubscriber, 0), client.ErrNoSubscriber, "404 subscriber-not-found"},
		"older":        {problem(404, fault.SlugNoPath, 0), client.ErrNoStream, "404"},
		"another host": {answer(405, nil), client.ErrNoStream, "405"},
		"not a stream": {answer(200, "{}"), client.ErrNoStream, `the status 200 and the type "application/json"`},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", wire.MediaEvents)
			_, _ = w.Write([]byte("id: m1\nevent: message\ndata: {\"id\":"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, client.ErrUnreachable, "unexpected EOF"},
		"not JSON": {streamOf("event: message\ndata: {\n\n"), nil, `event "message"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newStreamer(t, tt.answer).client(t)
			all, err := collect(t, c, 0, sourceA)
			require.Empty(t, all)
			require.ErrorContains(t, err, tt.text)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
		})
	}
}

// TestSilentStream: a connection that has died without a sign ends the stream, and so does a proxy that holds it back.
func TestSilentStream(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer  http.HandlerFunc
		arrived int
		after   time.Duration
	}{
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, 5 * time.Second},
		"held back": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", wire.MediaEvents)
			w.WriteHeader(http.StatusOK)
			<-r.Context().Done()
		}, 0, 5 * time.Second},
		"died": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", wire.MediaEvents)
			for range 3 {
				_, _ = w.Write([]byte(": ping\n\n"))
				time.Sleep(15 * time.Second) //nolint:forbidigo // the time of synctest
			}
			streamOf(message("m1"))(w, r)
		}, 1, (3*15 + 35) * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				all, err := collect(t, inMemory(t, tt.answer), 0, sourceA)
				require.Len(t, all, tt.arrived)
				require.ErrorIs(t, err, client.ErrUnreachable)
				require.ErrorContains(t, err, "nothing arrived for too long")
				require.Equal(t, tt.after, time.Since(began))
			})
		})
	}
}

// inMemory returns a client of a service without a network, for bubbles.
func inMemory(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	return newClient(t, "http://service", client.WithHTTPClient(&http.Client{Transport: memory{h}}))
}

// memory is a transport that calls a handler.
type memory struct{ http.Handler }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	body, in := io.Pipe()
	w := &memoryWriter{PipeWriter: in, header: http.Header{}, answered: make(chan int, 1)}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	stop := context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(context.Cause(r.Context())) })
	go func() {
		m.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		stop()
		_ = in.Close()
	}()
	select {
	case status := <-w.answered:
		return &http.Response{StatusCode: status, Header: w.header, Body: body, Request: r}, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// memoryWriter writes an answer.
type memoryWriter struct {
	*io.PipeWriter

	header   http.Header
	once     sync.Once
	answered chan int // the status
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) Flush()              {}

func (w *memoryWriter) WriteHeader(status int) { w.once.Do(func() { w.answered <- status }) }

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.PipeWriter.Write(p)
}

// TestStreamAgainstTheService reads one source and two, and acknowledges.
func TestStreamAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	var from []client.Source
	for _, name := range []string{"one", "two"} {
		_, err := c.Subscribe(ctx, name, "s", client.Latest)
		require.NoError(t, err)
		_, err = c.PublishBatch(ctx, name, []client.Draft{{Content: []byte(`{ "n": 1.0 }`)}, {Content: []byte(`2`)}})
		require.NoError(t, err)
		from = append(from, client.Source{Channel: name, Subscriber: "s"})
	}
	for _, sources := range [][]client.Source{from[:1], from} {
		for range 2 { // it moves no mark
			var got []string
			for a, err := range c.Stream(ctx, sources, client.StreamOptions{}) {
				require.NoError(t, err)
				require.NotEmpty(t, a.ReceiptHandle)
				got = append(got, fmt.Sprintf("%s %d %s", a.Channel, a.Message.Clock, a.Message.Content))
				if len(got) == 2*len(sources) {
					break
				}
			}
			require.Subset(t, got, []string{`one 1 { "n": 1.0 }`, "one 2 2"})
		}
	}
	full := 0
	for a, err := range c.Stream(ctx, from[:1], client.StreamOptions{Window: 1}) {
		if err != nil {
			var end *client.StreamEnd
			require.ErrorAs(t, err, &end)
			require.Equal(t, client.EndWindow, end.Reason)
			break
		}
		full++
		from[0].ReceiptHandle = a.ReceiptHandle
	}
	require.Equal(t, 1, full)
	for a, err := range c.Stream(ctx, from[:1], client.StreamOptions{Window: 1}) {
		require.NoError(t, err)
		require.EqualValues(t, 2, a.Message.Clock, "the receipt was acknowledged")
		break
	}
	for _, err := range c.Stream(ctx, []client.Source{{Channel: "..", Subscriber: "s"}}, client.StreamOptions{}) {
		require.ErrorIs(t, err, client.ErrInvalidChannel)
	}
}
