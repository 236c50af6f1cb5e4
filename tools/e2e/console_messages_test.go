package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleMessages shows messages of a channel that has many, and large ones. What is in the document is bounded.
func TestConsoleMessages(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--channel-max-message-bytes", "2MiB", "--max-body-bytes", "4MiB")
	for i := range 620 {
		s.publish("many", i)
	}
	large := object{}
	for i := range 20_000 {
		large[fmt.Sprintf("member-%05d", i)] = object{"text": strings.Repeat("x", 30)}
	}
	s.publish("large", large)
	w := browser(t, cuts)(s.console + "/console/channels/many")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("span[@class='oneline']", "619")
	const rows = `document.querySelectorAll('.messages > li > details').length`
	for n := 130; n <= 530; n += 100 {
		w.click("Earlier messages")
		w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(rows+` === %d`, min(n, 500))))
	}
	w.sees("span", "earlier ones, newest first")
	s.publish("many", "published meanwhile")
	w.click("Newest messages")
	w.sees("span[@class='oneline']", "published meanwhile")
	require.LessOrEqual(t, read(w, chromedp.Evaluate[int](rows)), 31)

	w.do(chromedp.Navigate(s.console + "/console/channels/large"))
	w.unfold("member-00000")
	w.sees("div[@class='json']", "member-00001")
	const elements = `document.querySelectorAll('.whole *').length`
	require.Less(t, read(w, chromedp.Evaluate[int](elements)), 30)
	w.accessible("a large message")
	w.do(chromedp.Click(chromedp.CSS(`.whole .json .link`)))
	w.sees("span[@class='size']", "{20,000 members}")
	w.sees("button", "19,900 more")
	require.Less(t, read(w, chromedp.Evaluate[int](elements)), 1000)
}

// TestConsoleContentTypes shows messages that aren't JSON: text as text, which is never executed, and of other bytes the
// type and the size.
func TestConsoleContentTypes(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	typed := func(contentType, content string) object {
		return object{"contentType": contentType, "content": []byte(content)}
	}
	const script = "<img src=x onerror=\"document.title='executed'\">\n<script>document.title='executed'</script>"
	s.call(http.MethodPost, "channels/types/messages", []object{
		typed("text/html", script), typed("image/png", "\x89PNG\x00"), typed("text/plain; charset=utf-8", "\xff"),
		{"content": object{"a": 1}},
	})
	w := browser(t, cuts)(s.console + "/console/channels/types")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("span[@class='oneline']", "text/html, ")
	w.sees("span[@class='oneline']", "image/png, 5 B")
	w.sees("span[@class='oneline']", "text/plain; charset=utf-8, 1 B")
	w.unfold("text/html")
	w.sees("pre", "<script>document.title='executed'</script>")
	w.accessible("a message of text")
	require.NotContains(t, read(w, chromedp.Evaluate[string](`document.title`)), "executed")
	require.Zero(t, read(w, chromedp.Evaluate[int](`document.querySelectorAll('.whole img, .whole script').length`)))
	w.unfold("image/png")
	w.sees("button", "Copy the content as base64")
}

// TestConsoleLargeMessages shows the newest messages of a channel with large ones, and then those just before them.
func TestConsoleLargeMessages(t *testing.T) {
	t.Parallel()
	s := startSite(t, "--channel-max-message-bytes", "2MiB", "--max-body-bytes", "4MiB")
	text := strings.Repeat("x", 1<<21-(100<<10)) // an answer has two of them
	for range 40 {
		s.publish("large", text)
	}
	w := browser(t, cuts)(s.console + "/console/channels/large")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("span[@class='clock']", "40")
	const clocks = `[...document.querySelectorAll('.messages .clock')].map(e => Number(e.textContent))`
	before := read(w, chromedp.Evaluate[[]int](clocks))
	w.click("Earlier messages")
	w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(clocks+`.length > %d`, len(before))))
	for i, clock := range read(w, chromedp.Evaluate[[]int](clocks)) {
		require.Equal(t, 40-i, clock)
	}
}

// TestConsoleAges shows the age of the oldest unread message for the subscribers that are the furthest behind.
func TestConsoleAges(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	const subscribers, ages = 14, 12
	for i := range subscribers {
		s.call(http.MethodPut, fmt.Sprintf("channels/news/subscribers/reader-%02d", i), object{"from": "latest"})
		s.publish("news", i)
	}
	w := browser(t, cuts)(s.console + "/console/channels/news")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("footer", "for the 12 marks that are the furthest behind")
	const known = `[...document.querySelectorAll('.list[aria-label=Subscribers] .row')]
		.filter(r => r.querySelector('time')).map(r => r.querySelector('.name').textContent).sort()`
	w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(`%s.length === %d`, known, ages)))
	require.Equal(t, "reader-11", read(w, chromedp.Evaluate[[]string](known))[ages-1])
	w.accessible("subscribers without ages")
}
