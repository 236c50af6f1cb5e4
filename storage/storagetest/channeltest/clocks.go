package channeltest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// Renewed checks that the lives of parts were just renewed.
func (s *testChannel) Renewed(parts ...Part) {
	s.T.Helper()
	for _, p := range parts {
		left, limit := s.Life(p), s.Policy.TTL
		if p == subjectClock || p == epoch || p == subscribers {
			limit += limit / 10 // spare time: not every renewal of a mark has to renew the channel
		}
		require.Greater(s.T, left, s.Policy.TTL*95/100, "the life of %s is renewed", p)
		require.LessOrEqual(s.T, left, limit, "the life of %s", p)
	}
}

// NotRenewed checks that the lives of parts, set before, are not renewed.
func (s *testChannel) NotRenewed(limit time.Duration, parts ...Part) {
	s.T.Helper()
	for _, p := range parts {
		left := s.Life(p)
		require.LessOrEqual(s.T, left, limit, "the life of %s isn't renewed", p)
		require.Greater(s.T, left, limit/2, "the life of %s isn't cut", p)
	}
}

// Outlives checks that the clock lives at least as long as other parts, and the epoch and the list of subscribers at
// least as long as the clock. The longer life is read last, so that the time between the reads can't fail the check.
func (s *testChannel) Outlives(others ...Part) {
	s.T.Helper()
	for _, p := range others {
		if p != subscribers {
			of := s.Life(subjectClock)
			require.GreaterOrEqual(s.T, of, s.Life(p), "the channel's clock lives as long as %s", p)
		}
	}
	for _, p := range []Part{epoch, subscribers} {
		if p == epoch || slices.Contains(others, p) {
			left := s.Life(p)
			require.GreaterOrEqual(s.T, left, s.Life(subjectClock), "%s lives as long as the clock", p)
		}
	}
}
