package managed

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		level slog.Level
		text  string
	}{
		"7103:M 21 Nov 2026 00:40:15.975 # WARNING Memory overcommit must be enabled!": {slog.LevelDebug,
			"WARNING Memory overcommit must be enabled!"},
		"7103:M 21 Nov 2026 00:40:15.975 # Can't save in background: fork: Cannot allocate memory": {slog.LevelWarn,
			"Can't save in background: fork: Cannot allocate memory"},
		"7103:M 21 Nov 2026 00:40:15.976 * Creating AOF incr file": {slog.LevelDebug,
			"Creating AOF incr file"},
		"7103:C 21 Nov 2026 00:40:15.974 # oO0OoO0OoO0Oo Redis is starting": {slog.LevelDebug,
			"oO0OoO0OoO0Oo Redis is starting"},
		"7103:signal-handler (1795221616) Received SIGTERM scheduling shutdown...\r": {slog.LevelDebug,
			"7103:signal-handler (1795221616) Received SIGTERM scheduling shutdown..."},
		"*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***": {slog.LevelDebug,
			"*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***"},
		"  ": {slog.LevelDebug, ""},
	} {
		level, text := parseLine(line)
		require.Equal(t, want.level, level, line)
		require.Equal(t, want.text, text)
	}
}

func TestForwardReadsAllAndKeepsTheTail(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := childLog{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	printed := strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("line\n", 20) + "\nlast without an end"
	c.forward(t.Context(), strings.NewReader(printed))
	require.Len(t, c.tail, tailLines)
	require.Equal(t, "last without an end", c.tail[tailLines-1])
	require.Equal(t, 1<<20, strings.Count(out.String(), "x"))
}
