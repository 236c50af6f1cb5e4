package e2e

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleDrain drains the server from its console, which goes on to work, and resumes it.
func TestConsoleDrain(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	ready := func() int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.service+"/readyz", http.NoBody)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	w := browser(t, cuts)(s.console)
	w.do(chromedp.EmulateViewport(1280, 900))
	w.click("Drain this one")
	w.sees("p", "Without another server, clients find none that is ready.")
	w.accessible("the question before a drain")
	w.click("Cancel")
	require.Equal(t, http.StatusOK, ready())
	w.click("Drain this one")
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeVisible, chromedp.NodeEnabled))
	w.sees("span", "draining")
	w.sees("button", "Resume this one")
	require.Equal(t, http.StatusServiceUnavailable, ready())
	w.do(chromedp.Reload()) // on connections that the server closes
	w.sees("p", "this server was drained by an operator")
	w.accessible("a drained server")
	w.follows("Channels")
	w.sees("p", "There are no channels yet.")
	w.follows("Overview")
	w.click("Resume this one")
	w.sees("button", "Drain this one")
	require.Equal(t, http.StatusOK, ready())
}
