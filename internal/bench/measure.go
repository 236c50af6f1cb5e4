package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

const (
	channels     = 100
	contentBytes = 256
)

// content is a JSON string of 256 bytes.
var content = `"` + strings.Repeat("x", contentBytes-2) + `"`

// pair is one measurement of a figure and of its floor, in seconds of CPU time.
type pair struct{ ours, floor float64 }

func measurePublish(ctx context.Context, s settings, u *setup, r *report) error {
	round := 0
	publish := func(n int) []byte {
		path := fmt.Sprintf("/v1/channels/bench-%d/messages/p%d-%d", n%channels, round, n)
		return httpRequest(http.MethodPut, path, content)
	}
	var server, store, beside []pair
	for round = range s.rounds {
		var p, q pair
		if err := u.emptyRedis(ctx); err != nil {
			return err
		}
		var err error
		if q.floor, err = u.redisFloor(ctx, s.requests); err != nil {
			return err
		}
		if err := u.emptyRedis(ctx); err != nil {
			return err
		}
		before, err := u.redisCPU(ctx)
		if err != nil {
			return err
		}
		var last answer
		if p.ours, last, err = u.measureServer(ctx, s.requests, publish); err != nil {
			return err
		}
		after, err := u.redisCPU(ctx)
		if err != nil {
			return err
		}
		q.ours = (after - before) / float64(s.requests)
		if p.floor, err = u.measureFloor(ctx, s.requests, publish, last); err != nil {
			return err
		}
		if err := u.emptyRedis(ctx); err != nil {
			return err
		}
		b := pair{ours: q.ours}
		if b.floor, err = u.redisFloorBeside(ctx, s.requests, publish); err != nil {
			return err
		}
		server, store, beside = append(server, p), append(store, q), append(beside, b)
	}
	r.add("Redis CPU per publish, against the script under redis-benchmark", store, 1.0)
	r.add("Redis CPU per publish, against the script beside the load of a net/http handler", beside, 1.0)
	r.add("server CPU per publish, against a net/http handler", server, 2.5)
	return nil
}

// compare sends the same requests to the server and, answered with the server's own last answer, to the floor.
func (u *setup) compare(ctx context.Context, n int, next maker) (pair, error) {
	ours, last, err := u.measureServer(ctx, n, next)
	if err != nil {
		return pair{}, err
	}
	floor, err := u.measureFloor(ctx, n, next, last)
	return pair{ours: ours, floor: floor}, err
}

// measureServer gives the server's CPU seconds per request, and its last answer.
func (u *setup) measureServer(ctx context.Context, n int, next maker) (seconds float64, last answer, err error) {
	seconds, err = cpu(ctx, u.server, n, func() error { last, err = load(ctx, u.server, n, next); return err })
	return seconds, last, err
}

// measureFloor gives the CPU seconds per request of a bare handler that gives the same answer.
func (u *setup) measureFloor(ctx context.Context, n int, next maker, last answer) (float64, error) {
	put := httpRequest(http.MethodPut, "/answer?status="+strconv.Itoa(last.status), string(last.body))
	if _, err := once(ctx, u.floor, put); err != nil {
		return 0, err
	}
	return cpu(ctx, u.floor, n, func() error { _, err := load(ctx, u.floor, n, next); return err })
}

// emptyRedis has what is measured next find the same as what was measured before: while Redis's table of keys grows a
// write costs more than otherwise. So it does while the append-only file is written anew, which is switched off.
func (u *setup) emptyRedis(ctx context.Context) error {
	set := u.redis.B().ConfigSet().ParameterValue().ParameterValue("auto-aof-rewrite-percentage", "0").Build()
	if err := u.redis.Do(ctx, set).Error(); err != nil {
		return err
	}
	return u.redis.Do(ctx, u.redis.B().Flushall().Sync().Build()).Error()
}

// cpu gives the CPU seconds of a process per request of a load.
func cpu(ctx context.Context, address string, n int, load func() error) (float64, error) {
	before, err := metric(ctx, address, "process_cpu_seconds_total")
	if err != nil {
		return 0, err
	}
	if err := load(); err != nil {
		return 0, err
	}
	after, err := metric(ctx, address, "process_cpu_seconds_total")
	return (after - before) / float64(n), err
}

