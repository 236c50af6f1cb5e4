package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/wire"
)

// listQueues is GET /v1/queues.
func (s *Server) listQueues(c *call) error {
	answer := wire.Queues{Queues: []wire.Queue{}}
	for _, d := range s.matches.Definitions() {
		queue, err := queueOf(d)
		if err != nil {
			return err
		}
		answer.Queues = append(answer.Queues, queue)
	}
	return c.value(http.StatusOK, answer)
}

// describeQueue is GET /v1/queues/{queue}.
func (s *Server) describeQueue(c *call) error {
	d, err := s.matches.Describe(c.request.Context(), c.param(0))
	if err != nil {
		return err
	}
	queue, err := queueOf(d.Definition)
	if err != nil {
		return err
	}
	answer := wire.QueueDescription{
		Queue: queue,
		Tickets: wire.TicketCounts{
			Searching: d.Searching, Pending: d.Pending, MatchFound: d.Matched, Cancelled: d.Cancelled, Expired: d.Expired,
		},
		Outgoing: d.Outgoing, Conflicts: d.Conflicts, OldestWaitMillis: d.OldestWait.Milliseconds(), MatchRate: d.MatchesPerSecond,
		Configured: d.Fixed,
	}
	if d.WaitP99 > 0 {
		answer.Waits = &wire.Waits{P50: d.WaitP50.Milliseconds(), P90: d.WaitP90.Milliseconds(), P99: d.WaitP99.Milliseconds()}
	}
	return c.value(http.StatusOK, answer)
}

// putQueue is PUT /v1/queues/{queue}.
func (s *Server) putQueue(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	defer body.release()
	definition, err := wire.DecodeDefinition(body.bytes)
	if err != nil {
		return err
	}
	name := c.param(0)
	d, created, err := s.matches.PutQueue(c.request.Context(), name, definition)
	switch {
	case err != nil && channel.CheckChannel(name) != nil:
		return err // the name is wrong, not the body
	case err != nil:
		return inBody(err)
	}
	answer, err := queueOf(d)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return c.value(status, answer)
}

// deleteQueue is DELETE /v1/queues/{queue}.
func (s *Server) deleteQueue(c *call) error {
	if err := s.matches.DeleteQueue(c.request.Context(), c.param(0)); err != nil {
		return err
	}
	return c.noContent()
}

// queueOf encodes a queue, whose definition is redacted.
func queueOf(d matchmaking.Definition) (wire.Queue, error) {
	definition, err := json.Marshal(d)
	if err != nil {
		return wire.Queue{}, fmt.Errorf("encode the definition of queue %s: %w", d.Name, err)
	}
	return wire.Queue{Name: d.Name, Definition: definition}, nil
}

// inBody makes the field of an error about what was in a body the JSON pointer of it.
func inBody(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid {
		return err
	}
	told := *e
	told.Field = fieldInBody(e.Field)
	return &told
}

// fieldInBody makes a JSON pointer of a path, if it isn't one: match.widen[0].after is /match/widen/0/after.
func fieldInBody(path string) string {
	if path == "" || path[0] == '/' {
		return path
	}
	return "/" + pointers.Replace(path)
}

var pointers = strings.NewReplacer("~", "~0", "/", "~1", ".", "/", "[", "/", "]", "")
