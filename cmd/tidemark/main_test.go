package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/client"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"tidemark": func() { os.Exit(realMain()) },
	})
}

// leakChecked fails the run where a goroutine is left over.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestAnswersOfSomethingElse hints at --server where no Tidemark service has answered.
func TestAnswersOfSomethingElse(t *testing.T) {
	t.Parallel()
	require.Equal(t, "; is --server the URL of a Tidemark service?", notAService(&client.Error{Status: 404}))
	require.Equal(t, "; is --server the URL of a Tidemark service, and its matchmaking on?", notAService(client.ErrNoMatchmaking))
	require.Empty(t, notAService(client.ErrNoTicket))
	require.Empty(t, notAService(client.ErrUnreachable))
}
