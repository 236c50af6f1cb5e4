package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// publishBatches publishes messages {"n": number} with the IDs n-0, n-1, …, where every 20,000th also has a text.
func (s *site) publishBatches(channel string, count int, text string) {
	s.t.Helper()
	const size = 250
	for at := 0; at < count; at += size {
		batch := make([]any, size)
		for i := range batch {
			content := object{"n": at + i}
			if (at+i)%20_000 == 10 {
				content["text"] = text
			}
			batch[i] = object{"id": fmt.Sprintf("n-%d", at+i), "content": content}
		}
		s.call(http.MethodPost, "channels/"+channel+"/messages", batch)
	}
}

// TestConsoleFind searches the messages of a channel by text, ID and time. A search stops after some messages, and goes
// on when a person says so.
func TestConsoleFind(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.publishBatches("many", 60_000, `the Needle: "quoted" `+hostile)
	s.publish("many", "\u202egnp.exe", "last")
	w := browser(t, cuts)(s.console + "/console/channels/many")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("span[@class='oneline']", "59999")
	w.click("Search")
	w.field("Text", `needle: "quoted"`)
	w.do(chromedp.KeyEvent(kb.Enter))
	w.sees("span", "2 messages found, 50,000 of 60,002 messages looked at, the newest first.")
	w.click("Search on")
	w.sees("span", "3 messages found, all 60,002 messages looked at.")
	w.shows(`"n":10,`)
	w.accessible("found messages")
	require.Equal(t, "many – Tidemark", read(w, chromedp.Title()))

	w.field("Text", "N") // in each message: some are found at a time
	w.click("Search")
	w.sees("span", "50 messages found, ")
	w.click("Search on")
	w.sees("span", "100 messages found, 1")
	require.Equal(t, 100, read(w, chromedp.Evaluate[int](
		`new Set([...document.querySelectorAll('.messages .clock')].map(e => e.textContent)).size`)))

	w.chooses("Search by", "ID")
	w.field("ID", "n-59990")
	w.do(chromedp.KeyEvent(kb.Enter))
	w.sees("span", "1 message found, ")
	w.shows(`{"n":59990}`)

	w.chooses("Search by", "Time")
	at := func(time string) {
		w.do(chromedp.SetValue(chromedp.CSS(`form.lookup input`), time))
		require.True(t, read(w, chromedp.Evaluate[bool](
			`document.querySelector('form.lookup input').dispatchEvent(new Event('input', {bubbles: true}))`)))
		w.click("Search")
	}
	at("2100-01-01T00:00:01")
	w.sees("span", "Nothing was published then or later.")
	at("2020-01-01T00:00:01")
	w.sees("span", "50 messages found, the oldest first")
	w.shows(`{"n":0}`)
	w.click("Later messages")
	w.shows(`{"n":99}`)
	w.accessible("messages of a time")
	w.click("Close the search")
	w.sees("span[@class='oneline']", "59999")
}

// TestConsoleFindStops stops a search, and searches messages of which an answer has few.
func TestConsoleFindStops(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	for i := range 60 {
		s.publish("large", object{"n": i, "text": strings.Repeat("x", 200<<10)})
	}
	p := s.proxy()
	w := browser(t, cuts)(p.url + "/console/channels/large")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("dd", "60") // the messages are shown anew once the channel is known
	w.click("Search")
	w.field("Text", `"n":3,`)
	w.do(chromedp.KeyEvent(kb.Enter))
	w.sees("span", "1 message found, all 60 messages looked at.")
	w.field("Text", "xxx") // all of them, which are more than a page keeps
	w.do(chromedp.KeyEvent(kb.Enter))
	w.sees("span", "messages found, ")

	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	p.answers("GET /v1/channels/large/messages", func(http.ResponseWriter) { <-release })
	w.field("Text", "nothing")
	w.do(chromedp.KeyEvent(kb.Enter))
	w.sees("span", "0 of 60 messages looked at, the newest first …")
	w.click("Stop")
	w.sees("span", "0 messages found, 0 of 60 messages looked at, the newest first.")
	p.works("GET /v1/channels/large/messages")
	w.click("Search on")
	w.sees("span", "0 messages found, all 60 messages looked at.")
}