// redisFloor gives Redis's CPU seconds per publish script, run by redis-benchmark without pipelining.
func (u *setup) redisFloor(ctx context.Context, n int) (float64, error) {
	script := lua.Must("channels/publish")
	if err := u.redis.Do(ctx, u.redis.B().ScriptLoad().Script(script.Source()).Build()).Error(); err != nil {
		return 0, err
	}
	const base = "c.{bench-floor}"
	args := []string{
		"-s", u.socket, "-c", strconv.Itoa(connections), "-n", strconv.Itoa(n), "-r", "2000000000", "-q",
		"EVALSHA", script.SHA1(), "4",
		base + ".clock", base + ".epoch", base + ".subs", base + ".mid.__rand_int__",
		base + ".m.", base + ".r.", "86400000", "01M7XSP26QJ3QEVHWDRP2PHXG6", "0", base, "16384",
		`{"id":"__rand_int__","content":` + content,
	}
	before, err := u.redisCPU(ctx)
	if err != nil {
		return 0, err
	}
	if out, err := exec.CommandContext(ctx, "redis-benchmark", args...).CombinedOutput(); err != nil { //nolint:gosec // our own arguments
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	after, err := u.redisCPU(ctx)
	return (after - before) / float64(n), err
}

// redisFloorBeside is redisFloor while the bare handler has the load that the server has otherwise: so Redis shares the
// cores and their caches with as much as it does then.
func (u *setup) redisFloorBeside(ctx context.Context, n int, next maker) (float64, error) {
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && loaded.Err() == nil {
			_, err = load(ctx, u.floor, n/10, next)
		}
		if loaded.Err() != nil {
			err = nil // it was cut off in its middle
		}
		ended <- err
	}()
	perPublish, err := u.redisFloor(ctx, n)
	stop()
	return perPublish, errors.Join(err, <-ended)
}

// redisCPU gives the CPU seconds that Redis has used.
func (u *setup) redisCPU(ctx context.Context) (float64, error) {
	user, err := u.redisInfo(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	system, err := u.redisInfo(ctx, "cpu", "used_cpu_sys")
	return user + system, err
}

// redisInfo reads one number from a section of INFO. A command's line gives its number of calls.
func (u *setup) redisInfo(ctx context.Context, section, field string) (float64, error) {
	text, err := u.redis.Do(ctx, u.redis.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, nil // a command that was never called has no line
}

// measureFetch fetches ten messages, again and again, since nothing is acknowledged.
func measureFetch(ctx context.Context, s settings, u *setup, r *report) error {
	for i := range channels {
		path := fmt.Sprintf("/v1/channels/fetch-%d", i)
		if _, err := once(ctx, u.server, httpRequest(http.MethodPut, path+"/subscribers/s", "")); err != nil {
			return err
		}
		for j := range 10 {
			publish := httpRequest(http.MethodPut, fmt.Sprintf("%s/messages/m%d", path, j), content)
			if _, err := once(ctx, u.server, publish); err != nil {
				return err
			}
		}
	}
	return u.series(ctx, s, r, series{
		name: "server CPU per fetch of ten, against a net/http handler", limit: 4,
		next: func(n int) []byte {
			return httpRequest(http.MethodGet, fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/messages?max=10", n%channels), "")
		},
	})
}

// measureAck acknowledges the same receipts again and again: to the server a repeat is as much work as the first.
func measureAck(ctx context.Context, s settings, u *setup, r *report) error {
	handles := make([]string, channels)
	for i := range handles {
		path := fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/messages?max=5", i)
		a, err := once(ctx, u.server, httpRequest(http.MethodGet, path, ""))
		if err != nil {
			return err
		}
		var body struct {
			ReceiptHandle string `json:"receiptHandle"`
		}
		if err := json.Unmarshal(a.body, &body); err != nil {
			return err
		}
		handles[i] = `{"receiptHandle":"` + body.ReceiptHandle + `"}`
	}
	return u.series(ctx, s, r, series{
		name: "server CPU per ack, against a net/http handler", limit: 2.5,
		next: func(n int) []byte {
			path := fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/ack", n%channels)
			return httpRequest(http.MethodPost, path, handles[n%channels])
		},
	})
}

// measureEmptyFetch fetches where there is nothing.
func measureEmptyFetch(ctx context.Context, s settings, u *setup, r *report) error {
	for i := range channels {
		path := fmt.Sprintf("/v1/channels/empty-%d/subscribers/s", i)
		if _, err := once(ctx, u.server, httpRequest(http.MethodPut, path, "")); err != nil {
			return err
		}
	}
	return u.series(ctx, s, r, series{
		name: "server CPU per empty fetch, against a net/http handler", limit: 2.5,
		next: func(n int) []byte {
			return httpRequest(http.MethodGet, fmt.Sprintf("/v1/channels/empty-%d/subscribers/s/messages", n%channels), "")
		},
	})
}

// series is one figure of the server against its floor, measured several times.
type series struct {
	name  string
	limit float64
	next  maker
}

func (u *setup) series(ctx context.Context, s settings, r *report, m series) error {
	var pairs []pair
	for range s.rounds {
		p, err := u.compare(ctx, s.requests, m.next)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		pairs = append(pairs, p)
	}
	r.add(m.name, pairs, m.limit)
	return nil
}
