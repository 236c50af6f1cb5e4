package e2e

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// window is a tab of a browser.
type window struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // of the browser's tab, as chromedp has it
}

// browser starts headless Chromium, and returns a function that opens independent profiles. The test fails if a page
// logs an error that provoked doesn't match.
func browser(t testing.TB, provoked *regexp.Regexp) func(url string) window {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(setting(t, "TIDEMARK_TEST_CHROMIUM")))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run as root with it
	}
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	allocated, cancel := chromedp.NewExecAllocator(limited, options...)
	t.Cleanup(cancel)
	first, cancel := chromedp.NewContext(allocated, chromedp.WithErrorf(t.Logf))
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(first))
	return func(url string) window {
		ctx, cancel := chromedp.NewContext(first, chromedp.WithNewBrowserContext())
		t.Cleanup(cancel)
		return openTab(ctx, t, url, provoked)
	}
}

// openTab opens a page in a new tab, which lasts as long as its context.
func openTab(ctx context.Context, t testing.TB, url string, provoked *regexp.Regexp) window {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, failOnErrors(ctx, t, provoked))
	w := window{t, ctx}
	w.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) { // the page isn't hidden, nor are others
		_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return chromedp.Void{}, err
	}, chromedp.Navigate(url))
	return w
}

// refusals matches what Chromium logs when the test wants a refusal: of a session that has ended, of a lock that is
// held, and of text as HTML.
var refusals = regexp.MustCompile(`responded with a status of (401|409)|requires 'TrustedHTML' assignment`)

// failOnErrors makes the test fail when the page throws an error that nothing catches, or logs one that provoked
// doesn't match.
func failOnErrors(ctx context.Context, t testing.TB, provoked *regexp.Regexp) error {
	t.Helper()
	return chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page has thrown: %s %s", e.ExceptionDetails.Text, described(e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			texts := described(e.Args...)
			if e.Type == runtime.ConsoleAPICalledTypeError && !provoked.MatchString(strings.Join(texts, " ")) {
				t.Errorf("the page has logged an error: %s", texts)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError && !provoked.MatchString(e.Entry.Text) {
				t.Errorf("the browser has logged an error: %s %s", e.Entry.Text, e.Entry.URL)
			}
		}
	})
}

// described returns the texts of values of a page.
func described(values ...*runtime.RemoteObject) (texts []string) {
	for _, v := range values {
		if v != nil {
			texts = append(texts, v.Description)
		}
	}
	return texts
}

// do runs steps.
func (w window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	read(w, chromedp.Steps(steps...))
}

// patience limits a step. A working step never takes that long.
const patience = 30 * time.Second

// read returns the result of an action.
func read[T any](w window, a chromedp.Action[T]) T {
	w.t.Helper()
	limited, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(limited, a)
	if err != nil {
		page, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		w.t.Log("the page has:", page)
	}
	require.NoError(w.t, err)
	return value
}

// sees waits until an element has a text.
func (w window) sees(element, text string) {
	w.t.Helper()
	w.do(chromedp.WaitVisible(chromedp.Search(`//` + element + `[contains(., "` + text + `")]`)))
}

// click clicks a button, which may not be there yet.
func (w window) click(text string) {
	w.t.Helper()
	w.do(chromedp.Click(chromedp.Search(`//button[normalize-space()="`+text+`"]`), chromedp.NodeVisible))
}

// unfold opens the details whose summary contains a text. It does so by the keyboard: the summary of a message moves while
// the page gets its other parts, and a click would miss it.
func (w window) unfold(text string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.Search(`//summary[contains(., "`+text+`")]`), kb.Enter, chromedp.NodeVisible))
}

// unfoldFirst opens the first message of a channel's page, as unfold does.
func (w window) unfoldFirst() {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(`.messages summary`), kb.Enter, chromedp.NodeVisible))
}

// enter logs a user in or registers it.
func (w window) enter(name, button string) {
	w.t.Helper()
	w.do(
		chromedp.WaitVisible(chromedp.CSS(`#login`)),
		chromedp.SendKeys(chromedp.CSS(`#login [name=name]`), name),
		chromedp.SendKeys(chromedp.CSS(`#login [name=password]`), "correct horse"),
		chromedp.SendKeys(chromedp.CSS(`#login [name=email]`), name+"@example.com"),
	)
	w.click(button)
	w.sees("h2", name)
}

// write publishes a post in the topic that is shown.
func (w window) write(title, body string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(`#content [name=title]`), title),
		chromedp.SendKeys(chromedp.CSS(`#content [name=body]`), body))
	w.click("Publish")
	w.sees("article", title)
}

