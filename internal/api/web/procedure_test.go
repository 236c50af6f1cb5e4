package web

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// TestRefusedCredentialsAreLogged: whoever tries many credentials can't fill the log.
func TestRefusedCredentialsAreLogged(t *testing.T) {
	t.Parallel()
	l := newRequestLog(slog.New(slog.DiscardHandler))
	for range 3 * refusalBurst {
		require.Equal(t, slog.LevelDebug, l.level(http.StatusUnauthorized, access.ErrNoCredential, false))
	}
	for _, err := range []error{access.ErrExpired, access.ErrRevoked, access.ErrInvalidCredential.WithCause(ErrPanic)} {
		require.Equal(t, slog.LevelInfo, l.level(http.StatusUnauthorized, err, false))
	}
	levels := map[slog.Level]int{}
	for range 100 * refusalBurst {
		levels[l.level(http.StatusUnauthorized, access.ErrInvalidCredential, false)]++
	}
	require.Less(t, levels[slog.LevelInfo], levels[slog.LevelDebug])
}
