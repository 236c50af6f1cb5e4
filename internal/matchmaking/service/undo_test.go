package service

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// undone is a storage that counts undo calls.
type undone struct {
	matchmaking.Creations
	times int
}

func (u *undone) Undo(context.Context, string, string, string) (bool, error) {
	u.times++
	return false, nil
}

// However many attempts are dropped, the log has one line for them.
func TestTooManyAttemptsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := new(undone)
		u := newUndo(store, slog.New(slog.NewTextHandler(&log, nil)))
		for range 10_025 {
			u.Add(createAttempt{Queue: "duel", ID: "a", Until: time.Now().Add(time.Minute)})
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { u.Run(ctx, time.Second); close(ended) }()
		synctest.Wait()
		end()
		<-ended
		require.Zero(t, u.Waiting())
		require.Equal(t, 10_000, store.times)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "tickets=25")
	})
}
