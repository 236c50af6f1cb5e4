package server

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runtimeDeadlines are the deadlines that were set in the runtime.
type runtimeDeadlines struct {
	net.Conn
	reads, writes []time.Time
}

func (c *runtimeDeadlines) SetReadDeadline(at time.Time) error {
	c.reads = append(c.reads, at)
	return nil
}

func (c *runtimeDeadlines) SetWriteDeadline(at time.Time) error {
	c.writes = append(c.writes, at)
	return nil
}

// TestDeadline: what is set in the runtime while a call is in progress is never later than what was asked for, and at
// most a second or a sixteenth earlier.
func TestDeadline(t *testing.T) {
	t.Parallel()
	conn, now := &runtimeDeadlines{}, time.Now()
	d := deadline{writes: true}
	steps := []struct {
		name  string
		after time.Duration // 0: no deadline
		set   bool          // in the runtime, when the next call begins
	}{
		{"the first", time.Minute, true}, {"the same", time.Minute, false},
		{"half a second later", time.Minute + time.Second/2, false}, {"two seconds later", time.Minute + 2*time.Second, true},
		{"a little earlier", time.Minute + 2*time.Second - 1, true}, {"none", 0, true}, {"still none", 0, false},
		{"a short one", 8 * time.Second, true}, {"a sixteenth of a short one", 8*time.Second + 400*time.Millisecond, false},
		{"more than that", 8*time.Second + 600*time.Millisecond, true}, {"in the past", -time.Minute, true},
		{"in the past, a little later", -time.Minute + 1, true},
	}
	for _, s := range steps {
		at := time.Time{}
		if s.after != 0 {
			at = now.Add(s.after)
		}
		before := len(conn.writes)
		require.NoError(t, d.move(conn, at))
		require.Len(t, conn.writes, before, "%s: nothing waits", s.name)
		d.begin(conn)
		d.end()
		require.Equal(t, s.set, len(conn.writes) > before, s.name)
		if s.set {
			require.Equal(t, at, conn.writes[before], s.name)
		}
	}
	require.Empty(t, conn.reads)
}

// TestDeadlineOfACallInProgress: a deadline that moves while a call waits is set at once, as are those for whoever
// takes over the connection.
func TestDeadlineOfACallInProgress(t *testing.T) {
	t.Parallel()
	conn, past := &runtimeDeadlines{}, time.Unix(1, 0)
	var d deadline
	d.begin(conn)
	require.Empty(t, conn.reads)
	require.NoError(t, d.move(conn, past))
	require.Equal(t, []time.Time{past}, conn.reads)
	d.end()
	require.NoError(t, d.move(conn, time.Time{}))
	require.Equal(t, []time.Time{past}, conn.reads)
	require.NoError(t, d.moveNow(conn, time.Time{}))
	require.Equal(t, []time.Time{past, {}}, conn.reads)
}
