package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the screenshots of docs/console.md")

// site is a service with its console.
type site struct {
	t       testing.TB
	args    []string
	data    string // its directory
	service string // its URL
	console string // URL of the admin listener
	end     func() // ends the service
}

// startSite starts a service on a Redis of its own, with additional options.
func startSite(t testing.TB, options ...string) *site {
	t.Helper()
	public, admin := freeAddress(t), freeAddress(t)
	s := &site{t: t, data: filepath.Join(t.TempDir(), "data"), service: "http://" + public, console: "http://" + admin}
	s.args = append([]string{"serve", "--data-dir", s.data, "--listen", public,
		"--grpc-listen", "off", "--admin-listen", admin}, options...)
	s.start()
	return s
}

func (s *site) start() {
	s.t.Helper()
	_, s.end = runProgram(s.t, regexp.MustCompile(`msg="tidemark is ready" url=(\S+)`),
		setting(s.t, "TIDEMARK_TEST_BINARY"), s.args...)
}

// call calls the API of the admin listener, and returns the answer.
func (s *site) call(method, path string, body any) []byte {
	s.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.console+"/v1/"+path, bytes.NewReader(text))
	require.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, answer.Body.Close()) }()
	got, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.Less(s.t, answer.StatusCode, 300, "%s %s: %s", method, path, got)
	return got
}

func (s *site) publish(channel string, contents ...any) {
	s.t.Helper()
	for _, content := range contents {
		s.call(http.MethodPost, "channels/"+channel+"/messages", map[string]any{"content": content})
	}
}

// opensStream opens a stream of a subscriber, which end ends.
func (s *site) opensStream(channel, subscriber string) (end func()) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet,
		s.service+"/v1/channels/"+channel+"/subscribers/"+subscriber+"/stream", http.NoBody)
	require.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, answer.StatusCode)
	return func() { require.NoError(s.t, answer.Body.Close()) }
}

// field fills a field of a form.
func (w window) field(label, text string) {
	w.t.Helper()
	at := chromedp.Search(`//*[@id=//label[contains(normalize-space(), "` + label + `")]/@for]`)
	w.do(chromedp.Focus(at, chromedp.NodeVisible), chromedp.Poll[chromedp.Void](`document.activeElement.select?.() ?? true`),
		chromedp.KeyEvent(text))
}

// follows clicks a link.
func (w window) follows(text string) {
	w.t.Helper()
	w.do(chromedp.Click(chromedp.Search(`//a[normalize-space()="`+text+`"]`), chromedp.NodeVisible))
}

// lacks waits until no element has a text.
func (w window) lacks(element, text string) {
	w.t.Helper()
	w.do(chromedp.WaitNotPresent(chromedp.Search(`//` + element + `[contains(., "` + text + `")]`)))
}

// confirm types what a dialog asks for, clicks its button, and waits until it has closed.
func (w window) confirm(name string) {
	w.t.Helper()
	w.field("to confirm", name)
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeVisible, chromedp.NodeEnabled),
		chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
}

// theme sets the color scheme that the page is told.
func theme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	})
}

// accessible checks a page with axe-core, in both color schemes: it must find nothing serious.
func (w window) accessible(what string) {
	w.t.Helper()
	axe, err := os.ReadFile("axe/node_modules/axe-core/axe.min.js")
	require.NoError(w.t, err)
	const run = `axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations
		.filter(v => v.impact === 'serious' || v.impact === 'critical')
		.map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 200)).join(' | '))))`
	for _, scheme := range []string{"light", "dark"} {
		w.do(theme(scheme))
		found := read(w, chromedp.Evaluate[string](string(axe)+";\n"+run, chromedp.EvalAwaitPromise))
		require.Equal(w.t, "[]", found, "%s, %s", what, scheme)
	}
	w.do(theme("light"))
}

const hostile = `<script>document.title='gone'</script>"'><img src=x onerror=document.title='gone'>`

