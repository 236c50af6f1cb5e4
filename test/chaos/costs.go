package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	costlyClients  = 4 // connections of the attacker
	costlyBatch    = 250
	costlyMembers  = 60_000
	costlyCriteria = 10_000
	costlySessions = 1000
	costlyTickets  = 3000
	costlyFields   = 60
	costlyMakers   = 8 // requests in progress while a scenario is prepared
)

// costly are scenarios in which one client sends requests that each take long, within the limits that users have by
// default. Administrators have no limits.
func costly() []scenario {
	within := limits{Gap: 2 * time.Second, Light: 200 * time.Millisecond, NoErrors: true, Memory: 400 * miB}
	return []scenario{
		{
			name: "batches", fault: "four connections of one client publish the largest batches of one-byte messages for 8 s",
			flags: rationed, limits: within, inject: publishBatches,
		},
		{
			name: "broken-json", fault: "four connections of one client send 1 MiB of JSON without its end for 8 s",
			flags: rationed, limits: within, inject: sendBrokenJSON,
		},
		{
			name: "large-tickets", fault: "four connections of one client create tickets with 10,000 and 100 criteria for 8 s",
			flags: rationed, limits: within, inject: createLargeTickets,
		},
		{
			name: "large-lists", fault: "four connections of one client list 1,000 sessions and patch a state of 60 KB for 8 s",
			flags: rationed, limits: within, inject: readLargeLists,
		},
		{
			name: "ticket-queries", fault: "four connections of one client query 3,000 waiting tickets for 8 s",
			flags: rationed, limits: within, inject: queryTickets,
		},
		{
			name: "admin-reads", fault: "four connections of an administrator read the metrics and export 100 settings for 8 s",
			flags: rationed, limits: within, inject: readAsAdministrator,
		},
	}
}

// costlyRequest is a request of an attacker.
type costlyRequest struct{ method, url, body string }

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
	ticket := func(criteria int) costlyRequest {
		criterion := `{"name":"skill","minValue":1,"maxValue":2},`
		return s.public(http.MethodPost, "/v1/tickets",
			`{"queue":"default","ttl":"10s","criteria":[`+strings.TrimSuffix(strings.Repeat(criterion, criteria), ",")+"]}")
	}
	s.repeat(ticket(costlyCriteria), ticket(100))
}

// readLargeLists lists many sessions, and changes a field of a large state.
func readLargeLists(s *stage) {
	const path = "/v1/users/large/sessions"
	session := `{"username":"large","deviceInfo":{"agent":"` + strings.Repeat("x", 2000) + `"}}`
	s.prepare(costlySessions, s.public(http.MethodPost, path, session))
	fields := map[string]string{}
	for n := range costlyFields {
		fields[fmt.Sprint("field", n)] = strings.Repeat("x", 1000)
	}
	state, err := json.Marshal(map[string]any{"fields": fields})
	s.Must(err)
	const of = "/v1/states/chaos/large"
	s.prepare(1, s.public(http.MethodPut, of, string(state)))
	s.repeat(s.public(http.MethodGet, path, ""), s.public(http.MethodPatch, of, `{"fields":{"field0":"y"}}`))
}

// queryTickets queries tickets that never match.
func queryTickets(s *stage) {
	const pool = `{"name":"queried"}`
	s.prepare(1, s.admin(http.MethodPut, "/v1/queues/queried",
		`{"match":{"function":"criteria","weights":{"skill":1}},"profile":{"pools":[`+pool+`]}}`))
	s.prepare(costlyTickets, s.public(http.MethodPost, "/v1/tickets",
		`{"queue":"queried","criteria":[{"name":"never","minValue":1,"maxValue":1}],"searchFields":{"tags":["chaos"]}}`))
	s.repeat(s.public(http.MethodPost, "/v1/queryservice/tickets:query", `{"pool":`+pool+`}`))
}

// readAsAdministrator reads what only administrators may read.
func readAsAdministrator(s *stage) {
	value, err := json.Marshal(map[string]string{"value": strings.Repeat("x", 16<<10)})
	s.Must(err)
	for n := range 100 {
		s.prepare(1, s.admin(http.MethodPut, fmt.Sprint("/v1/settings/LARGE_", n), string(value)))
	}
	s.repeat(s.admin(http.MethodGet, "/metrics", ""), s.admin(http.MethodGet, "/v1/settings/export", ""))
}

// public returns a request to the first service.
func (s *stage) public(method, path, body string) costlyRequest {
	return costlyRequest{method, "http://" + s.services[0].HTTP + path, body}
}

// admin returns a request to the listener for administrators of the first service.
func (s *stage) admin(method, path, body string) costlyRequest {
	return costlyRequest{method, "http://" + s.services[0].Admin + path, body}
}

// prepare sends a request n times, several at a time, each as another client.
func (s *stage) prepare(n int, r costlyRequest) {
	transport := &http.Transport{MaxIdleConnsPerHost: costlyMakers}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: dispersed{transport}}
	var making errgroup.Group
	making.SetLimit(costlyMakers)
	for range n {
		making.Go(func() error {
			request, err := http.NewRequestWithContext(s.Context(), r.method, r.url, bodyOf(r.body))
			if err != nil {
				return err
			}
			response, err := c.Do(request)
			if err != nil {
				return err
			}
			discard(response)
			if response.StatusCode >= http.StatusBadRequest {
				return errors.New(r.method + " " + r.url + ": " + response.Status)
			}
			return nil
		})
	}
	s.Must(making.Wait())
}

// floodPause is how long an attacker waits after an answer 429: it runs on the cores of the service.
const floodPause = 5 * time.Millisecond

// repeat sends these requests in turn on each of the attacker's connections, and records how many were answered with
// which status.
func (s *stage) repeat(requests ...costlyRequest) {
	var mu sync.Mutex
	answers := map[int]int{}
	s.attack(costlyClients, attackTime, func(ctx context.Context, _ int) error {
		for n := 0; ctx.Err() == nil; n++ {
			r := requests[n%len(requests)]
			response, err := s.request(ctx, r.method, r.url, r.body)
			if err != nil {
				continue // the service may break connections; the loop checks ctx
			}
			discard(response)
			mu.Lock()
			answers[response.StatusCode]++
			mu.Unlock()
			if response.StatusCode == http.StatusTooManyRequests {
				pace.Sleep(ctx, floodPause)
			}
		}
		return nil
	})
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		texts = append(texts, fmt.Sprintf("%d with %d", answers[status], status))
	}
	s.note("requests were answered: %s", strings.Join(texts, ", "))
}
