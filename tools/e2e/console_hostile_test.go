package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// unharmed checks that no script of a content has run, and that none has changed the page's objects.
func (w window) unharmed() {
	w.t.Helper()
	require.True(w.t, read(w, chromedp.Evaluate[bool](`document.title.endsWith('Tidemark') || document.title.endsWith(
		'Tidemark console')`)))
	require.True(w.t, read(w, chromedp.Evaluate[bool](`({}).polluted === undefined && !document.querySelector(
		'main script, main iframe, main img:not([src^="/console/assets/"]), main [onerror], main a[href^="javascript:"]')`)))
}

// goes opens an address of the console as going back to it does, without loading the console again.
func (w window) goes(address string) {
	w.t.Helper()
	script := fmt.Sprintf(`history.pushState(null, '', %q); dispatchEvent(new PopStateEvent('popstate')); true`, address)
	require.True(w.t, read(w, chromedp.Evaluate[bool](script)))
}

// TestConsoleOfHostileAddresses opens pages whose addresses have hostile names, as a link of another page could.
func TestConsoleOfHostileAddresses(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, regexp.MustCompile(`responded with a status of (400|404)`))(s.console)
	names := []string{hostile, "\u202egnp.exe\u202c", `"><b>x`, "__proto__", "constructor", "..", "%2e%2e", "a/b",
		"${7*7}", strings.Repeat("x", 2000)}
	for _, name := range names {
		inPath, inQuery := url.PathEscape(name), url.QueryEscape(name)
		for _, path := range []string{"channels/" + inPath, "queues/" + inPath, "tickets/" + inPath, inPath,
			"channels?prefix=" + inQuery + "&sort=" + inQuery, "queues?find=" + inQuery, "shards?cache=" + inQuery,
			"access?show=" + inQuery, "records?show=" + inQuery, "records?show=sessions&user=" + inQuery,
			"records?show=settings&category=" + inQuery, "records?show=locks&op=" + inQuery + "&id=" + inQuery,
			"records?show=states&process=" + inQuery + "&id=" + inQuery,
			"records?show=statistics&of=" + inQuery + "&name=" + inQuery + "&frame=" + inQuery,
			"records?show=caches&kind=" + inQuery + "&id=" + inQuery} {
			w.goes("/console/" + path)
			w.do(chromedp.WaitVisible(chromedp.CSS(`h1`)), chromedp.WaitNotPresent(chromedp.CSS(`[aria-label="Loading"]`)))
			w.unharmed()
			require.NotContains(t, read(w, chromedp.Text(chromedp.CSS(`h1`))), "This page has failed", path)
		}
	}
}

// cut is a script that returns elements that a person can't see as a whole: they are beyond the window's edge, and
// nothing that they are in scrolls.
const cut = `(() => {
	const scrolls = e => e && e !== document.body && e !== document.documentElement &&
		(/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
	const hides = e => e && e !== document.body && (getComputedStyle(e).overflowX !== 'visible' &&
		getComputedStyle(e).textOverflow === 'ellipsis' || getComputedStyle(e).clip !== 'auto' || hides(e.parentElement));
	const found = [];
	const wide = document.documentElement.scrollWidth;
	if (wide > innerWidth) found.push('the page scrolls: ' + wide);
	for (const e of document.querySelectorAll('body *')) {
		const {left, right, width, height} = e.getBoundingClientRect();
		if (width < 2 || height < 2 || e.closest('svg, canvas, .skip')) continue;
		const of = () => e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 60);
		if ((left < -1 || right > innerWidth + 1) && !scrolls(e.parentElement) && !hides(e)) {
			found.push('beyond the edge: ' + of() + ' ' + [left, right].map(Math.round));
		}
		const {overflowX, textOverflow} = getComputedStyle(e);
		const isText = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
		if (isText && (/hidden|clip/.test(overflowX) || e.matches('button')) && textOverflow !== 'ellipsis' &&
			e.scrollWidth > e.clientWidth + 1) found.push('cut: ' + of());
	}
	return JSON.stringify(found.slice(0, 10));
})()`

// fits checks that a page fits into windows from a phone's to a wall's, in both color schemes.
func (w window) fits(what string) {
	w.t.Helper()
	for _, size := range [][2]int64{{390, 844}, {1280, 900}, {3840, 2160}} {
		for _, scheme := range []string{"light", "dark"} {
			const drawn = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
			w.do(chromedp.EmulateViewport(size[0], size[1]), theme(scheme), chromedp.Poll[chromedp.Void](drawn))
			var found []string
			require.NoError(w.t, json.Unmarshal([]byte(read(w, chromedp.Evaluate[string](cut))), &found))
			require.Empty(w.t, found, "%s, %d px, %s", what, size[0], scheme)
		}
	}
	w.do(theme("light"), chromedp.EmulateViewport(1280, 900))
}

