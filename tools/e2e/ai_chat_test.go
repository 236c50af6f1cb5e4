package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// asks asks the model of the AI chat.
func (w window) asks(question string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(`#ask input`), question+kb.Enter))
}

// answered returns how long the n-th answer is as far as the page shows it. It must not be complete.
func (w window) answered(n int) int {
	w.t.Helper()
	article := fmt.Sprintf(`document.querySelectorAll('article')[%d]`, n-1)
	require.False(w.t, read(w, chromedp.Evaluate[bool](article+`?.className === 'complete'`)), "the test was too slow")
	return read(w, chromedp.Evaluate[int](article+`?.querySelector('p').textContent.length ?? 0`))
}

// goesOn waits until the page shows more of the n-th answer than before.
func (w window) goesOn(n, than int) {
	w.t.Helper()
	w.do(chromedp.Poll[chromedp.Void](
		fmt.Sprintf(`document.querySelectorAll('article')[%d]?.querySelector('p').textContent.length > %d`, n-1, than),
		chromedp.WithPollingInterval(20*time.Millisecond)))
}

// completes waits until the n-th answer is complete, and checks it.
func (w window) completes(n int, question, answer string) {
	w.t.Helper()
	article := fmt.Sprintf(`document.querySelectorAll('article')[%d]`, n-1)
	w.do(chromedp.Poll[chromedp.Void](article + `?.className === 'complete'`))
	require.Equal(w.t, question, read(w, chromedp.Evaluate[string](article+`.querySelector('h2').textContent`)))
	require.Equal(w.t, answer, read(w, chromedp.Evaluate[string](article+`.querySelector('p').textContent`)))
	require.True(w.t, read(w, chromedp.Evaluate[bool](`document.getElementById('state').textContent === ''`)))
}

// TestAIChat: an answer is shown whole, once and in order, by pages that are loaded, opened and cut off in its middle,
// and by a service that is killed then. The pages end their requests with it.
func TestAIChat(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../examples/ai-chat/answer.txt")
	require.NoError(t, err)
	answer := strings.TrimSpace(string(text))
	const question = `Are <b>you</b> "safe"?`
	e := startExampleWith(t, "ai-chat", "-pace", "80ms")
	open := browser(t, cuts)
	ann := open(e.url)
	ann.accessible("an empty chat")
	ann.asks(question)
	ann.goesOn(1, 0)

	ann.do(chromedp.Reload())
	ann.goesOn(1, 20)
	url := read(ann, chromedp.Evaluate[string](`location.href`))
	ctx, cancel := chromedp.NewContext(ann.ctx)
	t.Cleanup(cancel)
	tab, friend := openTab(ctx, t, url, cuts), open(url)
	for _, w := range []window{tab, friend} {
		w.goesOn(1, 0)
	}

	ann.offline(true)
	friend.goesOn(1, ann.answered(1)+10)

	e.kill()
	friend.sees("p", "The service does not answer")
	before := friend.answered(1)
	e.start()
	friend.goesOn(1, before)
	require.NotZero(t, ann.answered(1))
	ann.offline(false)
	for _, w := range []window{ann, tab, friend} {
		w.completes(1, question, answer)
	}
	require.Eventually(t, func() bool { return e.streams() == 0 }, patience, 50*time.Millisecond)
	ann.accessible("an answer")

	var stored []any
	require.NoError(t, json.Unmarshal(catchUp(t, strings.Replace(url, e.url+"/#", e.service+"/v1/stream/ai/", 1)), &stored))
	require.Equal(t, map[string]any{"question": question}, stored[0])
	require.Equal(t, len(strings.SplitAfter(answer, " ")), len(stored)-1)

	// Two tabs ask at the same time: both show the question that came first.
	ann.asks("First?")
	ann.goesOn(2, 0)
	tab.asks("Second?")
	ann.completes(2, "First?", answer)
	tab.completes(2, "First?", answer)
	ann.do(chromedp.Reload())
	ann.completes(1, question, answer)
	ann.completes(2, "First?", answer)

	deleted := open(e.url + "/#00000000-0000-4000-8000-000000000000/1")
	deleted.sees("p", "This chat is gone")
}

// catchUp returns what is on a stream.
func catchUp(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return body
}
