package round_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/round"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	began := time.Unix(100, 0)
	ms := func(n int) time.Time { return began.Add(time.Duration(n) * time.Millisecond) }
	for name, test := range map[string]struct {
		took         int // ms
		found, timed bool
		notBefore    time.Time
	}{
		"quick and fruitful":    {took: 1, found: true, notBefore: ms(4)},
		"slow and fruitful":     {took: 30, found: true, notBefore: ms(50)},
		"quick and fruitless":   {took: 1, notBefore: ms(3)},
		"slow and fruitless":    {took: 40, notBefore: ms(50)},
		"because of the time":   {took: 1, timed: true, notBefore: ms(50)},
		"both, and it paid off": {took: 1, timed: true, found: true, notBefore: ms(4)},
	} {
		s := round.NewSchedule(50 * time.Millisecond)
		s.Held(began, ms(test.took), test.found, test.timed)
		at, ok := s.Next(true, time.Time{})
		require.True(t, ok, name)
		require.Equal(t, test.notBefore, at, name)
	}

	s := round.NewSchedule(10 * time.Millisecond)
	s.Held(began, ms(10), true, false)
	_, ok := s.Next(false, time.Time{})
	require.False(t, ok, "nothing changed, and time brings no match")
	at, ok := s.Next(false, ms(5))
	require.True(t, ok)
	require.Equal(t, ms(10), at)
	at, ok = s.Next(false, ms(20))
	require.True(t, ok)
	require.Equal(t, ms(20), at)

	s.Failed(ms(0))
	first, _ := s.Next(true, time.Time{})
	require.True(t, first.After(ms(0)), "a round that failed is held again after a pause")
	for range 8 {
		s.Failed(ms(0))
	}
	later, _ := s.Next(true, time.Time{})
	require.True(t, later.After(first), "which grows")
}
