package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// log is a service that stores messages by their ID, and loses the first answers.
type log struct {
	mu    sync.Mutex
	lose  int
	byID  map[string]clock.Clock
	tries int
}

func (l *log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var d client.Draft
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		panic(http.ErrAbortHandler)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, duplicate := l.byID[d.ID]
	if !duplicate {
		at = clock.Clock(len(l.byID) + 1)
		l.byID[d.ID] = at
	}
	if l.tries++; l.tries <= l.lose {
		panic(http.ErrAbortHandler)
	}
	answer(http.StatusOK, client.Published{Channel: "c", ID: d.ID, Clock: at, Duplicate: duplicate})(w, r)
}

func newLog(t *testing.T, lose int) (*log, *client.Client) {
	t.Helper()
	l := &log{lose: lose, byID: map[string]clock.Clock{}}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return l, newClient(t, s.URL, client.WithRetry(quick))
}

// TestGRPCPort: a port for gRPC is reported as that, at once and without its bytes.
func TestGRPCPort(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00") // as grpc-go does
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	c := newClient(t, "http://"+l.Addr().String(), client.WithRetry(client.RetryPolicy{MaxElapsed: time.Hour,
		Notify: func(err error, _ time.Duration) { t.Errorf("tried again after: %v", err) }}))
	_, err = c.Publish(t.Context(), "c", client.Draft{Content: []byte(`1`)})
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.EqualError(t, err, "publish to c: the service can't be reached: "+
		"it speaks HTTP/2 only, as a port for gRPC does: is it the port for HTTP?")
}

func TestLostAnswerDoesntPublishTwice(t *testing.T) {
	t.Parallel()
	l, c := newLog(t, 3)
	p, err := c.Publish(t.Context(), "c", client.Draft{Content: []byte(`1`)})
	require.NoError(t, err)
	require.Equal(t, 4, l.tries)
	require.Len(t, l.byID, 1, "all tries have the same ID")
	require.Equal(t, clock.Clock(1), p.Clock)
	require.False(t, p.Duplicate, "the first message of this ID is this call's own")
	_, err = ulid.ParseStrict(p.ID)
	require.NoError(t, err)
}

// TestRepeatedCalls: with an ID of the caller's the second is a duplicate, without one they are two messages.
func TestRepeatedCalls(t *testing.T) {
	t.Parallel()
	l, c := newLog(t, 0)
	for _, duplicate := range []bool{false, true} {
		p, err := c.Publish(t.Context(), "c", client.Draft{ID: "mine", Content: []byte(`1`)})
		require.NoError(t, err)
		require.Equal(t, duplicate, p.Duplicate)
		_, err = c.Publish(t.Context(), "c", client.Draft{Content: []byte(`1`)})
		require.NoError(t, err)
	}
	require.Len(t, l.byID, 3)
}

func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	ok := answer(http.StatusOK, client.Delivery{})
	tests := []struct {
		name   string
		first  http.HandlerFunc
		policy func(*client.RetryPolicy)
		tries  int
		want   error
	}{
		{"success", ok, nil, 1, nil},
		{"lost answer", lost, nil, 2, nil},
		{"cut answer", cut, nil, 2, nil},
		{"unavailable", problem(503, fault.SlugUnavailable, 0), nil, 2, nil},
		{"not replicated", problem(503, fault.SlugNotReplicated, 0), nil, 2, nil},
		{"draining", problem(503, fault.SlugDraining, 0), nil, 2, nil},
		{"bad gateway", answer(502, "<html>"), nil, 2, nil},
		{"gateway timeout", answer(504, nil), nil, 2, nil},
		{"too many requests", answer(429, nil), nil, 2, nil},
		{"storage full", problem(507, fault.SlugStorageFull, 0), nil, 1, client.ErrStorageFull},
		{"storage full, if asked to", problem(507, fault.SlugStorageFull, 0),
			func(p *client.RetryPolicy) { p.StorageFull = true }, 2, nil},
		{"internal", problem(500, fault.SlugInternal, 0), nil, 1, client.ErrInternal},
		{"credential refused", problem(401, fault.SlugInvalidCredential, 0), nil, 1, client.ErrInvalidCredential},
		{"credential that begins soon", problem(401, fault.SlugInvalidCredential, 1), nil, 2, nil},
		{"invalid", problem(400, fault.SlugInvalidMax, 0), nil, 1, client.ErrInvalidMax},
		{"not found", problem(404, fault.SlugNoSubscriber, 0), nil, 1, client.ErrNoSubscriber},
		{"turned off", lost, func(p *client.RetryPolicy) { p.MaxTries = 1 }, 1, client.ErrUnreachable},
		{"no time", lost, func(p *client.RetryPolicy) {
			p.MaxElapsed = time.Nanosecond
			p.MinPause, p.MaxPause = time.Hour, time.Hour
		}, 1, client.ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := quick
			if tt.policy != nil {
				tt.policy(&policy)
			}
			f := newFake(t, tt.first, ok)
			c := f.client(t, client.WithRetry(policy))
			_, err := c.Fetch(t.Context(), "c", "s", client.FetchOptions{})
			require.ErrorIs(t, err, tt.want)
			require.Len(t, f.got(), tt.tries)
		})
	}
}