// TestConsoleCall makes calls by hand, and copies their commands.
func TestConsoleCall(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, cuts)(s.console + "/console/call")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.click("Send")
	w.sees("pre", "everysec")
	w.sees("span[@role='status']", "200")
	w.field("Path", "//example.com/v1/info")
	w.sees("p[@class='wrong']", "A path begins with one")
	w.do(chromedp.WaitVisible(chromedp.CSS(`form .primary:disabled`)))
	w.do(chromedp.SendKeys(chromedp.CSS(`form select`), "POST"))
	w.field("Path", "/v1/channels/by-hand/messages")
	w.field("Body", `{"content": "it's`)
	w.sees("p[@class='wrong']", "Not JSON")
	w.do(chromedp.SendKeys(chromedp.CSS(`textarea`), `"}`))
	require.True(t, read(w, chromedp.Evaluate[bool](
		`navigator.clipboard.writeText = async (text) => { window.copied = text }, true`)))
	w.click("Copy as curl")
	w.sees("button", "Copied")
	require.Equal(t, `curl -sS -H 'Content-Type: application/json' --data-raw '{"content": "it'\''s"}' '`+s.console+
		`/v1/channels/by-hand/messages'`, read(w, chromedp.Evaluate[string](`window.copied`)))
	w.accessible("a call")
	w.do(chromedp.Focus(chromedp.CSS(`textarea`)))
	w.sends()
	w.sees("pre", "by-hand")
	w.do(chromedp.SendKeys(chromedp.CSS(`form select`), "DELETE"))
	w.field("Path", "/v1/channels/by-hand/nothing")
	w.click("Send")
	w.sees("span[@role='status']", "404")
	w.do(chromedp.Click(chromedp.Search(`//summary[.="Headers"]`)))
	w.sees("dd", "application/problem+json")
}

// shows waits until a message of the list has a text.
func (w window) shows(text string) {
	w.t.Helper()
	w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(
		`[...document.querySelectorAll('.oneline')].some(e => e.textContent.includes(%q))`, text)))
}

// sends presses Ctrl and Enter.
func (w window) sends() {
	w.t.Helper()
	w.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// TestConsoleConfiguration shows the options in force without secrets, and reloads them.
func TestConsoleConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	write := func(level string) {
		require.NoError(t, os.WriteFile(file, []byte("logLevel: "+level+"\ncacheRedis: redis://u:hunter2@127.0.0.1:1\n"), 0o600))
	}
	write("warn")
	s := startSite(t, "--config", file, "--cache-redis", "", "--log-level", "info")
	w := browser(t, cuts)(s.console + "/console/configuration")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("div[@role='cell']", "--data-dir")
	w.lacks("div[@role='cell']", "drainDelay")
	w.accessible("configuration")
	w.do(chromedp.Click(chromedp.CSS(`.check input`)))
	w.sees("div[@role='cell']", "drainDelay")
	w.do(chromedp.SendKeys(chromedp.CSS(`input[type=search]`), "loglevel"))
	w.click("logLevel")
	w.sees("dd", "--log-level")
	w.accessible("an option")
	w.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
	w.click("Reload")
	w.sees("p", "No option has changed.")
	w.click("Close")
}

// TestConsoleSendsByKeys sends a form from its text area, once it can be sent.
func TestConsoleSendsByKeys(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, cuts)(s.console + "/console/channels/keys")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.click("Publish")
	w.field("Content", `{"by": "keys"`)
	w.sends() // it isn't JSON yet
	w.sees("p", "Not JSON")
	w.do(chromedp.SendKeys(chromedp.CSS(`dialog textarea`), "}"))
	w.sends()
	w.sees("p", "Published at clock 1.")
}

// TestConsoleDiskFails shows at the next look that Redis refuses writes because of its disk, and what to do.
func TestConsoleDiskFails(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	require.NoError(t, os.Mkdir(filepath.Join(s.data, "dump.rdb"), 0o700))
	s.redis("CONFIG", "SET", "save", "3600 1")
	s.redis("BGSAVE")
	require.Eventually(t, func() bool {
		return strings.Contains(s.redis("INFO", "persistence"), "rdb_last_bgsave_status:err")
	}, 10*time.Second, 50*time.Millisecond)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.service+"/v1/channels/a/messages",
		strings.NewReader(`{"content": 1}`))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	w := browser(t, cuts)(s.console)
	w.sees("p", "The Redis of channels can't write to its disk, and refuses all writes")
	w.sees("p", "Free disk space, or repair its directory")
}

// TestConsoleKindsWithKeys shows first the kinds of keys that there are, once they were counted.
func TestConsoleKindsWithKeys(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.publish("one", 1)
	w := browser(t, cuts)(s.console + "/console/records")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.click("Count the keys")
	w.sees("span", "of them with keys")
	require.True(t, read(w, chromedp.Evaluate[bool](`(() => {
		const rows = [...document.querySelectorAll('.row')].map(r => [...r.children].at(-2).textContent.trim() !== '–');
		return rows[0] && rows.lastIndexOf(true) < rows.indexOf(false);
	})()`)))
}
