package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// liar is a service that keeps one channel in memory, and breaks its promises on purpose.
type liar struct {
	forgets func(clock int) bool // whether messages are dropped, although their publishes succeed
	repeats bool                 // whether each subscriber's first acknowledgement succeeds without effect
	fails   bool                 // whether every other publish is stored and answered with 503

	mu       sync.Mutex
	messages []json.RawMessage // by clock, from 1
	clocks   map[string]int    // by message ID
	marks    map[string]int    // by subscriber
	ignored  map[string]bool   // subscribers whose acknowledgement was ignored
	tries    int
}

func newLiar() *liar {
	return &liar{
		forgets: func(int) bool { return false },
		clocks:  map[string]int{}, marks: map[string]int{}, ignored: map[string]bool{},
	}
}

// ServeHTTP is http.Handler's.
func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/socket" {
		l.socket(w, r)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var body struct {
		ID            string
		Content       json.RawMessage
		ReceiptHandle string
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // subscribing needs none of it
	switch path := strings.Split(r.URL.Path, "/"); path[len(path)-1] {
	case "messages":
		l.publish(w, body.ID, body.Content)
	case "next":
		l.ack(path[5], body.ReceiptHandle)
		l.fetch(w, path[5])
	case "stream":
		l.stream(w, path[5])
	case "ack":
		l.ack(path[5], body.ReceiptHandle)
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = fmt.Fprint(w, `{}`)
	}
}

func (l *liar) publish(w http.ResponseWriter, id string, content json.RawMessage) {
	clock, duplicate := l.clocks[id]
	if !duplicate {
		clock = len(l.messages) + 1
		l.clocks[id] = clock
		message, _ := json.Marshal(map[string]any{"id": id, "clock": clock, "content": content})
		if l.forgets(clock) {
			message = nil
		}
		l.messages = append(l.messages, message)
	}
	if l.tries++; l.fails && l.tries%2 == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintf(w, `{"clock":%d,"duplicate":%t}`, clock, duplicate)
}

func (l *liar) ack(subscriber, receipt string) {
	clock, _ := strconv.Atoi(receipt)
	if clock > 4 && l.repeats && !l.ignored[subscriber] {
		l.ignored[subscriber] = true
		return
	}
	l.marks[subscriber] = max(l.marks[subscriber], clock)
}

func (l *liar) fetch(w http.ResponseWriter, subscriber string) {
	var some []json.RawMessage
	for _, m := range l.messages[l.marks[subscriber]:] {
		if m != nil {
			some = append(some, m)
		}
	}
	answer := map[string]any{"messages": some}
	if len(l.messages) > l.marks[subscriber] {
		answer["receiptHandle"] = strconv.Itoa(len(l.messages))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// stream writes a stream that ends when nothing is left.
func (l *liar) stream(w http.ResponseWriter, subscriber string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for n, m := range l.messages[l.marks[subscriber]:] {
		if m != nil {
			_, _ = fmt.Fprintf(w, "id: %d\nevent: message\ndata: %s\n\n", l.marks[subscriber]+n+1, m)
		}
	}
	_, _ = fmt.Fprint(w, "event: end\ndata: {\"reason\":\"age\"}\n\n")
}

// socket serves a WebSocket with one subscription, which is answered with what there is and all acknowledgements.
func (l *liar) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.SocketProtocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow() //nolint:errcheck // the client has gone
	var f frame
	if wsjson.Read(r.Context(), conn, &f) != nil {
		return
	}
	l.mu.Lock()
	mark := l.marks[f.Subscriber]
	some := l.messages[mark:]
	l.mu.Unlock()
	sent := 0
	for n, m := range some {
		if m == nil {
			continue
		}
		sent++
		text := fmt.Appendf(nil, `{"type":"message","channel":%q,"subscriber":%q,"receiptHandle":"%d",%s`, f.Channel,
			f.Subscriber, mark+n+1, m[1:])
		if conn.Write(r.Context(), websocket.MessageText, text) != nil {
			return
		}
	}
	for n := ackEvery; n <= sent; n += ackEvery {
		if wsjson.Read(r.Context(), conn, &f) != nil {
			return
		}
		l.mu.Lock()
		l.ack(f.Subscriber, f.ReceiptHandle)
		l.mu.Unlock()
		if wsjson.Write(r.Context(), conn, map[string]any{"type": "acked", "ref": f.Ref}) != nil {
			return
		}
	}
	_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"end","reason":"age"}`))
}

// readers is how many subscribers use has: two that poll, two that read streams, and one that reads WebSockets.
const readers = 5

// use runs subscribers and a publisher until the given number of messages was acknowledged and none is missing, or
// enough reports true.
func use(
	t *testing.T, service http.Handler, enough func(*oracle.Messages) bool) (oracle.MessageVerdict, oracle.RequestVerdict,
) {
	t.Helper()
	server := httptest.NewServer(service)
	defer server.Close()
	requests := oracle.NewRequests()
	servers, err := connect([]endpoint{{URL: server.URL}}, requests)
	require.NoError(t, err)
	defer servers.Close()
	l := &clients{Servers: servers, Requests: requests, Messages: oracle.NewMessages(oracle.Rules{})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	publishing, stop := context.WithCancel(ctx)
	require.NoError(t, l.StartChannels(ctx, publishing, channelLoad{Channels: 1, Publishers: 1, Subscribers: 2}))
	assert.Eventually(t, func() bool { return l.Messages.Verdict().Acknowledged >= 20 }, time.Minute, time.Millisecond)
	stop()
	assert.Eventually(t, func() bool { return l.Busy() == 0 && enough(l.Messages) }, time.Minute, time.Millisecond)
	cancel()
	l.Wait()
	return l.Messages.Verdict(), requests.Verdict()
}

func delivered(m *oracle.Messages) bool { return m.Missing() == 0 }

func TestAnHonestServicePasses(t *testing.T) {
	t.Parallel()
	v, _ := use(t, newLiar(), delivered)
	require.Zero(t, v.Faults(), "%+v", v)
	require.GreaterOrEqual(t, v.Acknowledged, 20)
	require.Equal(t, readers*v.Acknowledged, v.Delivered)
}

// A publisher that gets no answer tries again with the same ID.
func TestPublishersRepeatWhatFailed(t *testing.T) {
	t.Parallel()
	service := newLiar()
	service.fails = true
	v, requests := use(t, service, delivered)
	require.Zero(t, v.Faults(), "%+v", v)
	require.Equal(t, readers*v.Acknowledged, v.Delivered)
	require.GreaterOrEqual(t, requests.PublishesFailed, 20)
	require.Equal(t, map[string]int{"503": requests.PublishesFailed}, requests.Reasons)
}

func TestALostMessageIsSeen(t *testing.T) {
	t.Parallel()
	service := newLiar()
	service.forgets = func(clock int) bool { return clock == 7 }
	v, _ := use(t, service, func(m *oracle.Messages) bool { return m.Missing() == readers })
	require.Equal(t, readers, v.Lost, "%+v", v)
	require.Equal(t, readers, v.Faults())
}

func TestAnIgnoredAcknowledgementIsSeen(t *testing.T) {
	t.Parallel()
	service := newLiar()
	service.repeats = true
	v, _ := use(t, service, func(m *oracle.Messages) bool { return m.Missing() == 0 && m.Verdict().Doubled > 0 })
	require.Positive(t, v.Doubled, "%+v", v)
	require.Zero(t, v.Lost)
}
