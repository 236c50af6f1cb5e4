package channel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// watched runs a test in a bubble of synctest, with a service whose rule for "watched…" has LagMetrics.
func watched(t *testing.T, store *stubStore, test func(t *testing.T, s *Service)) {
	t.Helper()
	store.publish = func(r PublishRequest) ([]Published, error) { return make([]Published, len(r.Drafts)), nil }
	synctest.Test(t, func(t *testing.T) {
		s := serviceOn(t, store, DefaultLimits(), Rule{Pattern: "watched.*", LagMetrics: true})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		test(t, s)
		stop()
		require.NoError(t, <-ended)
	})
}

// nextRead passes the time until lags were read again.
func nextRead() {
	time.Sleep(lagEvery * 5 / 4) //nolint:forbidigo // the time of synctest
	synctest.Wait()
}

func use(t *testing.T, s *Service, channel string) {
	t.Helper()
	_, err := s.Publish(t.Context(), PublishRequest{Channel: channel, Drafts: []Draft{{Content: []byte("1")}}})
	require.NoError(t, err)
}

// lagStore is a store whose descriptions a test changes.
type lagStore struct {
	mu     sync.Mutex
	answer Description
	err    error
	asked  []string // channels
}

func (l *lagStore) describe(r DescribeRequest) (Description, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, r.Channel)
	return l.answer, l.err
}

// set sets the answer, and returns the channels that were asked for before.
func (l *lagStore) set(next Cursor, err error, lags ...SubscriberLag) (asked []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer, l.err = Description{Subscribers: lags, Next: next}, err
	asked, l.asked = l.asked, nil
	return asked
}

// TestLags: the lags of the channels that were used are read until the channel is gone; a failure keeps them.
func TestLags(t *testing.T) {
	t.Parallel()
	var store lagStore
	watched(t, &stubStore{describe: store.describe}, func(t *testing.T, s *Service) {
		use(t, s, "other")
		nextRead()
		require.Empty(t, store.set(0, nil, SubscriberLag{Name: "s", Lag: 7}))
		use(t, s, "watched")
		nextRead()
		lags, complete := s.Lags()
		require.Equal(t, []Lag{{"watched", "s", 7}}, lags)
		require.True(t, complete)
		store.set(0, errNoise)
		nextRead()
		lags, _ = s.Lags()
		require.Equal(t, []Lag{{"watched", "s", 7}}, lags)
		store.set(0, ErrNoChannel)
		nextRead()
		lags, _ = s.Lags()
		require.Empty(t, lags)
		require.NotEmpty(t, store.set(0, nil))
		nextRead()
		require.Empty(t, store.set(0, nil), "it is no longer read")
	})
}

// TestTooManyLags: channels and subscribers beyond the bounds are left out, and that is reported.
func TestTooManyLags(t *testing.T) {
	t.Parallel()
	var store lagStore
	watched(t, &stubStore{describe: store.describe}, func(t *testing.T, s *Service) {
		requireLags := func(n int, all bool) {
			t.Helper()
			nextRead()
			lags, complete := s.Lags()
			require.Len(t, lags, n)
			require.Equal(t, all, complete)
		}
		store.set(0, nil, SubscriberLag{})
		for i := range maxLagChannels {
			use(t, s, fmt.Sprint("watched", i))
		}
		requireLags(maxLagChannels, true)
		use(t, s, "watched-too")
		nextRead()
		asked := store.set(5, nil, SubscriberLag{})
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(asked))), maxLagChannels)
		requireLags(maxLagChannels, false)
		const each = maxLagSubscribers / maxLagChannels
		store.set(0, nil, make([]SubscriberLag, each)...)
		nextRead()
		requireLags(maxLagSubscribers, true)
		store.set(0, nil, make([]SubscriberLag, each+1)...)
		nextRead()
		requireLags(maxLagSubscribers, false)
	})
}

// TestOneLagTooMany: the channel beyond the bound is reported once, for the interval in which it was used.
func TestOneLagTooMany(t *testing.T) {
	t.Parallel()
	var store lagStore
	w := &lagWatch{store: &stubStore{describe: store.describe}, channels: make(map[string]watchedLags)}
	s := &Service{lags: w}
	for i := range maxLagChannels + 1 {
		w.use(fmt.Sprint(i), Policy{})
	}
	for _, want := range []bool{false, true} {
		w.read(t.Context())
		_, complete := s.Lags()
		require.Equal(t, want, complete)
	}
}
