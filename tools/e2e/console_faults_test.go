package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// proxy stands between a browser and the admin listener. It counts requests, and answers some of them itself.
type proxy struct {
	url string

	mu     sync.Mutex
	counts map[string]int                         // by method and path
	faults map[string]func(w http.ResponseWriter) // by method and the beginning of the path
}

func (s *site) proxy() *proxy {
	s.t.Helper()
	target, err := url.Parse(s.console)
	require.NoError(s.t, err)
	p := &proxy{counts: map[string]int{}, faults: map[string]func(w http.ResponseWriter){}}
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.counts[r.Method+" "+r.URL.Path]++
		var fault func(w http.ResponseWriter)
		for of, answer := range p.faults {
			if strings.HasPrefix(r.Method+" "+r.URL.Path, of) {
				fault = answer
			}
		}
		p.mu.Unlock()
		if fault == nil {
			pass.ServeHTTP(w, r)
			return
		}
		fault(w)
	}))
	server.Config.ErrorLog = nil
	s.t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// fails answers requests, such as "GET /v1/whoami", with an error of a status; 0 cuts the connection. works ends it.
func (p *proxy) fails(request string, status int, detail string) {
	p.answers(request, func(w http.ResponseWriter) {
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(object{"type": "urn:tidemark:problem:test", "status": status, "detail": detail})
	})
}

func (p *proxy) answers(request string, answer func(w http.ResponseWriter)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[request] = answer
}

func (p *proxy) works(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.faults, request)
}

// asked returns how often a request was made.
func (p *proxy) asked(request string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[request]
}

// ticks waits until timers of the page have ended that were started after those of some milliseconds.
func (w window) ticks(ms int) {
	w.t.Helper()
	const timers = `new Promise(done => setTimeout(() => setTimeout(done, 100, true), %d))`
	read(w, chromedp.Evaluate[bool](fmt.Sprintf(timers, ms), chromedp.EvalAwaitPromise))
}

// otherKeys adds keys to Redis that are not the service's.
func (s *site) otherKeys(n int) {
	s.t.Helper()
	s.redis("EVAL", `for i = 1, tonumber(ARGV[1]) do redis.call("SET", "other:" .. i, 1) end return 1`, "0", fmt.Sprint(n))
}

// provokedErrors matches what Chromium logs of errors that a test has provoked.
var provokedErrors = regexp.MustCompile(`net::ERR_|responded with a status of \d+`)

// TestConsoleStart opens the console while something that it needs at start fails. It says what, and tries again.
func TestConsoleStart(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	p := s.proxy()
	p.fails("GET /v1/whoami", http.StatusInternalServerError, "the moon is in the way")
	w := browser(t, provokedErrors)(p.url + "/console/")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("h1", "The console can’t start")
	w.sees("p[@role='alert']", "The moon is in the way.")
	w.accessible("a start that has failed")
	p.works("GET /v1/whoami")
	w.sees("h1", "Overview")

	// a page's module
	p.fails("GET /console/assets/channels.js", http.StatusBadGateway, "")
	w.follows("Channels")
	w.sees("h1", "This page could not be loaded")
	p.works("GET /console/assets/channels.js")
	w.click("Try again")
	w.sees("h1", "Channels")

	// a module that all pages need
	p.fails("GET /console/assets/store.js", http.StatusBadGateway, "")
	w.do(chromedp.Reload())
	w.sees("h1", "The console could not be loaded")
	p.works("GET /console/assets/store.js")
	w.sees("h1", "Channels")
}

