package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// cuts matches what Chromium logs when requests fail because the test has cut their connections.
var cuts = regexp.MustCompile(`net::ERR_|WebSocket connection to|responded with a status of (404|502|503)`)

// example is an example whose page talks to the service itself, and that service.
type example struct {
	t       *testing.T
	url     string
	service string // its URL
	args    []string
	metrics string
	end     func() // ends the service
	kill    func() // kills it
}

// startExample starts a service and the page of examples/<name>, as in its README but with other addresses.
func startExample(t *testing.T, name string) *example {
	t.Helper()
	return startExampleWith(t, name, "-client", "../../clients/typescript/dist/tidemark.min.js")
}

// startExampleWith is startExample with options of the example's program.
func startExampleWith(t *testing.T, name string, options ...string) *example {
	t.Helper()
	page, service, admin := freeAddress(t), freeAddress(t), freeAddress(t)
	e := &example{t: t, service: "http://" + service, metrics: "http://" + admin + "/metrics"}
	e.args = []string{"serve", "--config", "../../examples/" + name + "/tidemark.yaml", "--cors-origins", "http://" + page,
		"--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", service, "--grpc-listen", "127.0.0.1:0",
		"--admin-listen", admin}
	e.start()
	e.url = startProgram(t, regexp.MustCompile(`msg="the `+name+` is ready" url=(\S+)`),
		setting(t, "TIDEMARK_TEST_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))),
		append([]string{"-listen", page, "-server", e.service}, options...)...)
	return e
}

func (e *example) start() {
	e.t.Helper()
	_, end := runUntilSignal(e.t, regexp.MustCompile(`msg="tidemark is ready" url=(\S+)`), setting(e.t,
		"TIDEMARK_TEST_BINARY"), e.args...)
	e.end, e.kill = func() { end(syscall.SIGTERM) }, func() { end(syscall.SIGKILL) }
}

// openStreams matches the numbers of open streams in the service's metrics, one for each transport.
var openStreams = regexp.MustCompile(`(?m)^tidemark_(?:streams|sockets)(?:\{.*\})? (\d+)$`)

// streams returns how many streams the service has.
func (e *example) streams() (open int) {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.metrics, http.NoBody)
	require.NoError(e.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(e.t, err)
	for _, match := range openStreams.FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(match[1]))
		require.NoError(e.t, err)
		open += n
	}
	return open
}

// enterChat gives the page a name.
func (w window) enterChat(name string) {
	w.t.Helper()
	w.do(chromedp.WaitVisible(chromedp.CSS(`#enter input`)),
		chromedp.SendKeys(chromedp.CSS(`#enter input`), name+kb.Enter),
		chromedp.WaitVisible(chromedp.CSS(`#state.open`)))
}

// say sends a message.
func (w window) say(text string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(`#write input`), text+kb.Enter))
}

// hears waits until the page has received messages, and checks that it shows each once and in order. Those that are
// being sent don't count.
func (w window) hears(texts ...string) {
	w.t.Helper()
	const shown = `[...document.querySelectorAll('#messages li')].filter(li => !/sending/.test(li.textContent))` +
		`.map(li => li.querySelector('p').textContent).join('|')`
	want := strings.Join(texts, "|")
	received := fmt.Sprintf(`(%s).length >= %d`, shown, len(want))
	w.do(chromedp.Poll[chromedp.Void](received, chromedp.WithPollingInterval(50*time.Millisecond)))
	require.Equal(w.t, want, read(w, chromedp.Evaluate[string](shown)))
}

// offline disconnects a tab from the network, or connects it again.
func (w window) offline(is bool) {
	w.t.Helper()
	w.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		all := []*network.Conditions{{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}}
		_, err := cdp.Call(ctx, t, network.EmulateNetworkConditionsByRule,
			network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: all})
		if err != nil {
			return chromedp.Void{}, err
		}
		_, err = cdp.Call(ctx, t, network.OverrideNetworkState, network.OverrideNetworkStateParams{ // the page's event
			Offline: is, DownloadThroughput: -1, UploadThroughput: -1})
		return chromedp.Void{}, err
	})
}

