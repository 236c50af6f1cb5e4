package callout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
)

// linesType is the content type of responses with one match per line.
const linesType = "application/x-ndjson"

// httpFunction calls a match function over HTTP.
type httpFunction struct {
	client *jsonhttp.Client
	url    string
	queue  string
}

func newHTTPFunction(d matchmaking.Definition, targets *jsonhttp.Targets) *httpFunction {
	return &httpFunction{client: jsonhttp.New(targets, d.Match.Timeout.Std(), responseBytes), url: d.Match.URL,
		queue: d.Name}
}

type functionCall struct {
	Queue   string              `json:"queue"`
	Profile matchmaking.Profile `json:"profile"`
	Pools   map[string][]ticket `json:"pools"`
}

type ticket struct {
	ID         string    `json:"id"`
	CreateTime time.Time `json:"createTime"`
	matchmaking.Spec
}

// Match calls the function once.
func (f *httpFunction) Match(
	ctx context.Context, p matchmaking.Profile, pools map[string][]*matchmaking.Ticket,
) ([]matchmaking.Proposal, error) {
	body, err := jsonhttp.Encode(functionCall{Queue: f.queue, Profile: p, Pools: poolsOf(pools)})
	if err != nil {
		return nil, fmt.Errorf("encode the tickets of queue %s for its match function: %w", f.queue, err)
	}
	answer, err := f.client.Post(ctx, f.url, nil, body)
	if err != nil {
		return nil, fmt.Errorf("call the match function of queue %s: %w", f.queue, err)
	}
	all := newProposals(pools)
	if err := read(answer, all.add); err != nil {
		return nil, fmt.Errorf("response of the match function of queue %s: %w", f.queue, err)
	}
	return all.valid, nil
}

func poolsOf(pools map[string][]*matchmaking.Ticket) map[string][]ticket {
	all := make(map[string][]ticket, len(pools))
	for name, pool := range pools {
		tickets := make([]ticket, len(pool))
		for i, t := range pool {
			tickets[i] = ticket{ID: t.ID, CreateTime: t.CreateTime, Spec: convert.WithExtensions(t.Spec)}
		}
		all[name] = tickets
	}
	return all
}

// read calls add with each match of a response, in either form.
func read(answer jsonhttp.Response, add func(found) error) error {
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err == nil && kind == linesType {
		return readLines(answer.Body, add)
	}
	if answer.Status == http.StatusNoContent {
		return nil
	}
	var all struct {
		Matches *[]found `json:"matches"`
	}
	if err := json.Unmarshal(answer.Body, &all); err != nil {
		return err
	}
	if all.Matches == nil {
		return errors.New(`"matches" is missing`)
	}
	for _, match := range *all.Matches {
		if err := add(match); err != nil {
			return err
		}
	}
	return nil
}

func readLines(text []byte, add func(found) error) error {
	lines := json.NewDecoder(bytes.NewReader(text))
	for n := 1; ; n++ {
		var match found
		switch err := lines.Decode(&match); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("match %d: %w", n, err)
		}
		if err := add(match); err != nil {
			return fmt.Errorf("match %d: %w", n, err)
		}
	}
}