// TestConsole does what the pages of the console offer, on an open service.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--channel-max-message-bytes", "2MiB", "--max-body-bytes", "4MiB")
	for i := range 30 {
		s.publish(fmt.Sprintf("orders.%d", 1000+i), map[string]any{"order": i, "customer": "ann", "paid": i%3 == 0})
	}
	s.call(http.MethodPut, "channels/orders.1000/subscribers/shop", map[string]any{"from": "earliest"})
	s.publish("orders.1000", map[string]any{"text": hostile, "list": []int{1, 2, 3}}, "\u202egnp.exe\u202c",
		strings.Repeat("x", 1<<20-100))
	w := browser(t, cuts)(s.service)
	w.do(chromedp.EmulateViewport(1280, 900))

	// The page of the public listener leads to the console.
	w.follows(s.console + "/")
	w.sees("h1", "Overview")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.fine, .problems`)))
	w.sees("h3", "Latency")
	w.sees("td", "this one")
	w.sees("p", "This service asks nobody for a key")
	w.sees("dd", "everysec")
	require.GreaterOrEqual(t, read(w, chromedp.Evaluate[int](`document.querySelectorAll('canvas').length`)), 8)
	w.accessible("overview")

	// Channels: by prefix, sorted, with details; and back.
	w.follows("Channels")
	w.sees("h1", "Channels")
	w.sees("div[@role='cell']", "orders.1029")
	w.do(chromedp.SendKeys(chromedp.CSS(`input[type=search]`), "orders.100"))
	w.lacks("div[@role='cell']", "orders.1029")
	w.do(chromedp.Click(chromedp.CSS(`.check input`)))
	w.click("Lag")
	w.sees("div[@role='columnheader'][@aria-sort='descending']", "Lag")
	require.Equal(t, "orders.1000", read(w, chromedp.Evaluate[string](`document.querySelector('.row a').textContent`)))
	w.accessible("channels")
	w.do(chromedp.Focus(chromedp.CSS(`.row a`)), chromedp.KeyEvent(kb.ArrowDown),
		chromedp.Poll[chromedp.Void](`document.activeElement.textContent === 'orders.1001'`), chromedp.KeyEvent(kb.Enter))
	w.sees("h1", "orders.1001")
	w.do(chromedp.NavigateBack())
	w.sees("h1", "Channels")
	require.Equal(t, "orders.100", read(w, chromedp.Evaluate[string](`document.querySelector('input[type=search]').value`)))

	// A channel: hostile contents are texts.
	w.follows("orders.1000")
	w.sees("h1", "orders.1000")
	w.sees("span[@class='name']", "shop")
	w.sees("span", `\u202egnp.exe\u202c`)
	w.unfold("<script>")
	w.sees("span[@class='scalar string']", "<script>document.title=")
	w.unfold("xxxx")
	w.sees("button", "all of 1.0 MiB")
	w.accessible("channel")
	require.Equal(t, "orders.1000 – Tidemark", read(w, chromedp.Title()))

	// Live tail, and publishing by hand.
	w.click("Live tail")
	w.sees("span[contains(@class, 'live on')]", "live")
	s.publish("orders.1000", "while the tail is open")
	w.sees("span", "while the tail is open")
	w.sees("dd", "stream") // that of the tail is connected
	endStream := s.opensStream("orders.1000", "shop")
	w.sees("span[@class='dot']/span[@class='spoken']", "connected, stream")
	endStream()
	w.do(chromedp.WaitNotPresent(chromedp.CSS(`.dot`)))
	w.click("Publish")
	w.field("Content", `{"by": "hand"`)
	w.sees("p", "Not JSON")
	w.accessible("dialog")
	w.do(chromedp.SendKeys(chromedp.CSS(`dialog textarea`), "}"))
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("p", "Published at clock 6.")
	w.click("Close")
	w.sees("span[@class='oneline']", "hand")
	w.click("Publish")
	w.field("Content", `{"whole": 12345678901234567890}`)
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("p", "Published at clock 7.")
	w.click("Close")
	require.Contains(t, string(s.call(http.MethodGet, "channels/orders.1000/messages?after=6", nil)), "12345678901234567890")
	w.unfold("whole")
	w.sees("span[@class='scalar number']", "≈ 1234567890123456")
	w.sees("p", "Browsers round integers")

	// The service restarts under the open page.
	s.end()
	w.sees("b", "The service doesn’t answer")
	s.start()
	w.do(chromedp.WaitNotPresent(chromedp.CSS(`.outage`)))
	s.publish("orders.1000", "after the restart")
	w.sees("span", "after the restart")
	w.click("Stop")

	// Seek, remove, purge, delete.
	w.click("Seek")
	w.click("Set") // what is preset changes nothing
	w.sees("p", "The mark is 0; 8 messages follow it.")
	w.click("Close")
	w.click("Seek")
	w.field("Clock", "6")
	w.sees("p[@role='status']", "It will never receive 6 messages that it has not read.")
	w.do(chromedp.SendKeys(chromedp.CSS(`dialog select`), "before what"))
	w.lacks("p[@role='status']", "never receive")
	w.do(chromedp.SetValue(chromedp.CSS(`dialog input`), "2100-01-01T00:00:01"))
	require.True(t, read(w, chromedp.Evaluate[bool](
		`document.querySelector('dialog input').dispatchEvent(new Event('input', {bubbles: true}))`)))
	w.click("Set and skip 8")
	w.sees("p", "The mark is 8; 0 messages follow it.")
	w.click("Close")
	w.click("Remove")
	w.confirm("shop")
	w.sees("p", "Nobody has subscribed.")
	w.click("Purge")
	w.do(chromedp.SendKeys(chromedp.CSS(`dialog select`), "messages up"))
	w.field("to confirm", "orders.1000")
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeVisible, chromedp.NodeEnabled))
	w.sees("span", "nothing was removed")
	w.click("Cancel")
	w.click("Purge")
	w.confirm("orders.1000")
	require.Contains(t, string(s.call(http.MethodGet, "channels/orders.1000", nil)), `"live":0`)
	w.click("Close channel")
	w.confirm("orders.1000")
	w.sees("dd", "Closed")
	w.click("Delete")
	w.do(chromedp.WaitVisible(chromedp.CSS(`dialog .danger:disabled`)))
	w.confirm("orders.1000")
	w.sees("h1", "Channels")
	w.lacks("div[@role='cell']", "orders.1000")

	w.do(chromedp.Navigate(s.console + "/console/channels/orders.1000"))
	w.sees("p", "This channel doesn’t exist.")
	w.do(chromedp.Navigate(s.console + "/console/no/page"))
	w.sees("h1", "There is no such page")
}

// TestConsoleAtTheEndOfClocks shows messages before and after the clock has wrapped.
func TestConsoleAtTheEndOfClocks(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.publish("wrap", "first")
	s.call(http.MethodPost, "channels/wrap/purge", map[string]any{"through": "latest"})
	s.redis("SET", "c.{wrap}.clock", "9007199254740989", "KEEPTTL")
	s.publish("wrap", "last but one", "last", "after the wrap")
	w := browser(t, cuts)(s.console + "/console/channels/wrap")
	for _, text := range []string{"last but one", "after the wrap"} {
		w.sees("span[@class='oneline']", text)
	}
	s.publish("wrap", "while it is open")
	w.sees("span[@class='oneline']", "while it is open")
	w.click("Live tail")
	w.sees("span[contains(@class, 'live on')]", "live")
	s.publish("wrap", "while it is live")
	w.sees("span[@class='oneline']", "while it is live")
	const shown = `[...document.querySelectorAll('.messages .oneline')].map(e => e.textContent)`
	require.Equal(t, []string{`"while it is live"`, `"while it is open"`, `"after the wrap"`, `"last"`, `"last but one"`},
		read(w, chromedp.Evaluate[[]string](shown)))
}

// TestConsoleWithData opens each page that the navigation has, on a service with the data of tidemark demo, which has
// hostile parts. With -update it takes the screenshots of docs/console.md.
func TestConsoleWithData(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--channel-max-message-bytes", "2MiB", "--max-body-bytes", "4MiB", "--cache-shards", "topic")
	for _, dc := range []string{"east", "west"} {
		s.shards("layout", "--dc", dc, "--shards", "2")
		s.node(dc, "one")
		s.node(dc, "two")
	}
	demo := []string{"demo", "--admin", s.console, "--hostile", "--rate", "50"}
	startProgram(t, regexp.MustCompile(`(added hostile contents)`), setting(t, "TIDEMARK_TEST_BINARY"), demo...)
	s.call(http.MethodGet, "shards", nil) // the nodes are no problem any more
	w := browser(t, cuts)(s.console)
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("td", "this one")
	points := 1
	if *update {
		points = 5
	}
	for n := range points {
		w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(
			`fetch('/v1/history').then(r => r.json()).then(h => h.times.length > %d)`, n), chromedp.WithPollingInterval(time.Second)))
	}
	for _, name := range []string{"shop", "web site", "dashboards"} {
		s.call(http.MethodPost, "keys", map[string]any{"description": name, "grants": []any{map[string]any{
			"actions": []string{"publish", "describe"}, "channels": []string{name[:3] + ".*"}}}})
	}
	pages := read(w, chromedp.Evaluate[[]string](`[...document.querySelectorAll('nav a')].map(a => a.title)`))
	require.Subset(t, pages, []string{"Overview", "Channels", "Access"})
	for _, page := range pages {
		w.follows(page)
		w.sees("h1", page)
		w.do(chromedp.WaitNotPresent(chromedp.CSS(`.waiting`)))
		w.accessible(page)
		w.picture(strings.ReplaceAll(strings.ToLower(page), " ", "-"), "light")
	}
	require.Contains(t, pages, "Shards")
	w.do(chromedp.Poll[chromedp.Void](`fetch('/v1/queues/demo.teams').then(r => r.json())
		.then(q => q.tickets.MATCH_FOUND > 0)`, chromedp.WithPollingInterval(time.Second)))
	w.do(chromedp.Navigate(s.console + "/console/channels/demo.hostile"))
	w.do(chromedp.WaitVisible(chromedp.CSS(`.messages summary`)))
	w.accessible("hostile contents")
	require.Equal(t, "demo.hostile – Tidemark", read(w, chromedp.Title()))
	w.do(chromedp.Navigate(s.console + "/console/channels/demo.large"))
	w.unfoldFirst()
	w.do(chromedp.WaitVisible(chromedp.CSS(`.whole`)))
	if *update {
		w.do(theme("dark"), chromedp.Navigate(s.console+"/console/channels/demo.lobby.0"))
		w.unfoldFirst()
		w.click("Live tail")
		w.sees("span[contains(@class, 'live on')]", "live")
		w.sees("dd", "stream") // that of the tail is connected
		w.picture("channel", "dark")
	}
}

// picture writes a screenshot of docs/console.md, with -update.
func (w window) picture(name, scheme string) {
	w.t.Helper()
	if !*update {
		return
	}
	const drawn = `(async () => {
		const frame = () => new Promise(requestAnimationFrame);
		await frame();
		await Promise.all(document.getAnimations().filter(a => a instanceof CSSTransition).map(a => a.finished));
		await frame();
		return true;
	})()`
	w.do(theme(scheme))
	require.True(w.t, read(w, chromedp.Evaluate[bool](drawn, chromedp.EvalAwaitPromise)))
	picture := read(w, chromedp.CaptureScreenshot())
	require.NoError(w.t, os.MkdirAll("../../docs/console", 0o750))
	require.NoError(w.t, os.WriteFile(filepath.Join("../../docs/console", name+".png"), picture, 0o600))
}

// TestConsoleAccess creates and revokes keys and tokens.
func TestConsoleAccess(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, cuts)(s.console + "/console/access")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("p", "There are no API keys.")
	w.accessible("access without keys")
	w.click("Create a key")
	w.field("Description", hostile)
	w.do(chromedp.Click(chromedp.Search(`//label[normalize-space()="publish"]`)))
	w.field("Channels", "orders.* chat.lobby")
	w.sees("span[@class='hint']", "send messages to channels")
	w.accessible("the form of a key")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("h2", "The key was created")
	key := read(w, chromedp.Text(chromedp.CSS(`.secret code`)))
	require.Regexp(t, `^tmk_[a-z0-9]{16}_`, key)
	w.click("Done")
	w.sees("div[@role='cell']", "publish · channels orders.* chat.lobby")
	w.sees("div[@role='cell']", "<script>document.title")
	w.accessible("access")
	w.click("Revoke")
	w.confirm(key[4:20])
	w.sees("p", "There are no API keys.")

	w.click("Revoke tokens")
	w.field("Subject", "ann")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("p", "Revoked until")
	w.click("Close")
	w.click("Revocations")
	w.sees("div[@role='cell']", "ann")
	w.sees("div[@role='cell']", key[4:20])
	for _, tab := range []string{"Limited", "Refused"} {
		w.click(tab)
		w.sees("footer", "The last 200")
	}
	require.Equal(t, "Access – Tidemark", read(w, chromedp.Title()))
}

