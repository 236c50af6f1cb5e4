// Package channels measures what publishing, fetching and waiting on channels cost.
package channels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

const (
	channels     = 100
	contentBytes = 256
)

// content is a JSON string of 256 bytes.
var content = `"` + strings.Repeat("x", contentBytes-2) + `"`

// Intro says what Requests measures.
var Intro = fmt.Sprintf("Load: %d connections, each with one request under way, %d channels, contents of %d bytes; service, Redis\n"+
	"and load on one machine, Redis with its append-only file on. CPU times are of the process named, per request;\n"+
	"the floor is measured in turns with it, and Redis is emptied in between. Machines differ: look at the ratios.\n",
	load.Connections, channels, contentBytes)

// Requests measures single requests, against a bare net/http handler and against Redis alone.
func Requests(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return err
	}
	defer u.Stop()
	for _, measure := range []func(context.Context, target.Settings, *target.Target, *report.Report) error{
		measurePublish, measureFetch, measureAck, measureNext, measureEmptyFetch,
	} {
		if err := measure(ctx, s, u, r); err != nil {
			return err
		}
	}
	return nil
}

func measurePublish(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	round := 0
	publish := func(n int) []byte {
		path := fmt.Sprintf("/v1/channels/bench-%d/messages/p%d-%d", n%channels, round, n)
		return load.Request(http.MethodPut, path, content)
	}
	var server, store, beside []report.Pair
	for round = range s.Rounds {
		var p, q report.Pair
		if err := u.Redis.Empty(ctx); err != nil {
			return err
		}
		var err error
		if q.Floor, err = redisFloor(ctx, u, s.Requests); err != nil {
			return err
		}
		if err := u.Redis.Empty(ctx); err != nil {
			return err
		}
		before, err := u.Redis.CPU(ctx)
		if err != nil {
			return err
		}
		var last load.Answer
		if p.Ours, last, err = u.MeasureServer(ctx, s.Requests, publish); err != nil {
			return err
		}
		after, err := u.Redis.CPU(ctx)
		if err != nil {
			return err
		}
		q.Ours = (after - before) / float64(s.Requests)
		if p.Floor, err = u.MeasureFloor(ctx, s.Requests, publish, last); err != nil {
			return err
		}
		if err := u.Redis.Empty(ctx); err != nil {
			return err
		}
		b := report.Pair{Ours: q.Ours}
		if b.Floor, err = redisFloorBeside(ctx, u, s.Requests, publish); err != nil {
			return err
		}
		server, store, beside = append(server, p), append(store, q), append(beside, b)
	}
	r.Ratio("Redis CPU per publish, against the script under redis-benchmark", store, 1.0)
	r.Ratio("Redis CPU per publish, against the script beside the load of a net/http handler", beside, 1.0)
	r.Ratio("server CPU per publish, against a net/http handler", server, 2.5)
	return nil
}

// redisFloor returns Redis's CPU seconds per publish script, run by redis-benchmark without pipelining.
func redisFloor(ctx context.Context, u *target.Target, n int) (float64, error) {
	script := lua.Must("channels/publish")
	if err := u.Redis.Do(ctx, "SCRIPT", "LOAD", script.Source()).Error(); err != nil {
		return 0, err
	}
	const base = "c.{bench-floor}"
	args := []string{
		"-s", u.Redis.Socket, "-c", strconv.Itoa(load.Connections), "-n", strconv.Itoa(n), "-r", "2000000000", "-q",
		"EVALSHA", script.SHA1(), "4",
		base + ".clock", base + ".epoch", base + ".subs", base + ".mid.__rand_int__",
		base + ".m.", base + ".r.", "", "86400000", "01M7XSP26QJ3QEVHWDRP2PHXG6", "", "0", base, "16384", "",
		`{"id":"__rand_int__","content":` + content,
	}
	before, err := u.Redis.CPU(ctx)
	if err != nil {
		return 0, err
	}
	if out, err := exec.CommandContext(ctx, "redis-benchmark", args...).CombinedOutput(); err != nil { //nolint:gosec // our own arguments
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	after, err := u.Redis.CPU(ctx)
	return (after - before) / float64(n), err
}

// redisFloorBeside is redisFloor while the bare handler has the load that the server has otherwise: so Redis shares the
// cores and their caches with as much as it does then.
func redisFloorBeside(ctx context.Context, u *target.Target, n int, next load.Maker) (float64, error) {
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && loaded.Err() == nil {
			_, err = load.Repeat(ctx, u.Floor.HTTP, n/10, next)
		}
		if loaded.Err() != nil {
			err = nil // it was cut off in its middle
		}
		ended <- err
	}()
	perPublish, err := redisFloor(ctx, u, n)
	stop()
	return perPublish, errors.Join(err, <-ended)
}

// measureFetch fetches ten messages, again and again, since nothing is acknowledged.
func measureFetch(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	for i := range channels {
		path := fmt.Sprintf("/v1/channels/fetch-%d", i)
		if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPut, path+"/subscribers/s", "")); err != nil {
			return err
		}
		for j := range 10 {
			publish := load.Request(http.MethodPut, fmt.Sprintf("%s/messages/m%d", path, j), content)
			if _, err := load.Once(ctx, u.Server.HTTP, publish); err != nil {
				return err
			}
		}
	}
	return figure{
		name: "server CPU per fetch of ten, against a net/http handler", limit: 4,
		next: func(n int) []byte {
			return load.Request(http.MethodGet, fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/messages?max=10", n%channels), "")
		},
	}.measure(ctx, s, u, r)
}

// measureAck acknowledges the same receipts again and again: to the server a repeat is as much work as the first.
func measureAck(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	handles := make([]string, channels)
	for i := range handles {
		path := fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/messages?max=5", i)
		a, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodGet, path, ""))
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
	return figure{
		name: "server CPU per ack, against a net/http handler", limit: 2.5,
		next: func(n int) []byte {
			path := fmt.Sprintf("/v1/channels/fetch-%d/subscribers/s/ack", n%channels)
			return load.Request(http.MethodPost, path, handles[n%channels])
		},
	}.measure(ctx, s, u, r)
}

// measureEmptyFetch fetches where there is nothing.
func measureEmptyFetch(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	for i := range channels {
		path := fmt.Sprintf("/v1/channels/empty-%d/subscribers/s", i)
		if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPut, path, "")); err != nil {
			return err
		}
	}
	return figure{
		name: "server CPU per empty fetch, against a net/http handler", limit: 2.5,
		next: func(n int) []byte {
			return load.Request(http.MethodGet, fmt.Sprintf("/v1/channels/empty-%d/subscribers/s/messages", n%channels), "")
		},
	}.measure(ctx, s, u, r)
}

// figure is one figure of the server against its floor.
type figure struct {
	name  string
	limit float64
	next  load.Maker
}

// measure takes the figure several times.
func (f figure) measure(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	var pairs []report.Pair
	for range s.Rounds {
		p, err := u.Compare(ctx, s.Requests, f.next)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		pairs = append(pairs, p)
	}
	r.Ratio(f.name, pairs, f.limit)
	return nil
}