// TestConsoleOutage tells an outage of the service from a call that fails.
func TestConsoleOutage(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.publish("orders", "first")
	p := s.proxy()
	w := browser(t, provokedErrors)(p.url + "/console/channels/orders")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("span[@class='oneline']", "first")
	const observe = `window.outages = 0, new MutationObserver(() => {
		window.outages += document.querySelectorAll('.outage').length;
	}).observe(document.body, {childList: true, subtree: true}), true`
	read(w, chromedp.Evaluate[bool](observe))

	// one call fails: the service is asked whether it is ready, and is
	p.fails("GET /v1/channels/orders", http.StatusServiceUnavailable, "its slot has no primary")
	w.sees("p[@role='alert']", "Its slot has no primary.")
	w.ticks(1000)
	require.Positive(t, p.asked("GET /readyz"))
	require.Zero(t, read(w, chromedp.Evaluate[int](`window.outages`)))
	p.works("GET /v1/channels/orders")
	w.lacks("p", "Its slot has no primary.")

	// what is published by hand isn't answered
	w.click("Publish")
	w.field("Content", `"by hand"`)
	p.fails("POST /v1/channels", 0, "")
	p.fails("GET /readyz", 0, "")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("dialog//p[@role='alert']", "The service can't be reached.")
	w.do(chromedp.WaitReady(chromedp.CSS(`.outage`)))
	p.works("POST /v1/channels")
	p.works("GET /readyz")
	w.do(chromedp.WaitNotPresent(chromedp.CSS(`.outage`)))
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("p", "Published at clock 2.")
	w.click("Close")

	// the service isn't ready, and a hidden tab doesn't ask it
	p.fails("GET /readyz", http.StatusServiceUnavailable, "redis is loading")
	p.fails("GET /v1", http.StatusServiceUnavailable, "redis is loading")
	w.sees("b", "The service can’t serve: Redis is loading.")
	const hide = `Object.defineProperty(document, 'hidden', {configurable: true, get: () => window.hides}),
		window.hides = %t, document.dispatchEvent(new Event('visibilitychange'))`
	read(w, chromedp.Evaluate[bool](fmt.Sprintf(hide, true)))
	w.ticks(1100) // a probe may have been on its way
	before := p.asked("GET /readyz")
	w.ticks(3000)
	require.Equal(t, before, p.asked("GET /readyz"))
	p.works("GET /readyz")
	p.works("GET /v1")
	read(w, chromedp.Evaluate[bool](fmt.Sprintf(hide, false)))
	w.do(chromedp.WaitNotPresent(chromedp.CSS(`.outage`)))

	// the credential ends while a message is written by hand
	w.click("Publish")
	w.field("Content", `"late"`)
	p.fails("POST /v1/channels", http.StatusUnauthorized, "the key has expired")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("h1", "Tidemark console")
}

// TestConsoleBroken opens a page whose code fails. The other pages work.
func TestConsoleBroken(t *testing.T) {
	t.Parallel()
	p := startSite(t).proxy()
	p.answers("GET /v1/shards", func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	w := browser(t, regexp.MustCompile(`TypeError`))(p.url + "/console/shards")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("h1", "This page has failed")
	w.sees("p", "The service isn’t affected.")
	w.accessible("a page that has failed")
	w.follows("Channels")
	w.sees("p", "There are no channels yet.")
	p.works("GET /v1/shards")
	w.follows("Shards")
	w.lacks("h1", "This page has failed")
	w.sees("h1", "Shards")
}

// TestConsoleHostileStatus shows texts of servers and of Redis without what changes the direction of a text.
func TestConsoleHostileStatus(t *testing.T) {
	t.Parallel()
	p := startSite(t).proxy()
	p.answers("GET /v1/problems", func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"checkedAt":"2026-01-02T03:04:05Z","more":0,"problems":[{"code":"test","severity":"warning",
			"text":"\u202eslowly","about":"\u2066redis","since":"2026-01-02T03:04:05Z","docs":"https://example.com/"}]}`)
	})
	p.fails("GET /v1/servers", http.StatusInternalServerError, "\u202eon")
	w := browser(t, provokedErrors)(p.url + "/console/")
	w.sees("p", `\u202eslowly`)
	w.sees("span", `\u2066redis`)
	w.sees("p[@role='alert']", `\u202eon.`)
}

// TestConsoleRestart restarts the service under the open page of a queue, and under a list that was read further.
func TestConsoleRestart(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	open := browser(t, cuts)
	w := open(s.console + "/console/queues/default")
	list := open(s.console + "/console/access?show=refused")
	for _, w := range []window{w, list} {
		w.do(chromedp.EmulateViewport(1280, 900))
		w.mark()
	}
	w.sees("dt", "Waiting")
	list.sees("p", "This server has refused no credentials.")
	s.end()
	w.sees("b", "The service doesn’t answer")
	list.sees("b", "The service doesn’t answer")
	s.start()
	for _, w := range []window{w, list} {
		w.do(chromedp.WaitNotPresent(chromedp.CSS(`.outage`)))
	}
	s.ticket("default", "after-the-restart", 1)
	w.sees("dd", "1")
	w.click("Examine the waiting tickets")
	w.sees("td", "after-the-restart")
	list.sees("p", "This server has refused no credentials.")
	require.True(t, w.kept())
	require.True(t, list.kept())
}