// writeKeys returns keys with grants, by their names here, and the file for --api-keys.
func writeKeys(t *testing.T, grants map[string]string) (keys map[string]string, file string) {
	t.Helper()
	keys, file = map[string]string{}, filepath.Join(t.TempDir(), "keys.yaml")
	for name, grants := range grants {
		cmd := exec.CommandContext(t.Context(), setting(t, "TIDEMARK_TEST_BINARY"), "key", "create", "--append", file,
			"--grants", grants)
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		require.NoError(t, err)
		keys[name] = strings.TrimSpace(string(text))
	}
	return keys, file
}

// TestConsoleWithCredentials signs in with keys that may do everything, little, and nothing.
func TestConsoleWithCredentials(t *testing.T) {
	t.Parallel()
	keys, file := writeKeys(t, map[string]string{
		"admin": `[{"actions":["admin","publish","subscribe","describe"]}]`,
		"some":  `[{"actions":["describe"],"channels":["orders.*"]}]`, "none": `[]`,
	})
	s := startSite(t, "--api-keys", file)
	open := browser(t, regexp.MustCompile(`responded with a status of (401|403|404)`))
	w := open(s.console)
	w.do(chromedp.EmulateViewport(1280, 900))
	signIn := func(key string) {
		t.Helper()
		w.field("API key", key)
		w.click("Sign in")
	}
	w.sees("h1", "Tidemark console")
	w.accessible("sign-in")
	w.field("API key", "ключ")
	w.sees("p[@class='wrong']", "A key has only letters")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.signin .primary:disabled`)))
	signIn("tmk_aaaaaaaaaaaaaaaa_wrong")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.failure`)))

	signIn(keys["none"])
	w.sees("h1", "This key has no rights")
	w.accessible("no rights")
	w.do(chromedp.Click(chromedp.CSS(`.who button`)))

	signIn(keys["some"])
	w.sees("p", "The state of the service needs the action")
	w.lacks("nav/a", "Access")
	w.follows("Channels")
	w.field("Channel", "orders.1")
	w.click("Open")
	w.sees("p", "This channel doesn’t exist.")
	w.lacks("button", "Publish")
	w.do(chromedp.Navigate(s.console + "/console/access"))
	w.sees("h1", "Not allowed")
	w.do(chromedp.Click(chromedp.CSS(`.who button`)))

	signIn(keys["admin"])
	w.sees("h1", "Access")
	w.follows("Overview")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.fine, .problems`)))
	w.lacks("p", "This service asks nobody for a key")
	w.follows("Access")
	w.sees("div[@role='cell']", "file") // the keys of the file can't be revoked
	w.click("Refused")
	w.sees("div[@role='cell']", "GET /v1/")
	w.do(chromedp.Reload()) // the tab keeps the key
	w.sees("h1", "Access")
	other := open(s.console) // another tab has none
	other.sees("h1", "Tidemark console")
}

// TestConsoleOfSocket opens the console of a Unix socket by tidemark console.
func TestConsoleOfSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := "unix:" + filepath.Join(dir, "admin.sock")
	startProgram(t, regexp.MustCompile(`msg="tidemark is ready" url=(\S+)`), setting(t, "TIDEMARK_TEST_BINARY"), "serve",
		"--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--grpc-listen", "off",
		"--require-credentials", "--admin-listen", socket)
	cmd := exec.CommandContext(t.Context(), setting(t, "TIDEMARK_TEST_BINARY"), "console", "--admin", socket)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	line := make([]byte, 200)
	n, err := out.Read(line)
	require.NoError(t, err)
	url := strings.TrimSpace(string(line[:n]))
	open := browser(t, regexp.MustCompile(`responded with a status of 403`))
	w := open(url)
	w.sees("h1", "Overview")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.fine, .problems`)))
	w.sees("span", "admin")
	w.follows("Channels")
	w.sees("p", "There are no channels yet.")
	thief := open(url)
	thief.sees("pre", "valid any more")
	thief.do(chromedp.Navigate(strings.Split(url, "?")[0] + "console/"))
	thief.sees("pre", "It works once")
}

