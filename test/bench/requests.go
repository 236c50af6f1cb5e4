package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/test/load"
)

const (
	channelCount = 100
	contentBytes = 256
)

// messageContent is a JSON string of 256 bytes.
var messageContent = `"` + strings.Repeat("x", contentBytes-2) + `"`

// requestsIntro describes the measurements of requests.
var requestsIntro = fmt.Sprintf(
	"Load: %d connections, each with one request in progress, %d channels, contents of %d bytes; service, Redis "+
		"and load\non one machine, Redis with its append-only file on. CPU times are those of the named process, "+
		"per request. The floor\nis measured in turns with it, and Redis is emptied in between. Machines differ: "+
		"compare the ratios.\n",
	load.Connections, channelCount, contentBytes)

// requests measures single requests, against a bare net/http handler and against Redis alone.
func requests(b *bench) {
	u := b.start()
	defer u.stop()
	u.measurePublish()
	u.measureFetch()
	u.measureAck()
	u.measureNext()
	u.measureEmptyFetch()
	u.stop()
	b.measureAgainst()
}

func (u *system) measurePublish() {
	round := 0
	publish := func(n int) []byte {
		path := fmt.Sprintf("/v1/channels/bench-%d/messages/p%d-%d", n%channelCount, round, n)
		return load.Request(http.MethodPut, path, messageContent)
	}
	var server, alone, beside []pair
	for round = range u.rounds {
		var onServer pair
		u.redis.empty()
		floor := u.redisFloor()
		u.redis.empty()
		var last load.Answer
		redis := perCall(u.requests, u.redis.cpu, func() { onServer.ours, last = u.measureServer(publish) })
		onServer.floor = u.measureFloor(publish, last)
		u.redis.empty()
		server = append(server, onServer)
		alone = append(alone, pair{redis, floor})
		beside = append(beside, pair{redis, u.redisFloorBeside(publish)})
	}
	u.ratio("Redis CPU per publish, against the script under redis-benchmark", alone, 1.0)
	u.ratio("Redis CPU per publish, against the script beside the load of a net/http handler", beside, 1.0)
	u.ratio("server CPU per publish, against a net/http handler", server, 2.5)
}

// redisFloor returns Redis's CPU seconds per publish script, run by redis-benchmark without pipelining.
func (u *system) redisFloor() float64 {
	script := lua.Must("channels/publish")
	u.redis.do("SCRIPT", "LOAD", script.Source())
	const base = "c.{bench-floor}"
	n := u.requests
	args := []string{
		"-s", u.redis.socket, "-c", strconv.Itoa(load.Connections), "-n", strconv.Itoa(n), "-r", "2000000000", "-q",
		"EVALSHA", script.SHA1(), "4",
		base + ".clock", base + ".epoch", base + ".subs", base + ".mid.__rand_int__",
		base + ".m.", base + ".r.", "", "86400000", "01M7XSP26QJ3QEVHWDRP2PHXG6", "", "0", base, "16384", "", "1", base + ".deleted",
		`{"id":"__rand_int__","content":` + messageContent,
	}
	return perCall(n, u.redis.cpu, func() {
		command := exec.CommandContext(u.Context(), "redis-benchmark", args...) //nolint:gosec // our own arguments
		out, err := command.CombinedOutput()
		if err != nil {
			u.Fatalf("redis-benchmark: %v: %s", err, out)
		}
	})
}

// redisFloorBeside is redisFloor under the server's usual load on the bare handler, so that Redis shares the cores and
// their caches as in the other measurement.
func (u *system) redisFloorBeside(next load.Maker) float64 {
	loaded, stop := context.WithCancel(u.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && loaded.Err() == nil {
			_, err = load.Repeat(loaded, u.floor.HTTP, u.requests/10, next)
		}
		if loaded.Err() != nil {
			err = nil // it was interrupted
		}
		ended <- err
	}()
	perPublish := u.redisFloor()
	stop()
	u.Must(<-ended)
	return perPublish
}

func fetchPath(channel int) string { return subscriberPath(fmt.Sprintf("fetch-%d", channel), "s") }

// batch returns the body of a publish of n messages.
func batch(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"content":`+messageContent+`},`, n), ",") + "]"
}

// measureFetch fetches ten messages, again and again, since nothing is acknowledged.
func (u *system) measureFetch() {
	u.subscribe(channelCount, fetchPath)
	u.repeat(10*channelCount, func(n int) []byte {
		path := fmt.Sprintf("/v1/channels/fetch-%d/messages/m%d", n%channelCount, n)
		return load.Request(http.MethodPut, path, messageContent)
	})
	u.ratio("server CPU per fetch of ten, against a net/http handler", u.compare(func(n int) []byte {
		return load.Request(http.MethodGet, fetchPath(n%channelCount)+"/messages?max=10", "")
	}), 4)
}

// measureAck acknowledges the same receipts again and again: a repeat costs the server as much as the first.
func (u *system) measureAck() {
	handles := make([]string, channelCount)
	for i := range handles {
		handles[i] = `{"receiptHandle":"` + u.receipt(fetchPath(i)+"/messages?max=5") + `"}`
	}
	u.ratio("server CPU per ack, against a net/http handler", u.compare(func(n int) []byte {
		return load.Request(http.MethodPost, fetchPath(n%channelCount)+"/ack", handles[n%channelCount])
	}), 2.5)
}

// measureEmptyFetch fetches from channels without messages.
func (u *system) measureEmptyFetch() {
	path := func(i int) string { return subscriberPath(fmt.Sprintf("empty-%d", i), "s") }
	u.subscribe(channelCount, path)
	u.ratio("server CPU per empty fetch, against a net/http handler", u.compare(func(n int) []byte {
		return load.Request(http.MethodGet, path(n%channelCount)+"/messages", "")
	}), 2.5)
}
