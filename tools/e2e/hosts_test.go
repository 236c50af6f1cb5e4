package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestOtherPages: a service that needs no credentials, on all addresses as in a container, refuses a page whose name
// was made to resolve to it (DNS rebinding). Pages of configured origins read it, and nobody else's can load an answer.
func TestOtherPages(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<title>page</title>")) })
	trusted, other := httptest.NewServer(page), httptest.NewServer(page)
	defer trusted.Close()
	defer other.Close()
	service := startProgram(t, regexp.MustCompile(`msg="tidemark is ready" url=http://localhost(:\d+)`),
		setting(t, "TIDEMARK_TEST_BINARY"), "serve", "--insecure", "--listen", "0.0.0.0:0", "--grpc-listen", "off",
		"--admin-listen", "off", "--data-dir", t.TempDir(), "--cors-origins", trusted.URL)
	url := "http://127.0.0.1" + service
	published, err := http.Post(url+"/v1/channels/c/messages", "application/json", strings.NewReader(`{"content":1}`))
	require.NoError(t, err)
	require.NoError(t, published.Body.Close())
	require.Equal(t, http.StatusCreated, published.StatusCode)

	limited, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(setting(t, "TIDEMARK_TEST_CHROMIUM")),
		chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"), chromedp.Flag("no-proxy-server", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // as in browser
	}
	allocated, cancel := chromedp.NewExecAllocator(limited, options...)
	defer cancel()
	ctx, cancel := chromedp.NewContext(allocated)
	defer cancel()
	// result returns what a script's promise becomes on a page.
	result := func(page, script string) string {
		_, err := chromedp.Run(ctx, chromedp.Navigate(page))
		require.NoError(t, err)
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
		require.NoError(t, err)
		return text
	}
	const read = `fetch('/v1/info').then(r => r.text())`
	require.Contains(t, result("http://evil.example"+service+"/v1/info", read), "unknown-host")
	require.Contains(t, result(url+"/v1/info", read), `"access":"open"`)

	stream := `new Promise(done => { const source = new EventSource('` + url + `/v1/channels/c/stream?from=earliest');
		source.addEventListener('message', e => { source.close(); done('message'); });
		source.onerror = () => { source.close(); done('refused'); } })`
	require.Equal(t, "message", result(trusted.URL, stream))
	require.Equal(t, "refused", result(other.URL, stream))
	load := `fetch('` + url + `/v1/info', {mode: 'no-cors'}).then(() => 'loaded', () => 'blocked')`
	require.Equal(t, "blocked", result(other.URL, load))
}
