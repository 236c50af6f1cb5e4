package outage_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
)

func TestOutageIsLoggedWhenItBeginsAndEnds(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := outage.New(slog.New(slog.NewTextHandler(&log, nil)), "cannot do it")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	o.Report(over, context.Canceled) // because ctx has ended
	for _, err := range []error{nil, errors.New("first"), errors.New("second"), nil, nil, errors.New("third")} {
		o.Report(t.Context(), err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], `level=WARN msg="cannot do it" error=first`)
	require.Contains(t, lines[1], `level=INFO msg="recovered: cannot do it"`)
	require.Contains(t, lines[2], `error=third`)
}
