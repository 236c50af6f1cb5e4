package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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

// floodPause is how long an attacker waits after an answer 429: it runs on the cores of the service.
const floodPause = 5 * time.Millisecond

// repeat sends these requests in turn on each of the attacker's connections, and records how many were answered with
// which status.
func (s *stage) repeat(requests ...request) {
	var mu sync.Mutex
	answers := map[int]int{}
	s.attack(costlyClients, attackTime, func(ctx context.Context, _ int) error {
		for n := 0; ctx.Err() == nil; n++ {
			a, _ := s.send(ctx, requests[n%len(requests)]) // the service may refuse it, or break connections
			if a.status == 0 {
				continue // the loop checks ctx
			}
			mu.Lock()
			answers[a.status]++
			mu.Unlock()
			if a.status == http.StatusTooManyRequests {
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
