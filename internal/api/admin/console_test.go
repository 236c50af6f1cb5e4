package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestConsole loads the console's page and a file as a browser does, without a credential.
func TestConsole(t *testing.T) {
	t.Parallel()
	public := servertest.Start(t, servertest.Closed(t, &servertest.People{}))
	h := public.OnAdmin()
	page := h.Do("GET", "/console/", "")
	require.Equal(t, 200, page.Status)
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Equal(t, "same-origin", page.Header.Get("Referrer-Policy"))
	policy := page.Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'; ")
	require.Contains(t, policy, "frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe")
	for _, path := range []string{"/", "/console", "/console/queues?prefix=x"} {
		require.Equal(t, string(page.Body), string(h.Do("GET", path, "").Body), path)
	}
	require.Contains(t, string(page.Body), `src="assets/app.js"`)
	for path, up := range map[string]string{"channels/": "../", "channels/a%2Fb?prefix=x/y": "../",
		"no/page": "../"} {
		require.Contains(t, string(h.Do("GET", "/console/"+path, "").Body), `src="`+up+`assets/app.js"`, path)
	}
	for _, deep := range []string{"channels/a/b", "channels/a/", "no/such/page"} { // a proxy may have decoded a%2Fb
		h.Do("GET", "/console/"+deep, "").Problem(404, fault.SlugNoPath)
	}

	file := h.Do("GET", "/console/assets/lib/preact.js", "")
	require.Equal(t, "text/javascript; charset=utf-8", file.Header.Get("Content-Type"))
	require.NotEmpty(t, file.Body)
	packed := h.Do("GET", "/console/assets/lib/preact.js", "",
		servertest.Header{Name: "Accept-Encoding", Value: "br, gzip"})
	require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	require.Less(t, len(packed.Body), len(file.Body))
	again := h.Do("GET", "/console/assets/lib/preact.js", "",
		servertest.Header{Name: "If-None-Match", Value: file.Header.Get("ETag")})
	require.Equal(t, 304, again.Status)
	require.Empty(t, again.Body)
	for _, missing := range []string{"/console/assets/", "/console/assets/none.js", "/console/assets/lib/../app.js"} {
		require.Equal(t, 404, h.Do("GET", missing, "").Status, missing)
	}
	public.Do("GET", "/console/", "").Problem(404, fault.SlugNoPath)
}

// TestLinksToTheConsole: pages of other origins can link to the console, and do nothing else with the admin listener.
func TestLinksToTheConsole(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t).OnAdmin()
	header := func(name, value string) servertest.Header { return servertest.Header{Name: name, Value: value} }
	elsewhere := header("Sec-Fetch-Site", "cross-site")
	link := []servertest.Header{elsewhere, header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}
	require.Equal(t, 200, h.Do("GET", "/", "", link...).Status, "after a redirect")
	require.Equal(t, 200, h.Do("GET", "/console/channels", "", link...).Status)
	h.Do("GET", "/v1/keys", "", link...).Problem(403, fault.SlugCrossOrigin)
	h.Do("GET", "/console/", "", elsewhere, header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")).
		Problem(403, fault.SlugCrossOrigin)
	h.Do("GET", "/console/assets/app.js", "", elsewhere, header("Sec-Fetch-Mode", "no-cors"),
		header("Sec-Fetch-Dest", "script")).Problem(403, fault.SlugCrossOrigin)
}
