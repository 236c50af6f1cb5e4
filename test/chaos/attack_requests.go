package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	costlyClients  = 4 // connections of the attacker
	costlyBatch    = 250
	costlyMembers  = 60_000
	costlyCriteria = 10_000
	costlySessions = 1000
	costlyTickets  = 3000
	costlyFields   = 60
)

// publishBatches publishes batches of small messages.
func publishBatches(s *stage) {
	body := "[" + strings.TrimSuffix(strings.Repeat(`{"content":1},`, costlyBatch), ",") + "]"
	s.repeat(s.public(http.MethodPost, "/v1/channels/batches/messages", body))
}

// sendBrokenJSON publishes a message with many members, whose last brace is missing.
func sendBrokenJSON(s *stage) {
	var body strings.Builder
	body.WriteString(`{"content":{`)
	for i := range costlyMembers {
		fmt.Fprintf(&body, `"member%06d":1,`, i)
	}
	body.WriteString(`"last":1}`)
	s.repeat(s.public(http.MethodPost, "/v1/channels/broken/messages", body.String()))
}

// createLargeTickets creates tickets with too many criteria, and with as many as are allowed.
func createLargeTickets(s *stage) {
	ticket := func(criteria int) request {
		criterion := `{"name":"skill","minValue":1,"maxValue":2},`
		return s.public(http.MethodPost, "/v1/tickets",
			`{"queue":"default","ttl":"10s","criteria":[`+strings.TrimSuffix(strings.Repeat(criterion, criteria), ",")+"]}")
	}
	s.repeat(ticket(costlyCriteria), ticket(100))
}

// prepareSessions creates many sessions of a user, and returns the path of their list.
func (s *stage) prepareSessions() string {
	const path = "/v1/users/large/sessions"
	session := `{"username":"large","deviceInfo":{"agent":"` + strings.Repeat("x", 2000) + `"}}`
	s.prepare(costlySessions, func(int) request { return s.public(http.MethodPost, path, session) })
	return path
}

// readLargeLists lists many sessions, and changes a field of a large state.
func readLargeLists(s *stage) {
	path := s.prepareSessions()
	fields := map[string]string{}
	for n := range costlyFields {
		fields[fmt.Sprint("field", n)] = strings.Repeat("x", 1000)
	}
	state, err := json.Marshal(map[string]any{"fields": fields})
	s.Must(err)
	const of = "/v1/states/chaos/large"
	s.prepareOne(s.public(http.MethodPut, of, string(state)))
	s.repeat(s.public(http.MethodGet, path, ""), s.public(http.MethodPatch, of, `{"fields":{"field0":"y"}}`))
}

// queryTickets queries tickets that never match.
func queryTickets(s *stage) {
	const pool = `{"name":"queried"}`
	s.prepareOne(s.admin(http.MethodPut, "/v1/queues/queried",
		`{"match":{"function":"criteria","weights":{"skill":1}},"profile":{"pools":[`+pool+`]}}`))
	ticket := s.public(http.MethodPost, "/v1/tickets",
		`{"queue":"queried","criteria":[{"name":"never","minValue":1,"maxValue":1}],"searchFields":{"tags":["chaos"]}}`)
	s.prepare(costlyTickets, func(int) request { return ticket })
	s.repeat(s.public(http.MethodPost, "/v1/queryservice/tickets:query", `{"pool":`+pool+`}`))
}

// readAsAdministrator reads what only administrators may read.
func readAsAdministrator(s *stage) {
	value, err := json.Marshal(map[string]string{"value": strings.Repeat("x", 16<<10)})
	s.Must(err)
	s.prepare(100, func(n int) request {
		return s.admin(http.MethodPut, fmt.Sprint("/v1/settings/LARGE_", n), string(value))
	})
	s.repeat(s.admin(http.MethodGet, "/metrics", ""), s.admin(http.MethodGet, "/v1/settings/export", ""))
}

const (
	largeChannels = 10
	largeReaders  = 30 // of each channel
	largeMessages = 16 // of each channel, 4 MiB together
	largeBytes    = 256<<10 - 62
	largeLimit    = 30 * time.Second
	retryPause    = 500 * time.Millisecond // minimum pause after a refused fetch

	manySubscribers = 256 // of a channel, each in every fetch of many
	manyFetches     = 300
	manyBytes       = 250 << 10

	greedySources = 256
	greedyBytes   = 60_000 // of a message, which one script would read
	greedyLoops   = 30

	queueCount       = 1000
	queueConnections = 40 // additional connections to Redis that the queues may need, for all services
)

