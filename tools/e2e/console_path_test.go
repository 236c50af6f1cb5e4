package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleBelowAPath uses the console through a proxy that has the admin listener below a path, and that serves
// nothing else: an address that the console asks for elsewhere fails the test.
func TestConsoleBelowAPath(t *testing.T) {
	t.Parallel()
	keys, file := writeKeys(t, map[string]string{"admin": `[{"actions":["admin","publish","subscribe","describe"]}]`})
	s := startSite(t, "--api-keys", file)
	target, err := url.Parse(s.console)
	require.NoError(t, err)
	const path = "/ops/tidemark/"
	pass := http.StripPrefix(strings.TrimSuffix(path, "/"), &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: func(answer *http.Response) error {
			if at := answer.Request.URL.Path; answer.StatusCode == http.StatusNotFound && at != "/v1/channels/orders.1" {
				t.Errorf("%s isn't there", at)
			}
			return nil
		}})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, path) {
			t.Errorf("%s was asked for", r.URL)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)

	// a deep link, before a person has signed in
	w := browser(t, regexp.MustCompile(`responded with a status of (401|404)`))(proxy.URL + path + "console/channels/orders.1?x=y/z")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("h1", "Tidemark console")
	require.True(t, read(w, chromedp.Evaluate[bool](`new Promise(done => { const image = new Image();
		image.onload = () => done(true); image.onerror = () => done(false);
		image.src = document.querySelector('.signin img').src; })`, chromedp.EvalAwaitPromise)))
	w.field("API key", keys["admin"])
	w.click("Sign in")
	w.sees("p", "This channel doesn’t exist.")
	w.click("Publish")
	w.field("Content", `"by hand"`)
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("p", "Published at clock 1.")
	w.click("Close")
	w.sees("span[@class='oneline']", "by hand")
	w.click("Live tail")
	w.sees("span[contains(@class, 'live on')]", "live")
	w.click("Publish")
	w.field("Content", `"while it is live"`)
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("span[@class='oneline']", "while it is live")
	w.click("Close")
	w.do(chromedp.Reload())
	w.sees("span[@class='oneline']", "while it is live")

	// pages, and the addresses in them
	w.follows("Channels")
	w.follows("orders.1")
	w.sees("h1", "orders.1")
	w.do(chromedp.NavigateBack())
	w.sees("h1", "Channels")
	w.follows("Try a call")
	w.sees("a[@href='"+proxy.URL+path+"v1/openapi.yaml']", "The description of the API")
	w.click("Send")
	w.sees("span", "200")
	for _, other := range []string{"/../other", "/v1/cache/topic/..%2F..%2Fchannels%2Forders.1", "/v1/a%5C%2e%2E", `/v1/a\b`} {
		w.field("Path, with its query", other)
		w.sees("p", "stays below it")
		w.field("Path, with its query", "/v1/cache/topic/a%2F..b?x=../y")
		w.lacks("p", "stays below it")
	}
	// an ID that a proxy could take for another path
	w.do(chromedp.Navigate(proxy.URL + path + "console/channels/..%2F..%2Fv1%2Finfo"))
	w.sees("p", "An ID with “.” or “..” between slashes can’t be sent from here")
	w.follows("Tidemark")
	w.sees("h1", "Overview")
	require.Equal(t, path+"console/", read(w, chromedp.Evaluate[string](`location.pathname`)))

	// the root leads to the console
	for _, address := range []string{"", "console"} {
		w.do(chromedp.Navigate(proxy.URL + path + address))
		w.sees("h1", "Overview")
	}
}