// mark sets a variable in the page; kept reports whether it is still there, so that the page was not loaded again.
func (w window) mark() { read(w, chromedp.Evaluate[bool](`window.kept = true`)) }

func (w window) kept() bool { return read(w, chromedp.Evaluate[bool](`window.kept === true`)) }

// TestForum is an evening at the forum.
func TestForum(t *testing.T) {
	t.Parallel()
	url := startForum(t)
	open := browser(t, refusals)

	ann, bob := open(url), open(url)
	ann.enter("Ann", "Register")
	ann.click("verify")
	ann.sees("h2", "Ann ✓")
	ann.write("First", "Hello")

	// Bob follows the topic, and is notified while his page stays open.
	bob.enter("Bob", "Register")
	bob.click("follow")
	bob.sees("p", "You follow this.")
	bob.mark()
	const hostile = `<img src=x onerror=document.title='gone'> & more`
	ann.write(hostile, "<script>document.title='gone'</script>")
	bob.sees("ul[@id='notifications']", "Ann created")
	bob.sees("ul[@id='notifications']", "<img src=x onerror=")
	require.True(t, bob.kept())

	// Text that users write is never interpreted as HTML.
	bob.do(chromedp.Click(chromedp.CSS(`#notifications button`)))
	bob.sees("article", "<script>document.title=")
	bob.sees("small", "1 view")
	require.Equal(t, "A community on Tidemark", read(bob, chromedp.Title()))
	const attack = `try { document.body.innerHTML = '<b>x</b>'; 'done' } catch (e) { e.name }`
	require.Equal(t, "TypeError", read(bob, chromedp.Evaluate[string](attack)))

	// Searches find it, in any case.
	bob.do(chromedp.SendKeys(chromedp.CSS(`#search input`), "  HELLO"+kb.Enter))
	bob.sees("h2", "1 found")

	// While Ann edits her post, nobody else can, and neither can she in another window.
	ann.click(hostile)
	ann.click("edit")
	ann.do(chromedp.WaitVisible(chromedp.CSS(`#content form`)))
	second := open(url)
	second.enter("Ann", "Log in")
	second.click(hostile)
	second.click("edit")
	second.sees("p", "lock-held")
	ann.do(chromedp.SendKeys(chromedp.CSS(`#content [name=body]`), " and more"))
	ann.click("Save")
	ann.sees("article", "</script> and more")
	bob.sees("ul[@id='notifications']", "Ann updated")

	// A revocation from elsewhere ends the poll, and with it the session of the page.
	elsewhere := open(url)
	elsewhere.enter("Bob", "Log in")
	elsewhere.click("Log out everywhere")
	bob.sees("p", "You are logged out.")
	bob.do(chromedp.WaitVisible(chromedp.CSS(`#login`)))
	require.True(t, bob.kept())
	ann.click("Redis") // whose session goes on
	ann.sees("h2", "Redis")
	ann.write("Second", "Still here")
}

// TestForumAtFirst looks at the forum as newcomers do: in a narrow and a wide window, in both themes, logged out and in.
// The page has something to read, fits the window, and is accessible.
func TestForumAtFirst(t *testing.T) {
	t.Parallel()
	w := browser(t, refusals)(startForum(t))
	look := func(title string) {
		t.Helper()
		for _, width := range []int64{390, 1280} {
			w.do(chromedp.EmulateViewport(width, 900))
			require.LessOrEqual(t, read(w, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)), width, title)
			w.accessible(title)
		}
	}
	w.sees("h2", "Go")
	w.sees("p", "Log in or register to write the first post.")
	w.sees("p", "None yet: it goes to those who register.")
	look("the forum of a visitor")

	// after the login the same topic can be written in
	w.enter("Ann", "Register")
	w.write(strings.Repeat("long", 25), "Hello")
	look("the forum of a member")

	// the page is as it was after it is loaded again, and when the session has ended
	w.do(chromedp.Reload())
	w.sees("h2", "Ann")
	w.sees("article", "longlong")
	w.do(chromedp.WaitVisible(chromedp.CSS(`#content form`)))
	read(w, chromedp.Evaluate[bool](`sessionStorage.setItem('token', 'ended'), true`))
	w.do(chromedp.Reload())
	w.sees("article", "longlong")
	w.sees("p", "You are logged out.")
}

// TestForeignPages calls the forum as a page of another site could: without a token, and with a browser's headers.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	url := startForum(t)
	for path, want := range map[string]int{"/api/topics/1/posts": http.StatusUnauthorized,
		"/api/register": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path,
			strings.NewReader(`{"title":"a","body":"b"}`))
		require.NoError(t, err)
		if want == http.StatusForbidden {
			r.Header.Set("Origin", "https://example.com")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
	}
}
