package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// object is a JSON object.
type object = map[string]any

// ticket creates a ticket that has a skill, and accepts those whose skill is near it.
func (s *site) ticket(queue, id string, skill int) {
	s.t.Helper()
	s.call(http.MethodPost, "tickets", object{"queue": queue, "id": id,
		"criteria":   []object{{"name": "skill", "minValue": skill - 10, "maxValue": skill + 10}},
		"statistics": []object{{"name": "skill", "value": skill}}, "extensions": object{"note": hostile}})
}

// TestConsoleQueues makes a queue, looks for the reason why its tickets wait, changes it, and follows tickets.
func TestConsoleQueues(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, regexp.MustCompile(`responded with a status of (400|404|409)`))(s.console + "/console/queues")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("div[@role='cell']", "default")

	// A queue is made. What the service doesn't accept is seen while it is typed, with its place.
	w.click("New queue")
	w.field("Name", "ranked")
	w.field("Definition", `{"match":{"function":"criteria"`)
	w.sees("p", "Not JSON")
	w.do(chromedp.WaitVisible(chromedp.CSS(`dialog .primary:disabled`)))
	w.field("Definition", `{"match":{"function":"chess"}}`)
	w.sees("li", "match.function: must be one of")
	w.do(chromedp.WaitVisible(chromedp.CSS(`dialog .primary:disabled`)))
	w.accessible("the editor of a definition")
	w.click("line 1")
	require.Equal(t, 21.0, read(w, chromedp.Evaluate[float64](`document.activeElement.selectionStart`)))
	w.field("Definition", `{"match":{"function":"criteria","widen":[{"after":"5m","by":{"skill":100}}]},"ticketTTL":"8m"}`)
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("h1", "ranked")
	w.sees("dd", "after 5 min by skill 100")

	// Why tickets wait.
	for i := range 8 {
		s.ticket("ranked", fmt.Sprintf("player-%d", i), 1000*i)
	}
	w.sees("dd", "8")
	w.click("Examine the waiting tickets")
	w.sees("td", "it accepts nobody: its criteria are too narrow")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.ranges rect`)))
	w.accessible("queue")

	// The life of a ticket, first while it waits, and then with its match.
	w.follows("player-3")
	w.sees("h1", "player-3")
	w.sees("li", "Its criteria widen: skill by 100")
	w.sees("li", "Waits for a match")
	w.sees("td", "2990 – 3010")
	w.sees("span[@class='scalar string']", "<script>document.title=")
	s.ticket("ranked", "rival", 3001)
	w.sees("li", "Assigned to team")
	w.sees("li", "The assignment waits on its channel for the player")
	w.accessible("ticket")
	w.follows("rival")
	w.sees("h1", "rival")
	require.Equal(t, "rival – Tidemark", read(w, chromedp.Title()))
	w.follows("ranked")
	w.do(chromedp.Click(chromedp.CSS(`.list[aria-label="Last matches"] .link`), chromedp.NodeVisible))
	w.sees("dialog//a", "rival")
	w.accessible("match")
	w.do(chromedp.Click(chromedp.CSS(`button[aria-label=Close]`)))

	// A ticket by its ID, which is cancelled.
	w.follows("Queues")
	w.do(chromedp.SendKeys(chromedp.CSS(`input[aria-label="ID of a ticket"]`), "player-5"))
	w.click("Open")
	w.sees("h1", "player-5")
	w.click("Cancel the ticket")
	w.confirm("player-5")
	w.sees("span", "cancelled")
	w.do(chromedp.Navigate(s.console + "/console/tickets/nobody"))
	w.sees("p", "No ticket has this ID.")

	// The definition is changed, with what differs beside it.
	w.follows("Queues")
	w.sees("div[@role='cell']", "criteria, 2 players")
	w.accessible("queues")
	w.follows("ranked")
	w.click("Edit the definition")
	w.sees("p", "Nothing is changed.")
	w.field("Definition", `{"match":{"function":"criteria"},"ticketTTL":"9m"}`)
	w.sees("li", "ticketTTL")
	w.sees("p", "The service accepts it.")
	w.do(chromedp.Click(chromedp.CSS(`section[aria-label=Simulation] button`), chromedp.NodeEnabled))
	w.sees("th", "Matched tickets")
	w.accessible("simulation")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
	w.sees("dd", "9 min at most")

	// A queue with tickets isn't deleted; without, it is.
	w.click("Delete")
	w.field("to confirm", "ranked")
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeEnabled))
	w.sees("p[@role='alert']", "tickets")
	for _, id := range []int{0, 1, 2, 4, 6, 7} {
		s.call(http.MethodDelete, fmt.Sprintf("tickets/player-%d", id), nil)
	}
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeEnabled))
	w.sees("h1", "Queues")
	w.lacks("div[@role='cell']", "ranked")
}

// TestConsoleTicketWithHeartbeat opens a ticket whose queue wants signs of its player: it is read once, and when asked.
func TestConsoleTicketWithHeartbeat(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.call(http.MethodPut, "queues/watched", object{"match": object{"function": "criteria"}, "heartbeat": "1m"})
	s.ticket("watched", "player", 1)
	p := s.proxy()
	w := browser(t, cuts)(p.url + "/console/tickets/player")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("p", "is read again only when you ask")
	w.ticks(3100) // beyond the pause after which other tickets are read again
	require.Equal(t, 1, p.asked("GET /v1/tickets/player"))
	w.click("Refresh")
	w.ticks(100)
	require.Equal(t, 2, p.asked("GET /v1/tickets/player"))
}
