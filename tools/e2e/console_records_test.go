package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleRecords does what the tabs of the page of records offer.
func TestConsoleRecords(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	for range 2 {
		s.call(http.MethodPost, "users/ann/sessions", object{"username": hostile, "deviceInfo": object{"agent": "\u202eeno"}})
	}
	s.call(http.MethodPut, "settings/GREETING", object{"value": hostile})
	s.call(http.MethodPut, "settings/DATABASE_URL", object{"value": "postgres://a-secret"})
	s.call(http.MethodPut, "locks/resize/image-7", object{"ttl": "10m"})
	s.call(http.MethodPatch, "states/import/7", object{"fields": object{"step": hostile, "long": strings.Repeat("y", 5000)}})
	s.call(http.MethodPost, "stats/topics/daily", object{"fields": object{"created": 41, "__proto__": 1, "constructor": 2}})
	s.call(http.MethodPost, "metrics/mails/weekly", object{"add": 7})
	s.call(http.MethodPut, "cache/topic/5?tags=topic:5", object{"title": hostile})

	w := browser(t, cuts)(s.console + "/console/records")
	w.do(chromedp.EmulateViewport(1280, 900))
	w.sees("div[@role='cell']", "user_sessions:{<user>}")
	w.accessible("kinds")
	w.click("Count the keys")
	w.sees("span", "keys counted")
	w.click("Memory")
	w.sees("div[@role='columnheader'][@aria-sort='descending']", "Memory")
	w.click("setting")
	w.sees("th", "Largest keys")
	w.sees("td", "env_vars:{")
	w.accessible("a kind")
	w.do(chromedp.Click(chromedp.CSS(`button[aria-label=Close]`)), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
	w.do(chromedp.SendKeys(chromedp.CSS(`input[aria-label="Kinds that contain"]`), "oauth"))
	w.lacks("div[@role='cell']", "user-sessions")

	// Sessions: one ends, then all.
	w.click("Sessions")
	w.field("User ID", "ann")
	w.click("Show")
	w.sees("div[@role='cell']", "<script>document.title=")
	w.sees("div[@role='cell']", `\u202eeno`)
	w.accessible("sessions")
	w.click("End")
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeEnabled), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
	w.sees("span", "1 session,")
	w.click("End all")
	w.confirm("ann")
	w.sees("p", "“ann” has no session.")

	// Names are shown without what changes the direction of a text, and can be typed as they are shown.
	s.call(http.MethodPost, "users/%E2%80%AEann/sessions", object{"username": "ann"})
	w.do(chromedp.Navigate(s.console + "/console/records?show=sessions&user=%E2%80%AEann"))
	w.click("End all")
	w.sees("label/b", `\u202eann`)
	w.confirm(`\u202eann`)
	w.sees("p", `“\u202eann” has no session.`)

	// Settings: a secret is masked until it is asked for.
	w.click("Settings")
	w.sees("div[@role='cell']", "<script>document.title=")
	w.lacks("div[@role='cell']", "a-secret")
	w.accessible("settings")
	w.click("DATABASE_URL")
	w.click("Show the secret")
	w.sees("pre", "postgres://a-secret")
	w.click("Close")
	w.click("New setting")
	w.field("Name", "no spaces")
	w.sees("p", "Letters, digits")
	w.field("Name", "LOG_LEVEL")
	w.field("Value", "debug")
	w.accessible("the form of a setting")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
	w.sees("div[@role='cell']", "debug")
	w.do(chromedp.Click(chromedp.CSS(`button[aria-label="Change LOG_LEVEL"]`)))
	w.field("Value", "warn")
	w.do(chromedp.Click(chromedp.CSS(`dialog .primary`), chromedp.NodeEnabled), chromedp.WaitNotPresent(chromedp.CSS(`dialog`)))
	w.sees("div[@role='cell']", "warn")
	w.do(chromedp.Click(chromedp.CSS(`button[aria-label="Delete LOG_LEVEL"]`)))
	w.confirm("LOG_LEVEL")
	w.lacks("div[@role='cell']", "LOG_LEVEL")

	w.click("Locks")
	w.field("Operation", "resize")
	w.field("Of what", "image-7")
	w.click("Show")
	w.sees("span", "held")
	w.accessible("locks")

	w.click("States")
	w.field("Process", "import")
	w.field("Run", "7")
	w.click("Show")
	w.sees("td", "<script>document.title=")
	w.click("all of 4.9 KiB")
	w.accessible("states")
	w.click("Delete")
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeEnabled))
	w.sees("p", "There is no such state.")

	w.click("Statistics")
	w.field("Entity", "topics")
	w.click("Show")
	w.sees("td", "41")
	w.sees("th", "__proto__")
	w.sees("th", "constructor")
	w.do(chromedp.WaitVisible(chromedp.CSS(`.chart canvas`)))
	w.accessible("statistics")
	w.do(chromedp.Navigate(s.console + "/console/records?show=statistics&of=metrics&name=mails&frame=weekly"))
	w.sees("td", "7")

	// Caches: a value is shown, and invalidated by its tag.
	w.click("Caches")
	w.field("Kind", "topic")
	w.field("ID", "5")
	w.click("Show")
	w.sees("span[@class='scalar string']", "<script>document.title=")
	w.accessible("caches")
	w.click("Invalidate")
	w.field("Tags", "topic:5")
	w.do(chromedp.Click(chromedp.CSS(`dialog .danger`), chromedp.NodeEnabled))
	w.sees("p", "1 value was removed.")
	w.click("Close")
	w.click("Refresh")
	w.sees("p", "There is no such value.")
	require.Equal(t, "Records – Tidemark", read(w, chromedp.Title()))
	w.do(chromedp.NavigateBack())
	w.sees("h2", "Statistics")
}