// fetchLargely fills channels, and lets all their subscribers fetch at the same time.
func fetchLargely(s *stage) {
	for n := range largeChannels {
		s.prepareChannel(fmt.Sprintf("large-%d", n), largeReaders, largeMessages, largeBytes)
	}
	const fetches = largeChannels * largeReaders
	started := time.Now()
	all := barrage{
		clients: fetches, limit: largeLimit,
		next: func(client, _ int) request {
			return s.public(http.MethodGet, fmt.Sprintf("/v1/channels/large-%d/subscribers/r%d/messages",
				client%largeChannels, client/largeChannels), "")
		},
		enough: func(err error) bool { return err == nil },
		pause:  func(int) time.Duration { return retryPause + rand.N(retryPause) }, //nolint:gosec // no secret
	}.send(s)
	answered, refused := all.succeeded, all.failed
	s.note("%d of %d large fetches returned %d MiB in %s, after %d that were refused or broke", answered, fetches,
		all.bytes/miB, report.Seconds(time.Since(started)), refused)
	if answered < fetches {
		s.complain("%d of %d large fetches had no response after %s", fetches-answered, fetches, largeLimit)
	}
}

// fetchManyLargely fills a channel, and fetches for all of its subscribers together, many times at the same time.
func fetchManyLargely(s *stage) {
	s.prepareChannel("many", manySubscribers, largeMessages, manyBytes)
	sources := make([]client.Source, manySubscribers)
	for i := range sources {
		sources[i] = client.Source{Channel: "many", Subscriber: fmt.Sprint("r", i)}
	}
	started := time.Now()
	all := barrage{clients: manyFetches, limit: largeLimit, next: s.fetchFrom(sources),
		enough: func(error) bool { return true }}.send(s)
	answered, refused := all.succeeded, all.failed
	s.note("%d of %d fetches of many were answered in %s, %d were refused or broke", answered, manyFetches,
		report.Seconds(time.Since(started)), refused)
}

// fetchFromMany fetches from many channels in loops. Nothing is acknowledged.
func fetchFromMany(s *stage) {
	sources := make([]client.Source, greedySources)
	for i := range sources {
		sources[i] = client.Source{Channel: fmt.Sprint("greedy-", i), Subscriber: "r0"}
		s.prepareChannel(sources[i].Channel, 1, 1, greedyBytes)
	}
	all := barrage{clients: greedyLoops, limit: attackTime, next: s.fetchFrom(sources),
		pause: func(int) time.Duration { return checkEvery }}.send(s)
	answered, refused := all.succeeded, all.failed
	s.note("%d fetches returned %d MiB, %d were refused or broke", answered, all.bytes/miB, refused)
}

// fetchFrom returns a maker of fetches from many channels.
func (s *stage) fetchFrom(sources []client.Source) func(_, _ int) request {
	body, err := json.Marshal(wire.FetchRequest{From: sources})
	s.Must(err)
	r := s.public(http.MethodPost, "/v1/fetch", string(body))
	return func(_, _ int) request { return r }
}

// putQueues creates queues, measures their cost, and deletes them.
func putQueues(s *stage) {
	before := int(s.node.Number(s, "clients", "connected_clients"))
	each := func(method, body string) {
		s.prepare(queueCount, func(n int) request { return s.admin(method, fmt.Sprintf("/v1/queues/crowd-%d", n), body) })
	}
	each(http.MethodPut, `{}`)
	s.pause(5 * time.Second) // all servers know the queues within about two seconds
	during, memory := int(s.node.Number(s, "clients", "connected_clients")), s.resident()
	each(http.MethodDelete, "")
	s.pause(3 * time.Second)
	lines := 0
	for _, service := range s.services {
		metrics, err := service.Metrics(s.Context())
		s.Must(err)
		lines = max(lines, bytes.Count(metrics, []byte(`queue="crowd-`)))
	}
	s.note("%d queues: %d connections to Redis before, %d with them; %d MB of memory; %d lines of metrics left after "+
		"their deletion", queueCount, before, during, memory/miB, lines)
	if during-before > queueConnections {
		s.complain("%d queues needed %d connections to Redis", queueCount, during-before)
	}
	if lines > 0 {
		s.complain("%d lines of metrics of deleted queues are left", lines)
	}
}