// TestConsoleFits opens each page, and each tab of a page, on a service with data that is partly hostile: at three
// widths and in both color schemes nothing is cut, nothing runs, and axe-core finds nothing serious.
func TestConsoleFits(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--channel-max-message-bytes", "2MiB", "--max-body-bytes", "4MiB", "--cache-shards", "topic")
	startProgram(t, regexp.MustCompile(`(added hostile contents)`), setting(t, "TIDEMARK_TEST_BINARY"), "demo", "--admin",
		s.console, "--hostile", "--rate", "50")
	s.call("POST", "keys", object{"description": hostile, "grants": []object{{"actions": []string{"publish"},
		"channels": []string{strings.Repeat("long.", 30) + "*"}}}})
	s.call("POST", "revocations", object{"subject": hostile})
	s.call("PATCH", "states/"+url.PathEscape("import")+"/1", object{"fields": object{hostile: hostile,
		"wide": strings.Repeat("w", 5000)}})
	s.call("POST", "stats/topics/daily", object{"fields": object{"created": 41, hostile: 1}})
	s.call("PUT", "cache/topic/5", object{hostile: strings.Repeat("w", 5000), "__proto__": object{"polluted": true}})
	w := browser(t, cuts)(s.console)
	w.do(chromedp.EmulateViewport(1280, 900))
	w.do(chromedp.Poll[chromedp.Void](`fetch('/v1/history').then(r => r.json()).then(h => h.times.length > 0)`))
	for _, path := range []string{"", "channels", "channels?details=true", "channels/demo.hostile", "channels/demo.large",
		"queues", "queues/demo.duel", "records", "records?show=sessions&user=demo-ann-4", "records?show=settings",
		"records?show=locks&op=edit&id=demo-1", "records?show=states&process=import&id=1",
		"records?show=statistics&name=topics", "records?show=caches&kind=topic&id=5", "shards", "access",
		"access?show=revocations", "access?show=limited", "access?show=refused"} {
		w.do(chromedp.Navigate(s.console + "/console/" + path))
		w.do(chromedp.WaitVisible(chromedp.CSS(`h1`)), chromedp.WaitNotPresent(chromedp.CSS(`[aria-label="Loading"]`)))
		if strings.HasPrefix(path, "channels/") { // the contents as a whole
			w.unfoldFirst()
			w.do(chromedp.WaitVisible(chromedp.CSS(`.messages details[open] .json`)))
		}
		w.unharmed()
		w.fits(path)
		w.accessible(path)
	}
}

// TestConsoleShowsWhatAKeyMaySee opens all pages with keys that may do little: no call is refused that the page itself
// could know of, and nothing of what others do is shown.
func TestConsoleShowsWhatAKeyMaySee(t *testing.T) {
	t.Parallel()
	keys, file := writeKeys(t, map[string]string{
		"orders":  `[{"actions":["publish","subscribe","describe"],"channels":["orders.*"]}]`,
		"tickets": `[{"actions":["ticket"]}]`,
	})
	s := startSite(t, "--api-keys", file)
	open := browser(t, regexp.MustCompile(`responded with a status of (401|403|404)`))
	may := []string{"Overview", "Channels", "Try a call"}
	for _, name := range []string{"orders", "tickets"} {
		w := open(s.console)
		w.do(chromedp.EmulateViewport(1280, 900))
		w.field("API key", keys[name])
		w.click("Sign in")
		w.sees("h1", "Overview")
		require.Equal(t, may, read(w, chromedp.Evaluate[[]string](
			`[...document.querySelectorAll('nav a')].map(a => a.title)`)))
		for _, path := range []string{"queues", "queues/default", "records", "records?show=settings", "shards", "access"} {
			w.do(chromedp.Navigate(s.console + "/console/" + path))
			w.sees("h1", "Not allowed")
			asked := read(w, chromedp.Evaluate[string](`performance.getEntriesByType('resource')
				.map(e => new URL(e.name).pathname).filter(p => p.startsWith('/v1/')).join(' ')`))
			require.Equal(t, "/v1/whoami", asked, fmt.Sprint(name, " at ", path))
		}
	}
}
