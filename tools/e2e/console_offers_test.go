package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// chooses selects a value of a field of a form, by the beginning of its text.
func (w window) chooses(label, text string) {
	w.t.Helper()
	script := fmt.Sprintf(`(() => {
		const of = [...document.querySelectorAll('label')].find(l => l.textContent.trim() === %q);
		const list = document.getElementById(of?.htmlFor) ?? document.querySelector('select[aria-label=%q]');
		const option = [...list?.options ?? []].find(o => o.text.startsWith(%q));
		if (!option) return false;
		list.value = option.value;
		return list.dispatchEvent(new Event('change', {bubbles: true}));
	})()`, label, label, text)
	w.do(chromedp.Poll[chromedp.Void](script))
}

// answers sends a dialog, and waits until it has closed.
func (w window) answers() {
	w.t.Helper()
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary, dialog .danger`), chromedp.NodeVisible, chromedp.NodeEnabled),
		chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
}

// TestConsoleOffersChannels does what a channel's page offers besides TestConsole: earlier messages, each way to seek,
// publishing with an ID, purging up to a clock, and the pages of many subscribers.
func TestConsoleOffersChannels(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	for n := range 50 {
		s.publish("news", fmt.Sprintf("message %02d", n))
	}
	const subscribers = 300
	for n := range subscribers {
		s.call(http.MethodPut, fmt.Sprintf("channels/news/subscribers/reader-%03d", n), object{"from": "earliest"})
	}
	w := browser(t, cuts)(s.console + "/console/channels/news")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("span", "message 49")
	w.lacks("span", "message 01")
	w.click("Earlier messages")
	w.sees("span", "message 01")

	// All subscribers are on some page, and there is a way back to the first one.
	const names = `JSON.stringify([...document.querySelectorAll('[aria-label=Subscribers] .name')]
		.map(e => e.textContent))`
	const count = `Number(document.querySelector('[aria-label=Subscribers]')?.ariaRowCount)`
	first := read(w, chromedp.Evaluate[int](count)) - 1
	require.Less(t, first, subscribers)
	w.sees("span", fmt.Sprintf("%d of 300", first))
	shown := read(w, chromedp.Evaluate[string](names))
	w.click("Next page")
	w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(count+` === %d`, subscribers-first+1)))
	require.NotEqual(t, shown, read(w, chromedp.Evaluate[string](names)))
	w.lacks("button", "Next page")
	w.click("First page")
	w.do(chromedp.Poll[chromedp.Void](fmt.Sprintf(count+` === %d`, first+1)))
	require.Equal(t, shown, read(w, chromedp.Evaluate[string](names)))
	s.call(http.MethodDelete, "channels/news", nil)

	// Each way to set a mark.
	s.publish("seeks", 1, 2, 3, 4, 5)
	s.call(http.MethodPut, "channels/seeks/subscribers/bob", object{"from": "latest"})
	w.do(chromedp.Navigate(s.console + "/console/channels/seeks"))
	seek := func(where, field, value, button, want string) {
		t.Helper()
		w.click("Seek")
		w.chooses("Set it", where)
		if field != "" {
			w.field(field, value)
		}
		w.click(button)
		w.sees("p", want)
		w.click("Close")
	}
	seek("before the oldest", "", "", "Set", "The mark is 0; 5 messages follow it.")
	seek("after a clock", "Clock", "3", "Set and skip 3", "The mark is 3; 2 messages follow it.")
	w.click("Seek")
	w.chooses("Set it", "before what was published at a time")
	past := time.Now().Add(-time.Hour).Format("2006-01-02T15:04:05")
	w.do(chromedp.SetValue(chromedp.CSS(`dialog input[type=datetime-local]`), past), chromedp.Poll[chromedp.Void](
		`document.querySelector('dialog input[type=datetime-local]').dispatchEvent(new Event('input', {bubbles: true}))`))
	w.click("Set")
	w.sees("p", "The mark is 0; 5 messages follow it.")
	w.click("Close")

	// A message with an ID is published once.
	for _, want := range []string{"Published at clock 6.",
		"The ID was published before, at clock 6: nothing has changed."} {
		w.click("Publish")
		w.field("Content", `"once"`)
		w.field("ID (optional)", "order-1")
		w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
		w.sees("p", want)
		w.click("Close")
	}
	w.click("Purge")
	w.chooses("Remove", "messages up to a clock")
	w.field("Clock", "4")
	w.confirm("seeks")
	require.Contains(t, string(s.call(http.MethodGet, "channels/seeks", nil)), `"live":2`)

	// The list: nothing begins so, all again, and with details.
	w.do(chromedp.Navigate(s.console + "/console/channels?prefix=nothing"))
	w.sees("p", "No channel’s name begins with “nothing”.")
	w.click("Show all channels")
	w.sees("div[@role='cell']", "seeks")
	s.publish("later", 1)
	w.click("Refresh")
	w.sees("div[@role='cell']", "later")
}

// TestConsoleOffersRecords does what the tabs of records offer besides TestConsoleRecords: settings that are secret
// or not whatever their names, settings of a category, one cached value, and all of a kind.
func TestConsoleOffersRecords(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	w := browser(t, cuts)(s.console + "/console/records?show=settings")
	w.do(chromedp.EmulateViewport(1280, 900))
	create := func(name, value, secret string) {
		t.Helper()
		w.click("New setting")
		w.field("Name", name)
		w.field("Value", value)
		w.chooses("Secret", secret)
		w.answers()
		w.sees("div[@role='cell']", name)
	}
	create("PLAIN_NAME", "hidden-value", "yes")
	create("A_PASSWORD", "shown-value", "no")
	create("B_PASSWORD", "other-hidden-value", "by its name")
	w.sees("div[@role='cell']", "shown-value")
	w.lacks("div[@role='cell']", "hidden-value")
	var all struct {
		Settings []struct{ Name, Value string }
	}
	require.NoError(t, json.Unmarshal(s.call(http.MethodGet, "settings", nil), &all))
	for _, one := range all.Settings {
		require.Equal(t, map[string]string{"A_PASSWORD": "shown-value"}[one.Name], one.Value, one.Name)
	}
	w.do(chromedp.Click(chromedp.CSS(`button[aria-label="Change A_PASSWORD"]`)))
	w.chooses("Secret", "yes")
	w.answers()
	w.lacks("div[@role='cell']", "shown-value")
	w.chooses("Category", "auth")
	w.do(chromedp.Poll[chromedp.Void](`location.search.includes('category=auth')`))
	w.chooses("Category", "all categories")

	// One cached value is removed; then those of a kind by the beginning of their IDs, and all of a kind.
	for _, value := range []string{"topic/5", "topic/6", "search/a1", "search/a2", "search/b1"} {
		s.call(http.MethodPut, "cache/"+value, object{"of": value})
	}
	cached := func(kind string, ids ...string) (found int) {
		t.Helper()
		var got struct{ Values []any }
		require.NoError(t, json.Unmarshal(s.call(http.MethodPost, "cache/"+kind+"/get", object{"ids": ids}), &got))
		return len(got.Values)
	}
	w.click("Caches")
	w.field("Kind", "topic")
	w.field("ID", "5")
	w.click("Show")
	w.sees("span[@class='scalar string']", "topic/5")
	w.click("Remove")
	w.answers()
	w.sees("p", "There is no such value.")
	require.Equal(t, 1, cached("topic", "5", "6"))
	invalidate := func(prefix, want string) {
		t.Helper()
		w.click("Invalidate")
		w.chooses("Remove the values", "of a kind")
		w.do(chromedp.WaitVisible(chromedp.CSS(`dialog .danger:disabled`)))
		w.do(chromedp.SendKeys(chromedp.CSS(`dialog input[placeholder=search]`), "search"))
		if prefix != "" {
			w.field("IDs that begin with", prefix)
		} else {
			w.do(chromedp.WaitVisible(chromedp.CSS(`dialog .danger:disabled`))) // until the kind is typed again
			w.field("to remove all of the kind", "search")
		}
		w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeEnabled))
		w.sees("p", want)
		w.click("Close")
	}
	invalidate("a", "2 values were removed.")
	require.Equal(t, 1, cached("search", "a1", "a2", "b1"))
	invalidate("", "1 value was removed.")
	require.Zero(t, cached("search", "a1", "a2", "b1"))
	require.Equal(t, 1, cached("topic", "6"))
}

// TestConsoleOffersAccess does what the page of access offers besides TestConsoleAccess: a token is revoked by its ID
// and until a time, and a key has several grants, limits and an end.
func TestConsoleOffersAccess(t *testing.T) {
	t.Parallel()
	keys, file := writeKeys(t, map[string]string{"admin": `[{"actions":["admin"]}]`})
	s := startSite(t, "--api-keys", file)
	w := browser(t, regexp.MustCompile(`responded with a status of (401|403|404|429)`))(s.console + "/console/access")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.field("API key", keys["admin"])
	w.click("Sign in")
	w.click("Revoke tokens")
	w.chooses("Revoke", "one token, by its ID")
	w.field("ID of the token (jti)", "01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A")
	until := time.Now().Add(48 * time.Hour)
	w.do(chromedp.SetValue(chromedp.CSS(`dialog input[type=datetime-local]`), until.Format("2006-01-02T15:04")),
		chromedp.Poll[chromedp.Void](
			`document.querySelector('dialog input[type=datetime-local]').dispatchEvent(new Event('input', {bubbles: true}))`))
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("p", "Revoked until "+until.Add(time.Hour).Format("Jan 2, 2006")) // clocks may differ by an hour
	w.click("Close")
	w.click("Revocations")
	w.sees("div[@role='cell']", "01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A")
	w.sees("div[@role='cell']", "token")

	w.click("API keys")
	w.click("Create a key")
	w.field("Description", "two grants")
	w.chooses("Expires", "in 30 days")
	w.field("Limits (optional)", "requests=5/s")
	box := func(grant, action string) {
		t.Helper()
		w.do(chromedp.Click(chromedp.Search(fmt.Sprintf(
			`//fieldset[contains(legend, %q)]//label[normalize-space()=%q]`, grant, action))))
	}
	box("It may", "publish")
	w.click("Add a grant")
	box("Grant 2", "queue")
	w.field("Queues", "duel.*")
	w.click("Add a grant")
	w.do(chromedp.Click(chromedp.Search(`(//button[normalize-space()="Remove this grant"])[3]`)))
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled))
	w.sees("h2", "The key was created")
	key := read(w, chromedp.Text(chromedp.CSS(`.secret code`)))
	w.click("Done")
	w.sees("div[@role='cell']", "publish; queue · queues duel.*")
	w.click(key[4:20])
	w.sees("dd", "requests=5/s")
	w.sees("dd", time.Now().AddDate(0, 0, 30).UTC().Format("2006-01-02"))
	w.do(chromedp.Click(chromedp.CSS(`button[aria-label=Close]`)), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))

	// A client beyond a limit, and one without the right, are listed.
	ask := func(path string) (status int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.service+"/v1/"+path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Eventually(t, func() bool { return ask("channels/secrets") == http.StatusForbidden }, patience, time.Second)
	for ask("info") != http.StatusTooManyRequests { // five of them, at once
	}
	w.click("Limited")
	w.sees("div[@role='cell']", "5/s per key")
	w.click("Refused")
	w.sees("div[@role='cell']", "GET /v1/channels/secrets")
	w.sees("div[@role='cell']", "key:"+key[4:20])
}

