package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleSearch looks for few channels among many keys. The page stops after some calls, and goes on when told to.
func TestConsoleSearch(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.otherKeys(500_000)
	s.publish("few", 1)
	for i := range 3 {
		s.ticket("default", fmt.Sprint("player-", i), 1)
	}
	p := s.proxy()
	w := browser(t, cuts)(p.url + "/console/channels")
	w.do(chromedp.EmulateViewport(1280, 900))
	const atATime = 20
	w.sees("button", "Search on")
	w.sees("footer", "20 pages of keys read, and there are more.")
	require.Equal(t, atATime, p.asked("GET /v1/channels"))
	w.accessible("a search that has stopped")
	w.click("Search on")
	w.sees("footer", "40 pages of keys read, and there are more.")
	require.Equal(t, 2*atATime, p.asked("GET /v1/channels"))

	// who goes away and comes back finds what was read
	w.follows("Shards")
	w.sees("h1", "Shards")
	w.do(chromedp.NavigateBack())
	w.sees("footer", "40 pages of keys read, and there are more.")
	const ended = `!document.querySelector('section footer')`
	const stopped = `[...document.querySelectorAll('footer button')].some(b => b.textContent === 'Search on')`
	for {
		w.do(chromedp.Poll[chromedp.Void](ended + ` || ` + stopped))
		if read(w, chromedp.Evaluate[bool](ended)) {
			break
		}
		w.click("Search on")
	}
	w.sees("div[@role='cell']", "few")
	calls := p.asked("GET /v1/channels")
	w.follows("few")
	w.sees("h1", "few")
	w.do(chromedp.Click(chromedp.CSS(`a.back`)))
	w.sees("h1", "Channels")
	w.sees("div[@role='cell']", "few")
	require.Equal(t, calls, p.asked("GET /v1/channels"))

	// channels of tickets are hidden until they are wanted
	w.lacks("div[@role='cell']", "ticket.")
	w.sees("button[@aria-pressed='false']", "hidden")
	w.do(chromedp.Click(chromedp.CSS(`.chip`)))
	w.sees("div[@role='cell']", "ticket.")
	w.accessible("channels of tickets")
}

// TestConsoleNarrow opens the list of channels on a phone: with details it has those, and no clock.
func TestConsoleNarrow(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.publish("orders.1", "hello")
	w := browser(t, cuts)(s.console + "/console/channels?details=true")
	w.do(chromedp.EmulateViewport(390, 844))
	for _, column := range []string{"Channel", "Lag", "Messages", "Rate"} {
		w.sees("div[@role='columnheader']", column)
	}
	w.lacks("div[@role='columnheader']", "Clock")
	const inside = `[...document.querySelectorAll('.list .head [role=columnheader]')].every(e => {
		const list = e.closest('.list').getBoundingClientRect(), r = e.getBoundingClientRect();
		return r.left >= list.left && r.right <= list.right && e.scrollWidth <= e.clientWidth;
	})`
	require.True(t, read(w, chromedp.Evaluate[bool](inside)), "no header is cut")
	require.True(t, read(w, chromedp.Evaluate[bool](`document.querySelector('nav').classList.contains('after')`)))
	w.follows("orders.1")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.messages summary > time`)))
}
