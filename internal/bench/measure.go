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

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
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
		return drive.Request(http.MethodPut, path, content)
	}
	var server, store, beside []pair
	for round = range s.rounds {
		var p, q pair
		if err := u.EmptyRedis(ctx); err != nil {
			return err
		}
		var err error
		if q.floor, err = u.redisFloor(ctx, s.requests); err != nil {
			return err
		}
		if err := u.EmptyRedis(ctx); err != nil {
			return err
		}
		before, err := u.RedisCPU(ctx)
		if err != nil {
			return err
		}
		var last drive.Answer
		if p.ours, last, err = u.measureServer(ctx, s.requests, publish); err != nil {
			return err
		}
		after, err := u.RedisCPU(ctx)
		if err != nil {
			return err
		}
		q.ours = (after - before) / float64(s.requests)
		if p.floor, err = u.measureFloor(ctx, s.requests, publish, last); err != nil {
			return err
		}
		if err := u.EmptyRedis(ctx); err != nil {
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

// compare sends the same requests to the server and, answered with the server's own last drive.Answer, to the floor.
func (u *setup) compare(ctx context.Context, n int, next drive.Maker) (pair, error) {
	ours, last, err := u.measureServer(ctx, n, next)
	if err != nil {
		return pair{}, err
	}
	floor, err := u.measureFloor(ctx, n, next, last)
	return pair{ours: ours, floor: floor}, err
}

// measureServer returns the server's CPU seconds per request, and its last drive.Answer.
func (u *setup) measureServer(ctx context.Context, n int, next drive.Maker) (seconds float64, last drive.Answer, err error) {
	seconds, err = cpu(ctx, u.Server, n, func() error { last, err = drive.Load(ctx, u.Server, n, next); return err })
	return seconds, last, err
}

// measureFloor returns the CPU seconds per request of a bare handler that returns the same answer.
func (u *setup) measureFloor(ctx context.Context, n int, next drive.Maker, last drive.Answer) (float64, error) {
	put := drive.Request(http.MethodPut, "/answer?status="+strconv.Itoa(last.Status), string(last.Body))
	if _, err := drive.Once(ctx, u.Floor, put); err != nil {
		return 0, err
	}
	return cpu(ctx, u.Floor, n, func() error { _, err := drive.Load(ctx, u.Floor, n, next); return err })
}

// cpu returns the CPU seconds of a process per request of a load.
func cpu(ctx context.Context, address string, n int, load func() error) (float64, error) {
	before, err := target.Metric(ctx, address, "process_cpu_seconds_total")
	if err != nil {
		return 0, err
	}
	if err := load(); err != nil {
		return 0, err
	}
	after, err := target.Metric(ctx, address, "process_cpu_seconds_total")
	return (after - before) / float64(n), err
}

// redisFloor returns Redis's CPU seconds per publish script, run by redis-benchmark without pipelining.
func (u *setup) redisFloor(ctx context.Context, n int) (float64, error) {
	script := lua.Must("channels/publish")
	if err := u.Redis.Do(ctx, u.Redis.B().ScriptLoad().Script(script.Source()).Build()).Error(); err != nil {
		return 0, err
	}
	const base = "c.{bench-floor}"
	args := []string{
		"-s", u.Socket, "-c", strconv.Itoa(drive.Connections), "-n", strconv.Itoa(n), "-r", "2000000000", "-q",
		"EVALSHA", script.SHA1(), "4",
		base + ".clock", base + ".epoch", base + ".subs", base + ".mid.__rand_int__",
		base + ".m.", base + ".r.", "86400000", "01M7XSP26QJ3QEVHWDRP2PHXG6", "0", base, "16384",
		`{"id":"__rand_int__","content":` + content,
	}
	before, err := u.RedisCPU(ctx)
	if err != nil {
		return 0, err
	}
	if out, err := exec.CommandContext(ctx, "redis-benchmark", args...).CombinedOutput(); err != nil { //nolint:gosec // our own arguments
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	after, err := u.RedisCPU(ctx)
	return (after - before) / float64(n), err
}

// redisFloorBeside is redisFloor while the bare handler has the load that the server has otherwise: so Redis shares the
// cores and their caches with as much as it does then.
func (u *setup) redisFloorBeside(ctx context.Context, n int, next drive.Maker) (float64, error) {
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && loaded.Err() == nil {
			_, err = drive.Load(ctx, u.Floor, n/10, next)
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

// measureFetch fetches ten messages, again and again, since nothing is acknowledged.
func measureFetch(ctx context.Context, s settings, u *setup, r *report) error {
	for i := range channels {
		path := fmt.Sprintf("/v1/channels/fetch-%d", i)
		if _, err := drive.Once(ctx, u.Server, drive.Request(http.MethodPut, path+"/subscribers/s", "")); err != nil {
			return err
		}
		for j := range 10 {
			publish := drive.Request(http.MethodPut, fmt.Sprintf("%s/messages/m%d", path, j), content)
			if _, err := drive.Once(ctx, u.Server, publish); err != nil {
				return err
			}
		}
	}
	return u.series(ctx, s, r, series{
		name: "server CPU per fetch of ten, against a net/http handler", limit: 4,
		next: func(n int) []byte {
			return drive.Request(http.MethodGet, fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/messages?max=10", n%channels), "")
		},
	})
}

// measureAck acknowledges the same receipts again and again: to the server a repeat is as much work as the first.
func measureAck(ctx context.Context, s settings, u *setup, r *report) error {
	handles := make([]string, channels)
	for i := range handles {
		path := fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/messages?max=5", i)
		a, err := drive.Once(ctx, u.Server, drive.Request(http.MethodGet, path, ""))
		if err != nil {
			return err
		}
		var body struct {
			ReceiptHandle string `json:"receiptHandle"`
		}
		if err := json.Unmarshal(a.Body, &body); err != nil {
			return err
		}
		handles[i] = `{"receiptHandle":"` + body.ReceiptHandle + `"}`
	}
	return u.series(ctx, s, r, series{
		name: "server CPU per ack, against a net/http handler", limit: 2.5,
		next: func(n int) []byte {
			path := fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/ack", n%channels)
			return drive.Request(http.MethodPost, path, handles[n%channels])
		},
	})
}

// measureEmptyFetch fetches where there is nothing.
func measureEmptyFetch(ctx context.Context, s settings, u *setup, r *report) error {
	for i := range channels {
		path := fmt.Sprintf("/v1/channels/empty-%d/subscribers/s", i)
		if _, err := drive.Once(ctx, u.Server, drive.Request(http.MethodPut, path, "")); err != nil {
			return err
		}
	}
	return u.series(ctx, s, r, series{
		name: "server CPU per empty fetch, against a net/http handler", limit: 2.5,
		next: func(n int) []byte {
			return drive.Request(http.MethodGet, fmt.Sprintf("/v1/channels/empty-%d/subscribers/s/messages", n%channels), "")
		},
	})
}

// series is one figure of the server against its floor, measured several times.
type series struct {
	name  string
	limit float64
	next  drive.Maker
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