// TestConsoleOffersTheRest does what is left: finding queues, examining again, reading a ticket again, metrics and
// other windows of statistics, and copying.
func TestConsoleOffersTheRest(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	for _, queue := range []string{"duel", "teams"} {
		s.call(http.MethodPut, "queues/"+queue, object{"match": object{"function": "criteria"}})
	}
	w := browser(t, cuts)(s.console + "/console/queues")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("div[@role='cell']", "teams")
	w.do(chromedp.SendKeys(chromedp.CSS(`input[aria-label="Names that contain"]`), "due"))
	w.lacks("div[@role='cell']", "teams")
	w.follows("duel")
	w.click("Examine the waiting tickets")
	w.sees("p", "No ticket waits.")
	s.ticket("duel", "ann", 1000)
	w.click("Examine again")
	w.sees("td", "nobody else asks for the same kind of match")
	w.follows("ann")
	w.sees("h1", "ann")
	s.call(http.MethodDelete, "tickets/ann", nil)
	w.click("Refresh")
	w.sees("span", "cancelled")

	s.call(http.MethodPost, "metrics/mails/weekly", object{"add": 7})
	s.call(http.MethodPost, "stats/topics/hourly", object{"fields": object{"created": 3}})
	w.do(chromedp.Navigate(s.console + "/console/records?show=statistics"))
	w.chooses("Of", "a metric")
	w.chooses("Windows", "weeks")
	w.field("Metric", "mails")
	w.click("Show")
	w.sees("td", "7")
	w.chooses("Of", "counters of an entity")
	w.chooses("Windows", "hours")
	w.field("Entity", "topics")
	w.click("Show")
	w.sees("th", "created")
	w.sees("td", "3")

	s.publish("news", object{"text": "to copy"})
	w.do(chromedp.Navigate(s.console + "/console/channels/news"))
	w.unfold("to copy")
	w.click("Copy the content")
	w.sees("button", "Copied")
}