// TestConsoleLists scrolls through many channels. Only some rows are in the document.
func TestConsoleLists(t *testing.T) {
	t.Parallel()
	const channels = 10_000
	s := startSite(t)
	s.copyChannels(0, channels)
	w := browser(t, cuts)(s.console + "/console/channels")
	w.do(chromedp.EmulateViewport(1280, 900), chromedp.WaitVisible(chromedp.CSS(`[role=row]`)))
	w.sees("footer", "Sorted: the first of the ") // of those read
	// to the end, page after page, as a person scrolls
	var measured struct{ Most float64 }
	text := read(w, chromedp.Evaluate[string](scroll+`(2000)`, chromedp.EvalAwaitPromise))
	require.NoError(t, json.Unmarshal([]byte(text), &measured))
	require.Less(t, measured.Most, 100.0)
	w.sees("div[@role='cell']", "c09999")
	const scrolled = `document.querySelector('.list').scrollTop`
	before := read(w, chromedp.Evaluate[float64](scrolled))
	w.follows("c09999")
	w.sees("h1", "c09999")
	w.do(chromedp.NavigateBack())
	w.sees("h1", "Channels")
	w.sees("div[@role='cell']", "c09999")
	require.InDelta(t, before, read(w, chromedp.Evaluate[float64](scrolled)), 1)
}

// TestConsoleSlowCalls shows what was slow in Redis, without contents.
func TestConsoleSlowCalls(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.redis("CONFIG", "SET", "slowlog-log-slower-than", "0")
	s.publish("lobby", "a secret")
	s.redis("CONFIG", "SET", "slowlog-log-slower-than", "-1")
	w := browser(t, cuts)(s.console + "/console/")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.do(chromedp.Click(chromedp.Search(`//summary[.="Slow calls"]`)))
	w.sees("td", "channels/publish")
	w.sees("td", "c.{lobby}.clock")
	w.lacks("td", "a secret")
	w.accessible("slow calls")
}
