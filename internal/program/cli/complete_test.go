package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// completeChannels returns what a command completes that takes names of channels.
func completeChannels(t *testing.T, environ []string, args []string, prefix string) []string {
	t.Helper()
	cmd := &cobra.Command{Use: "publish"}
	cmd.SetContext(t.Context())
	connection := cli.AddConnection(cmd, cli.Terminal{Stderr: failing{t}, Environ: environ}, 0)
	cli.CompleteArguments(cmd, 2, connection.Channels)
	require.NoError(t, cmd.ParseFlags(args))
	names, directive := cmd.ValidArgsFunction(cmd, cmd.Flags().Args(), prefix)
	require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive)
	return names
}

// failing is a standard error to which nothing may be written.
type failing struct{ t *testing.T }

func (f failing) Write(text []byte) (int, error) {
	f.t.Errorf("standard error: %s", text)
	return len(text), nil
}

func TestCompletionOfChannels(t *testing.T) {
	t.Parallel()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/channels" || r.URL.Query().Get("prefix") != "lo" {
			t.Errorf("GET %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("cursor") == "" {
			_, _ = io.WriteString(w, `{"channels":[{"channel":"logs"},{"channel":"lo\u001b[2J"}],"cursor":"2"}`)
			return
		}
		_, _ = io.WriteString(w, `{"channels":[{"channel":"lobby"},{"channel":"logs"}]}`)
	}))
	t.Cleanup(admin.Close)
	environ := []string{"TIDEMARK_ADMIN=" + admin.URL, "TIDEMARK_SERVER=http://127.0.0.1:1"}
	require.Equal(t, []string{"lobby", "logs"}, completeChannels(t, environ, nil, "lo"))
	require.Equal(t, []string{"logs"}, completeChannels(t, environ, []string{"lobby"}, "lo"), "it is there already")
	require.Empty(t, completeChannels(t, environ, []string{"--server", "http://127.0.0.1:2"}, "lo"),
		"the admin address of another service isn't known")
	require.Empty(t, completeChannels(t, environ[1:], nil, "lo"), "nor that of this one")
	require.Empty(t, completeChannels(t, environ, []string{"--token-file", "none"}, "lo"))
}

func TestCompletionIsSilent(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	for _, handler := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "text") },
		func(_ http.ResponseWriter, r *http.Request) { // it never answers
			select {
			case <-r.Context().Done():
			case <-released:
			}
		},
	} {
		admin := httptest.NewServer(handler)
		t.Cleanup(admin.Close)
		require.Empty(t, completeChannels(t, []string{"TIDEMARK_ADMIN=" + admin.URL}, nil, "lo"))
	}
	close(released)
}
