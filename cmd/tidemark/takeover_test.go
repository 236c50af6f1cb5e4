package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestTakeover ends the process that directs a queue while players of the other process wait. Each gets one assignment.
// After a stop the other process takes the queue over at once: its lease would last longer than the test.
func TestTakeover(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Options{}).URL()
	for name, test := range map[string]struct {
		signal syscall.Signal
		lease  string
	}{
		"killed":  {syscall.SIGKILL, "300ms"},
		"stopped": {syscall.SIGTERM, "10m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startStaticPair(t, test.lease, "--redis", url, "--key-prefix", redistest.Prefix(t))
			p.await(t, p.other, p.create(t, p.other, 10))
			ids := p.create(t, p.other, 7)
			require.NoError(t, p.director.Signal(test.signal))
			ids = append(ids, p.create(t, p.other, 7)...)
			<-p.director.Exited()
			p.director.killed = test.signal == syscall.SIGKILL
			p.await(t, p.other, append(ids, p.create(t, p.other, 6)...))
			require.True(t, p.other.directs(t))
			p.director = p.other
			p.judge(t)
		})
	}
}
