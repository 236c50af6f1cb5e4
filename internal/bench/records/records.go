// Package records measures what checks of sessions, reads of cached values, and views cost.
package records

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// What records may cost, from the project's goals.
const (
	checkRatio    = 2.5  // times the CPU of a bare handler
	checkCommands = 1    // that Redis gets for a check
	hotReads      = 1e6  // a second, of one core
	rest          = 1e-3 // commands for each call that the server sends anyhow, such as a comparison every few seconds
)

// How much is measured.
const (
	checkUsers  = 100
	manyUser    = "many"
	manySession = 1000 // of that user, which one call revokes
	viewedIDs   = 100
)

// Measure measures records.
func Measure(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary, "--matchmaking", "off")
	if err != nil {
		return err
	}
	defer u.Stop()
	r.Printf("\n## Records\n\n| figure | | goal | |\n|---|---:|---:|---|\n")
	for _, measure := range []func(context.Context, target.Settings, *target.Target, *report.Report) error{
		measureChecks, measureRevokeAll, measureViews, measureHotReads, measureLoads,
	} {
		if err := measure(ctx, s, u, r); err != nil {
			return err
		}
	}
	return nil
}

// The commands of records. Redis counts those of scripts with the others.
var (
	scripts  = []string{"evalsha", "eval", "evalsha_ro", "eval_ro"}
	commands = []string{
		"get", "mget", "hget", "hgetall", "hmget", "hset", "hlen", "set", "del", "unlink", "exists", "expire", "pexpire", "pexpireat",
		"incrby", "smembers", "time",
	}
)

// traffic is how many scripts, and commands in and beside them, Redis gets.
type traffic struct{ scripts, commands float64 }

// sent returns what Redis gets for each of n calls.
func sent(ctx context.Context, u *target.Target, n int, call func() error) (traffic, error) {
	all := append(append([]string{}, scripts...), commands...)
	before, err := u.Redis.Calls(ctx, all)
	if err != nil {
		return traffic{}, err
	}
	if err := call(); err != nil {
		return traffic{}, err
	}
	after, err := u.Redis.Calls(ctx, all)
	var l traffic
	for _, command := range scripts {
		l.scripts += (after[command] - before[command]) / float64(n)
	}
	for _, command := range commands {
		l.commands += (after[command] - before[command]) / float64(n)
	}
	return l, err
}

// compared returns by how much more CPU the server takes for a request than a bare handler, and its CPU time.
func compared(ctx context.Context, s target.Settings, u *target.Target, next load.Maker) (ratio float64, cpu time.Duration, err error) {
	var ratios, times []float64
	for range s.Rounds {
		p, err := u.Compare(ctx, s.Requests, next)
		if err != nil {
			return 0, 0, err
		}
		ratios, times = append(ratios, p.Ours/p.Floor), append(times, p.Ours)
	}
	return report.Median(ratios), time.Duration(report.Median(times) * 1e9), nil
}

// login creates a session of a user, and returns its token.
func login(ctx context.Context, u *target.Target, user string) (string, error) {
	a, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPost, "/v1/users/"+user+"/sessions", `{"username":"`+user+`"}`))
	if err != nil {
		return "", err
	}
	var issued struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(a.Body, &issued); err != nil || a.Status != http.StatusCreated {
		return "", fmt.Errorf("create a session: %d %s", a.Status, a.Body)
	}
	return issued.Token, nil
}

// measureChecks checks sessions of several users again and again.
func measureChecks(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	bodies := make([]string, checkUsers)
	for i := range bodies {
		token, err := login(ctx, u, fmt.Sprintf("user-%d", i))
		if err != nil {
			return err
		}
		bodies[i] = `{"token":"` + token + `"}`
		if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPost, "/v1/sessions/check", bodies[i])); err != nil {
			return err
		}
	}
	var ratio float64
	var cpu time.Duration
	got, err := sent(ctx, u, s.Rounds*s.Requests, func() (err error) {
		ratio, cpu, err = compared(ctx, s, u, func(n int) []byte {
			return load.Request(http.MethodPost, "/v1/sessions/check", bodies[n%checkUsers])
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("checks of sessions: %w", err)
	}
	r.Printf("| check of a session, server CPU against a bare handler (%s) | %.2f | ≤ %.1f | %s |\n", report.Micros(cpu), ratio, checkRatio,
		report.Verdict(ratio <= checkRatio))
	r.Printf("| scripts that Redis gets for it (commands in them: %.2f) | %.2f | ≤ %d | %s |\n", got.commands, got.scripts, checkCommands,
		report.Verdict(got.scripts < checkCommands+rest))
	return nil
}

// measureRevokeAll ends many sessions of a user by one call.
func measureRevokeAll(ctx context.Context, _ target.Settings, u *target.Target, r *report.Report) error {
	for range manySession {
		if _, err := login(ctx, u, manyUser); err != nil {
			return err
		}
	}
	path := "/v1/users/" + manyUser + "/sessions"
	begun := time.Now()
	a, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodDelete, path, ""))
	took := time.Since(begun)
	if err != nil || a.Status != http.StatusNoContent {
		return fmt.Errorf("revoke all sessions: %w: %d %s", err, a.Status, a.Body)
	}
	left, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodGet, path, ""))
	if err != nil {
		return err
	}
	r.Printf("| revocation of all %d sessions of a user: one call | %s | none is left | %s |\n", manySession, report.Millis(took),
		report.Verdict(strings.TrimSpace(string(left.Body)) == `{"sessions":[]}`))
	return nil
}

// measureViews counts views of some IDs.
func measureViews(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	var ratio float64
	var cpu time.Duration
	begun := time.Now()
	got, err := sent(ctx, u, s.Rounds*s.Requests, func() (err error) {
		ratio, cpu, err = compared(ctx, s, u, func(n int) []byte {
			return load.Request(http.MethodPost, fmt.Sprintf("/v1/views/%d", n%viewedIDs), "")
		})
		if err == nil {
			err = awaitViews(ctx, u, int64(s.Rounds*s.Requests))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	flushes := time.Since(begun).Seconds()
	r.Printf("| count of a view, server CPU against a bare handler (%s) | %.2f | | |\n", report.Micros(cpu), ratio)
	r.Printf("| scripts that Redis gets for it, of %d IDs (at most one a second and ID, in %.0f s) | %.4f | | |\n", viewedIDs, flushes, got.scripts)
	return nil
}

// awaitViews waits until all views are written.
func awaitViews(ctx context.Context, u *target.Target, want int64) error {
	ids := make([]string, viewedIDs)
	for i := range ids {
		ids[i] = "id=" + strconv.Itoa(i)
	}
	for {
		a, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodGet, "/v1/views?"+strings.Join(ids, "&"), ""))
		if err != nil {
			return err
		}
		var found struct {
			Views []struct {
				Total int64 `json:"total"`
			} `json:"views"`
		}
		if err := json.Unmarshal(a.Body, &found); err != nil {
			return err
		}
		sum := int64(0)
		for _, v := range found.Views {
			sum += v.Total
		}
		if sum == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