// TestConsoleOfFewRights shows what keys may do with some queues and records, and nothing else.
func TestConsoleOfFewRights(t *testing.T) {
	t.Parallel()
	keys, file := writeKeys(t, map[string]string{
		"some": `[{"actions":["read","write"],"records":["settings","settings/*"]},{"actions":["queue"],"queues":["default"]}]`,
		"read": `[{"actions":["read"],"records":["sessions/ann"]}]`,
	})
	s := startSite(t, "--api-keys", file)
	w := browser(t, regexp.MustCompile(`responded with a status of (401|403|404)`))(s.console)
	w.do(chromedp.EmulateViewport(1280, 900))
	w.field("API key", keys["some"])
	w.click("Sign in")
	w.sees("nav", "Queues")
	w.lacks("nav/a", "Shards")
	w.follows("Records")
	w.sees("p", "There are no settings.")
	w.lacks("button", "Sessions")
	w.do(chromedp.Navigate(s.console + "/console/records?show=sessions&user=ann"))
	w.sees("p", "This key may not read these records.")
	w.follows("Queues")
	w.follows("default")
	w.sees("h1", "default")
	w.sees("dt", "Waiting")
	w.lacks("h2", "The last hour")
	w.do(chromedp.Click(chromedp.CSS(`.who button`)))

	w.field("API key", keys["read"])
	w.click("Sign in")
	w.lacks("nav/a", "Queues")
	w.do(chromedp.Navigate(s.console + "/console/records?show=sessions&user=ann"))
	w.sees("p", "“ann” has no session.")
	w.lacks("button", "Kinds")
}

// TestConsoleSurvey cancels a survey of many keys from another tab than the one in which it was started.
func TestConsoleSurvey(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.otherKeys(400_000)
	open := browser(t, cuts)
	w, other := open(s.console+"/console/records"), open(s.console+"/console/records")
	for _, w := range []window{w, other} {
		w.do(chromedp.EmulateViewport(1280, 900))
		w.sees("button", "Count the keys")
	}
	w.click("Count the keys")
	w.sees("span", "Counting:")
	started := regexp.MustCompile(`"startedAt":"[^"]*"`)
	first := started.FindString(string(s.call(http.MethodGet, "survey", nil)))
	require.NotEmpty(t, first)

	// the other tab still offers to start one: it joins the one that runs
	other.click("Count the keys")
	other.sees("span", "Counting:")
	other.lacks("button", "Count the keys")
	require.Equal(t, first, started.FindString(string(s.call(http.MethodGet, "survey", nil))))
	other.accessible("a survey that runs")
	other.click("Cancel")
	other.sees("span", "before it was cancelled")
	w.sees("span", "before it was cancelled")
	w.sees("button", "Count again")
	require.Contains(t, string(s.call(http.MethodGet, "survey", nil)), `"state":"canceled"`)
}
