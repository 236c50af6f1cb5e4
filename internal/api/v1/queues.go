package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/insight"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Queues defines and describes queues, and reads their matches.
type Queues interface {
	Definitions() []matchmaking.Definition
	Describe(ctx context.Context, queue string) (service.QueueDescription, error)
	PutQueue(ctx context.Context, d matchmaking.Definition) (shown matchmaking.Definition, created bool, err error)
	DeleteQueue(ctx context.Context, name string) error
	// CheckQueue returns the error that PutQueue would return, and stores nothing.
	CheckQueue(ctx context.Context, d matchmaking.Definition) error
	// RecentMatches returns the last matches, the newest first.
	RecentMatches(ctx context.Context, queue string, limit int) ([]matchmaking.RecentMatch, error)
	Match(ctx context.Context, queue, id string) (matchmaking.AssignedMatch, error)
	insight.Waiting
}

type queues struct {
	service Queues
	insight *insight.Reader
}

// list is GET /v1/queues. It lists the queues that the client may read.
func (h *queues) list(c *web.Call) error {
	answer := wire.Queues{Queues: []client.Queue{}}
	for _, d := range h.service.Definitions() {
		if c.Allow(access.Queue, access.Resource{Queue: d.Name}) != nil {
			continue
		}
		queue, err := queueOf(d)
		if err != nil {
			return err
		}
		answer.Queues = append(answer.Queues, queue)
	}
	return c.Value(http.StatusOK, answer)
}

// describe is GET /v1/queues/{queue}.
func (h *queues) describe(c *web.Call) error {
	waiting, err := waitingQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	d, err := h.service.Describe(c.Context(), c.Param(0))
	if err != nil {
		return err
	}
	queue, err := queueOf(d.Definition)
	if err != nil {
		return err
	}
	answer := client.QueueDescription{
		Queue: queue,
		Tickets: client.TicketCounts{
			Searching: d.Searching, Pending: d.Pending, MatchFound: d.Matched, Cancelled: d.Cancelled,
			Expired: d.Expired,
		},
		Backfills: d.Backfills, Outgoing: d.Outgoing, Conflicts: d.Conflicts, OldestWaitMillis: d.OldestWait.Milliseconds(),
		MatchRate:  d.MatchesPerSecond,
		Configured: d.Configured,
	}
	if d.WaitP99 > 0 {
		answer.Waits = &client.Waits{P50: d.WaitP50.Milliseconds(), P90: d.WaitP90.Milliseconds(),
			P99: d.WaitP99.Milliseconds()}
	}
	if waiting {
		report, err := h.insight.Report(c.Context(), d.Definition, d.QueueState)
		if err != nil {
			return err
		}
		answer.Waiting = waitingOf(report)
	}
	return c.Value(http.StatusOK, answer)
}

// readDefinition reads the definition of the queue that the path names from the body.
func readDefinition(c *web.Call) (matchmaking.Definition, error) {
	body, err := c.Body()
	if err != nil {
		return matchmaking.Definition{}, err
	}
	defer body.Release()
	name := c.Param(0)
	d, err := matchmaking.ParseDefinition(name, body.Bytes)
	if err != nil && matchmaking.CheckQueueName(name) == nil { // otherwise it is about the name, not the body
		err = inBody(wire.DefinitionError(body.Bytes, err))
	}
	return d, err
}

// put is PUT /v1/queues/{queue}.
func (h *queues) put(c *web.Call) error {
	d, err := readDefinition(c)
	if err != nil {
		return err
	}
	d, created, err := h.service.PutQueue(c.Context(), d)
	if err != nil {
		return inBody(err)
	}
	answer, err := queueOf(d)
	if err != nil {
		return err
	}
	return c.Value(createdStatus(created), answer)
}

// delete is DELETE /v1/queues/{queue}.
func (h *queues) delete(c *web.Call) error {
	if err := h.service.DeleteQueue(c.Context(), c.Param(0)); err != nil {
		return err
	}
	return c.NoContent()
}

// queueOf encodes a queue, whose definition has no secrets.
func queueOf(d matchmaking.Definition) (client.Queue, error) {
	definition, err := json.Marshal(d)
	if err != nil {
		return client.Queue{}, fmt.Errorf("encode the definition of queue %s: %w", d.Name, err)
	}
	return client.Queue{Name: d.Name, Definition: definition}, nil
}

func waitingOf(r insight.Report) *client.Waiting {
	answer := &client.Waiting{
		Tickets: r.Waiting, Examined: r.Examined, Waits: longestWaits(r.Waits),
		Statistics: make([]client.WaitingByRange, len(r.Statistics)),
		Longest:    make([]client.LongWaitingTicket, len(r.Longest)),
	}
	for i, s := range r.Statistics {
		ranges := make([]client.WaitingRange, len(s.Ranges))
		for j, r := range s.Ranges {
			ranges[j] = client.WaitingRange{MinValue: r.Min, MaxValue: r.Max, Tickets: r.Tickets,
				Waits: longestWaits(r.Waits)}
		}
		answer.Statistics[i] = client.WaitingByRange{Name: s.Name, Ranges: ranges}
	}
	for i, t := range r.Longest {
		answer.Longest[i] = client.LongWaitingTicket{ID: t.ID, WaitMillis: t.Wait.Milliseconds(), Players: t.Players,
			Acceptance: (*client.Acceptance)(t.Acceptance)}
	}
	return answer
}

func longestWaits(w insight.Waits) client.LongestWaits {
	ms := time.Duration.Milliseconds
	return client.LongestWaits{Waits: client.Waits{P50: ms(w.P50), P90: ms(w.P90), P99: ms(w.P99)}, Max: ms(w.Max)}
}

// inBody turns the field of an error about a value in a body into a JSON pointer.
func inBody(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid {
		return err
	}
	clientErr := *e
	clientErr.Field = fieldInBody(e.Field)
	return &clientErr
}

// fieldInBody turns a path into a JSON pointer: match.widen[0].after is /match/widen/0/after. It returns a pointer
// unchanged.
func fieldInBody(path string) string {
	if path == "" || path[0] == '/' {
		return path
	}
	return "/" + pointers.Replace(path)
}

var pointers = strings.NewReplacer("~", "~0", "/", "~1", ".", "/", "[", "/", "]", "")
