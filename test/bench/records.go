package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Limits of the cost of records, from the project's goals.
const (
	checkRatio    = 2.5  // times the CPU of a bare handler
	checkCommands = 1    // scripts per check
	noise         = 1e-3 // commands per call that the server sends anyway, such as a comparison every few seconds
)

// The sizes of the measurements.
const (
	checkUsers  = 100
	manyUser    = "many"
	manySession = 1000 // of one user, all revoked by one call
	viewedIDs   = 100
)

// measureRecords measures the cost of checks of sessions, and of views.
func measureRecords(b *bench) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.table("figure | : | goal: | ")
	u.measureChecks()
	u.measureRevokeAll()
	u.measureViews()
}

// The commands of records. Redis's counts include the commands that scripts run.
var (
	scriptCommands = []string{"evalsha", "eval", "evalsha_ro", "eval_ro"}
	recordCommands = []string{
		"get", "mget", "hget", "hgetall", "hmget", "hset", "hlen", "set", "del", "unlink", "exists", "expire", "pexpire",
		"pexpireat",
		"incrby", "smembers", "time",
	}
)

// sent returns the number of scripts, and of commands inside and outside of scripts, that Redis receives for each of n
// calls.
func (u *system) sent(n int, call func()) (scripts, commands float64) {
	scripts, commands = u.redis.calls(scriptCommands...), u.redis.calls(recordCommands...)
	call()
	return (u.redis.calls(scriptCommands...) - scripts) / float64(n),
		(u.redis.calls(recordCommands...) - commands) / float64(n)
}

// login creates a session of a user, and returns its token.
func (u *system) login(user string) string {
	a := u.request(http.MethodPost, "/v1/users/"+user+"/sessions", `{"username":"`+user+`"}`)
	var issued struct {
		Token string `json:"token"`
	}
	u.Must(json.Unmarshal(a.Body, &issued))
	return issued.Token
}

// measureChecks checks sessions of several users again and again.
func (u *system) measureChecks() {
	bodies := make([]string, checkUsers)
	for i := range bodies {
		bodies[i] = `{"token":"` + u.login(fmt.Sprintf("user-%d", i)) + `"}`
		u.request(http.MethodPost, "/v1/sessions/check", bodies[i])
	}
	var pairs []pair
	scripts, commands := u.sent(u.rounds*u.requests, func() {
		pairs = u.compare(func(n int) []byte {
			return load.Request(http.MethodPost, "/v1/sessions/check", bodies[n%checkUsers])
		})
	})
	cpu, _, ratio := medians(pairs)
	u.row(fmt.Sprintf("check of a session, server CPU against a bare handler (%s)", report.Micros(cpu)),
		fmt.Sprintf("%.2f", ratio), fmt.Sprintf("≤ %.1f", checkRatio), ratio <= checkRatio)
	u.row(fmt.Sprintf("scripts sent to Redis for it (commands in them: %.2f)", commands), fmt.Sprintf("%.2f", scripts),
		fmt.Sprintf("≤ %d", checkCommands), scripts < checkCommands+noise)
}

// measureRevokeAll ends many sessions of a user by one call.
func (u *system) measureRevokeAll() {
	for range manySession {
		u.login(manyUser)
	}
	path := "/v1/users/" + manyUser + "/sessions"
	started := time.Now()
	a := u.request(http.MethodDelete, path, "")
	took := time.Since(started)
	if a.Status != http.StatusNoContent {
		u.Fatalf("revoke all sessions: %d %s", a.Status, a.Body)
	}
	answer := u.request(http.MethodGet, path, "")
	u.row(fmt.Sprintf("revocation of all %d sessions of a user: one call", manySession), took, "none is left",
		strings.TrimSpace(string(answer.Body)) == `{"sessions":[]}`)
}

// measureViews counts views of some IDs.
func (u *system) measureViews() {
	var pairs []pair
	started := time.Now()
	scripts, _ := u.sent(u.rounds*u.requests, func() {
		pairs = u.compare(func(n int) []byte {
			return load.Request(http.MethodPost, fmt.Sprintf("/v1/views/%d", n%viewedIDs), "")
		})
		u.awaitViews(int64(u.rounds * u.requests))
	})
	flushes := time.Since(started).Seconds()
	cpu, _, ratio := medians(pairs)
	u.row(fmt.Sprintf("count of a view, server CPU against a bare handler (%s)", report.Micros(cpu)),
		fmt.Sprintf("%.2f", ratio), "", "")
	u.row(fmt.Sprintf("scripts sent to Redis for it, with %d IDs (at most one a second and ID, in %.0f s)", viewedIDs,
		flushes), fmt.Sprintf("%.4f", scripts), "", "")
}

// awaitViews waits until all views are written.
func (u *system) awaitViews(want int64) {
	ids := make([]string, viewedIDs)
	for i := range ids {
		ids[i] = "id=" + strconv.Itoa(i)
	}
	u.await("all views are written", func() bool {
		var found struct {
			Views []struct {
				Total int64 `json:"total"`
			} `json:"views"`
		}
		u.Must(json.Unmarshal(u.request(http.MethodGet, "/v1/views?"+strings.Join(ids, "&"), "").Body, &found))
		sum := int64(0)
		for _, v := range found.Views {
			sum += v.Total
		}
		return sum == want
	})
}
