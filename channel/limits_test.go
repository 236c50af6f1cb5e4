package channel

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	require.NoError(t, DefaultLimits().Check())
	for says, spoil := range map[string]func(*Limits){
		"max fetch: 0 isn't positive":                  func(l *Limits) { l.MaxMax = 0 },
		"default fetch: 0 isn't between 1 and 1000":    func(l *Limits) { l.DefaultMax = 0 },
		"default fetch: 1001 isn't between 1 and 1000": func(l *Limits) { l.DefaultMax = 1001 },
		"fetch bytes: 0 isn't positive":                func(l *Limits) { l.FetchBytes = 0 },
		"max batch: 0 isn't between 1 and 3000":        func(l *Limits) { l.MaxBatch = 0 },
		"max batch: 3001 isn't between 1 and 3000":     func(l *Limits) { l.MaxBatch = LargestBatch + 1 },
		"max wait is negative":                         func(l *Limits) { l.MaxWait = -1 },
		"linger is negative":                           func(l *Limits) { l.Linger = -1 },
		"backstop isn't positive":                      func(l *Limits) { l.Backstop = 0 },
	} {
		l := DefaultLimits()
		spoil(&l)
		require.EqualError(t, l.Check(), says)

		policies, err := NewPolicies(testPolicy, nil)
		require.NoError(t, err)
		_, err = NewService(Options{
			Store: newWorld(in1(0)), Receipts: keyring(t), Policies: policies, Limits: l,
			Logger: slog.New(slog.DiscardHandler),
		})
		require.EqualError(t, err, "limits: "+says)
	}
	l := DefaultLimits()
	l.MaxWait, l.Linger, l.DefaultMax = 0, 0, l.MaxMax
	require.NoError(t, l.Check())
}