// TestTabs: ten tabs of a browser share one connection, whatever happens to the tab that has it and to the service.
func TestTabs(t *testing.T) {
	t.Parallel()
	c := startExample(t, "chat")
	open := browser(t, cuts)
	bob := open(c.url)
	bob.enterChat("Bob")

	profile := open("about:blank")
	var tabs []window
	var closeTab []context.CancelFunc
	for i := range 10 {
		ctx, cancel := chromedp.NewContext(profile.ctx)
		t.Cleanup(cancel)
		tab := openTab(ctx, t, c.url, cuts)
		if i == 0 {
			tab.enterChat("Ann")
		}
		tab.do(chromedp.WaitVisible(chromedp.CSS(`#state.open`)))
		tabs, closeTab = append(tabs, tab), append(closeTab, cancel)
	}
	var said []string
	say := func(who window, text string) {
		t.Helper()
		who.say(text)
		said = append(said, text)
		for _, tab := range append(tabs, bob) {
			tab.hears(said...)
		}
	}
	say(bob, "hello")
	say(tabs[9], "all of you")
	require.Eventually(t, func() bool { return c.streams() == 2 }, 3*patience, time.Second,
		"Bob's, and one for all tabs of Ann")
	bob.sees("small", "read by Ann")

	// The leader is the first tab. It is closed. The next one goes elsewhere.
	closeTab[0]()
	tabs = tabs[1:]
	say(bob, "after the leader is closed")
	tabs[0].do(chromedp.Navigate("about:blank"))
	tabs = tabs[1:]
	say(bob, "after the next one has gone")
	say(tabs[0], "and back")

	// Now the third one is the leader. It goes offline, and another one takes over.
	tabs[0].offline(true)
	say(bob, "while the leader is offline")
	tabs[0].say("sent offline")
	tabs[0].sees("li", "sending")
	said = append(said, "sent offline")
	tabs[0].offline(false)
	for _, tab := range append(tabs, bob) {
		tab.hears(said...)
	}

	// The service restarts.
	c.end()
	bob.say("while the service is gone")
	said = append(said, "while the service is gone")
	c.start()
	for _, tab := range append(tabs, bob) {
		tab.hears(said...)
	}
	say(tabs[3], "still here")
	require.Eventually(t, func() bool { return c.streams() == 2 }, 3*patience, time.Second, "a slow machine polls at first")
}

// TestSubscriptionsThatFollowOthers: a subscription that another client shares the connection of begins at the mark, too,
// while messages for one that has just ended are on their way.
func TestSubscriptionsThatFollowOthers(t *testing.T) {
	t.Parallel()
	w := browser(t, cuts)(startExample(t, "chat").url)
	const script = `(async () => {
		const {Tidemark} = await import('./tidemark.js');
		const [leader, follower] = [0, 1].map(() => new Tidemark(document.documentElement.dataset.tidemark, {share: 'x'}));
		leader.channel('kept').subscribe('ann', () => {});
		const channel = follower.channel('followed');
		const read = [];
		for (let n = 0; n < 40; n += 2) {
			await channel.publish(n);
			for await (const m of channel.subscribe('ann', {ack: 'manual', from: 'earliest'})) {
				const published = channel.publish(n + 1);
				if (n % 4) await published;
				break;
			}
			const next = channel.subscribe('ann', {create: false});
			for await (const m of next) {
				read.push(m.content);
				if (m.content !== n + 1) continue;
				await m.ack();
				break;
			}
		}
		await Promise.all([leader.close(), follower.close()]);
		return read.join();
	})()`
	var want []string
	for n := range 40 {
		want = append(want, strconv.Itoa(n))
	}
	require.Equal(t, strings.Join(want, ","), read(w, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise)))
}

// oddContents are what anybody may publish beside what a page expects.
var oddContents = []string{`null`, `5`, `"x"`, `[]`, `{"text":null}`, `{"from":{"toString":1},"text":{"toString":1}}`,
	`{"text":"` + strings.Repeat("x", 60_000) + `"}`}

// publishAll publishes contents, one after the other.
func publishAll(t *testing.T, service, channel string, contents ...string) {
	t.Helper()
	for _, content := range contents {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, service+"/v1/channels/"+channel+"/messages",
			strings.NewReader(`{"content":`+content+`}`))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusCreated, answer.StatusCode, content)
	}
}

// TestChatShowsAnyContent: no message ends the page.
func TestChatShowsAnyContent(t *testing.T) {
	t.Parallel()
	c := startExample(t, "chat")
	w := browser(t, cuts)(c.url)
	w.enterChat("Ann")
	publishAll(t, c.service, "chat.Lobby", oddContents...)
	w.say("still here")
	w.sees(`li[not(contains(., "sending"))]/p`, "still here")
}

// TestPageOfTheDocs opens the page that docs/browsers.md makes.
func TestPageOfTheDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/browsers.md")
	require.NoError(t, err)
	_, page, found := strings.Cut(string(docs), "<<'END'\n")
	require.True(t, found)
	page, _, _ = strings.Cut(page, "\nEND\n")

	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	service := startProgram(t, regexp.MustCompile(`msg="tidemark is ready" url=(\S+)`), setting(t,
		"TIDEMARK_TEST_BINARY"), "serve", "--cors-origins", site.URL, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0",
		"--grpc-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(page, "http://127.0.0.1:8080", service, 1))
	})
	mux.HandleFunc("GET /tidemark.min.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../../clients/typescript/dist/tidemark.min.js")
	})
	mux.HandleFunc("GET /favicon.ico", func(http.ResponseWriter, *http.Request) {})

	w := browser(t, cuts)(site.URL)
	publishAll(t, service, "lobby", oddContents...)
	w.do(chromedp.SendKeys(chromedp.CSS(`form input`), "hello!"+kb.Enter))
	w.sees("li", "hello!")
}