// cut sends half of the announced answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = w.Write([]byte(`{"messages":[`))
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	const asked = 2 * time.Second
	var pauses []time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	policy := quick
	policy.Notify = func(_ error, pause time.Duration) {
		pauses = append(pauses, pause)
		cancel() // this test doesn't wait for the retry
	}
	f := newFake(t, problem(503, fault.SlugUnavailable, 2))
	c := f.client(t, client.WithRetry(policy))
	_, err := c.Info(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, client.ErrUnavailable, "why it was still trying")
	require.Len(t, pauses, 1)
	require.GreaterOrEqual(t, pauses[0], asked)
	require.LessOrEqual(t, pauses[0], asked+asked/4)
	require.Len(t, f.got(), 1)
}

func TestRetryAfterBeyondTheLimitGivesUp(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.MaxElapsed = time.Minute
	f := newFake(t, problem(503, fault.SlugUnavailable, 61))
	_, err := f.client(t, client.WithRetry(policy)).Info(t.Context())
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 61*time.Second, e.RetryAfter)
	require.Len(t, f.got(), 1)
}

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	var pauses []time.Duration
	policy := client.RetryPolicy{MaxTries: 6, MinPause: 100 * time.Microsecond, MaxPause: 400 * time.Microsecond}
	policy.Notify = func(_ error, pause time.Duration) { pauses = append(pauses, pause) }
	_, err := newFake(t, lost).client(t, client.WithRetry(policy)).Info(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Len(t, pauses, 5)
	for i, base := range []time.Duration{100, 200, 400, 400, 400} {
		base *= time.Microsecond
		require.InDelta(t, base, pauses[i], float64(base/2+1), "pause %d", i)
	}
}

func TestContextEndsACallAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("while it waits for the answer", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		_, err := f.client(t).Fetch(ctx, "c", "s", client.FetchOptions{Wait: time.Hour})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, client.ErrUnreachable)
		require.Len(t, f.got(), 1)
	})
	t.Run("while it pauses", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := context.DeadlineExceeded
		policy := client.RetryPolicy{MinPause: time.Hour, MaxPause: time.Hour, MaxElapsed: 3 * time.Hour}
		policy.Notify = func(error, time.Duration) { cancel(cause) }
		_, err := newFake(t, lost).client(t, client.WithRetry(policy)).Info(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, client.ErrUnreachable, "why it was still trying")
	})
	t.Run("before it starts", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := newFake(t, lost)
		_, err := f.client(t).Info(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, f.got())
	})
}

func TestTryThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		answer(http.StatusOK, client.Info{Version: "1"}))
	info, err := f.client(t, client.WithTimeout(20*time.Millisecond),
		client.WithRetry(client.RetryPolicy{MaxTries: 100})).Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", info.Version)
}

func TestNothingListens(t *testing.T) {
	t.Parallel()
	f := newFake(t, lost)
	f.Close()
	_, err := f.client(t, client.WithRetry(client.RetryPolicy{MaxTries: 2, MinPause: time.Nanosecond})).Info(
		t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.ErrorContains(t, err, "connection refused")
}

func TestCertificateOfAStrangerIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(answer(http.StatusOK, client.Info{}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	tries := 0
	policy := quick
	policy.Notify = func(error, time.Duration) { tries++ }
	_, err := newClient(t, s.URL, client.WithRetry(policy)).Info(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Zero(t, tries)

	_, err = newClient(t, s.URL, client.WithHTTPClient(s.Client())).Info(t.Context())
	require.NoError(t, err)
}
