package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// check is POST /v1/queues/{queue}/check.
func (h *queues) check(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	defer body.Release()
	name := c.Param(0)
	if err := matchmaking.CheckQueueName(name); err != nil {
		return err
	}
	faults, err := h.faultsOf(c.Context(), name, body.Bytes)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.CheckedQueue{Valid: len(faults) == 0, Faults: faults})
}

// maxFaults is how many faults of a definition are listed.
const maxFaults = 100

// faultsOf returns what is wrong with the text of a definition. The error is that it couldn't be checked.
func (h *queues) faultsOf(ctx context.Context, name string, text []byte) ([]wire.DefinitionFault, error) {
	faults := []wire.DefinitionFault{}
	d, wrong := matchmaking.CheckDefinition(name, text)
	if len(wrong) == 0 {
		err := h.service.CheckQueue(ctx, d)
		var e *fault.Error
		switch {
		case errors.As(err, &e) && (e.Kind == fault.Invalid || e.Kind == fault.Conflict):
			wrong = append(wrong, err)
		case err != nil:
			return nil, err
		}
	}
	for _, err := range wrong[:min(len(wrong), maxFaults)] {
		faults = append(faults, faultOf(text, err))
	}
	return faults, nil
}

// faultOf returns a fault of a text with its place there.
func faultOf(text []byte, err error) wire.DefinitionFault {
	f := wire.DefinitionFault{Detail: err.Error()}
	var e *fault.Error
	if errors.As(err, &e) {
		f.Field, f.Detail = fieldInBody(e.Field), e.Detail
	}
	at := strictjson.Locate(text, f.Field)
	var malformed *strictjson.Error
	if errors.As(err, &malformed) && !json.Valid(text) {
		at = min(malformed.Offset, int64(len(text))) // of the syntax
	}
	before := text[:max(at, 0)]
	f.Line = 1 + bytes.Count(before, []byte("\n"))
	f.Column = len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1
	return f
}

// The numbers of recent matches in an answer.
const (
	defaultMatches = 50
	maxMatches     = 1000
)

// matches is GET /v1/queues/{queue}/matches.
func (h *queues) matches(c *web.Call) error {
	limit := defaultMatches
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"limit"}, func(name, value string) (err error) {
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > maxMatches {
			return web.RefuseParameter(name, "limit must be from 1 to "+strconv.Itoa(maxMatches))
		}
		return nil
	})
	if err != nil {
		return err
	}
	recent, err := h.service.RecentMatches(c.Context(), c.Param(0), limit)
	if err != nil {
		return err
	}
	answer := wire.RecentMatches{Matches: make([]wire.RecentMatch, len(recent))}
	for i, m := range recent {
		answer.Matches[i] = wire.RecentMatch{ID: m.ID, AssignTime: m.At.UTC(), WaitMillis: make([]int64, len(m.Waits))}
		for j, w := range m.Waits {
			answer.Matches[i].WaitMillis[j] = w.Milliseconds()
		}
	}
	return c.Value(http.StatusOK, answer)
}
