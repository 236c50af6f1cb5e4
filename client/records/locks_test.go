package records_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/lease"
)

// lockService is a fake service with one lock. A test may change its answers.
type lockService struct {
	mu       sync.Mutex
	holder   string
	seen     []string // calls, in order
	lose     int      // answers that get lost
	lost     bool     // renewals are refused
	wait     bool     // an acquire waits until its client disconnects
	notified chan struct{}
}

func (s *lockService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked wire.LockRequest
	_ = json.NewDecoder(r.Body).Decode(&asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodDelete:
		s.seen = append(s.seen, "release")
		if s.holder == asked.Token {
			s.holder = ""
		}
		close(s.notified)
		w.WriteHeader(http.StatusNoContent)
		return
	case asked.Token != "":
		s.seen = append(s.seen, "renew")
		if s.lost || asked.Token != s.holder {
			refuse(w, fault.SlugLockLost)
			return
		}
	default:
		s.seen = append(s.seen, "acquire")
		s.holder = asked.NewToken
	}
	if s.wait {
		s.mu.Unlock()
		s.notified <- struct{}{}
		<-r.Context().Done()
		s.mu.Lock()
		return
	}
	if s.lose > 0 {
		s.lose--
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(records.Lock{Token: s.holder, Fence: 7})
}

func refuse(w http.ResponseWriter, slug fault.Slug) {
	w.Header().Set("Content-Type", wire.MediaProblem)
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(wire.NewProblem(slug, http.StatusConflict, "no"))
}

func (s *lockService) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func open(t *testing.T, s *lockService) *records.Client {
	t.Helper()
	s.notified = make(chan struct{})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.WithRetry(client.RetryPolicy{MinPause: time.Millisecond}))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return records.New(c)
}

// If the answer to an acquire is lost, the lock is acquired again with the same token, and released with it.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	s := &lockService{lose: 2}
	err := open(t, s).WithLock(t.Context(), "resize", "7", records.LockOptions{},
		func(ctx context.Context, fence uint64) error {
			require.EqualValues(t, 7, fence)
			return ctx.Err()
		})
	require.NoError(t, err)
	require.Equal(t, []string{"acquire", "acquire", "acquire", "renew", "release"}, s.asked())
	require.Empty(t, s.holder)
}

// A call that ends while it waits releases a lock that it may have been granted.
func TestAWaitThatIsGivenUp(t *testing.T) {
	t.Parallel()
	s := &lockService{wait: true}
	c := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.AcquireLock(ctx, "resize", "7", records.LockOptions{Wait: time.Hour})
		ended <- err
	}()
	<-s.notified
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, []string{"acquire", "release"}, s.asked())
	require.Empty(t, s.holder)
}

// The context of a function is canceled when its lock is lost.
func TestALostLock(t *testing.T) {
	t.Parallel()
	s := &lockService{}
	err := open(t, s).WithLock(t.Context(), "resize", "7", records.LockOptions{TTL: time.Second},
		func(ctx context.Context, _ uint64) error {
			s.mu.Lock()
			s.lost = true
			s.mu.Unlock()
			<-ctx.Done()
			return context.Cause(ctx)
		})
	require.ErrorIs(t, err, lease.ErrLost)
	require.ErrorIs(t, err, records.ErrLockLost)
}
