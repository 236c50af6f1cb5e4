package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		terminal := Terminal{Stderr: &screen}
		p := terminal.NewProgress()
		<-time.After(time.Hour)
		p.Report("%d of 10", 1)
		require.Empty(t, screen.String(), "it isn't a terminal")

		p = &Progress{report: terminal.Report, last: time.Now()}
		for i := range 50 {
			p.Report("%d of 50", i)
			<-time.After(100 * time.Millisecond)
		}
		require.Equal(t, "tidemark: 20 of 50\ntidemark: 40 of 50\n", screen.String())
	})
}
