package callout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// evaluator calls an evaluator and validates the accepted matches.
type evaluator struct {
	queue string
	call  func(ctx context.Context, proposals []matchmaking.Proposal) (accepted []string, err error)
}

// Evaluate calls the evaluator once, unless there are no proposals. It returns the accepted ones in the evaluator's
// order.
func (e *evaluator) Evaluate(ctx context.Context, proposals []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	if len(proposals) == 0 {
		return nil, nil
	}
	ids, err := e.call(ctx, proposals)
	if err != nil {
		return nil, fmt.Errorf("call the evaluator of queue %s: %w", e.queue, err)
	}
	accepted, err := choose(proposals, ids)
	if err != nil {
		return nil, fmt.Errorf("response of the evaluator of queue %s: %w", e.queue, err)
	}
	return accepted, nil
}

// choose returns the proposals with these IDs. They must exist and share no tickets.
func choose(proposals []matchmaking.Proposal, ids []string) ([]matchmaking.Proposal, error) {
	byID := make(map[string]matchmaking.Proposal, len(proposals))
	for _, p := range proposals {
		byID[p.ID] = p
	}
	var accepted []matchmaking.Proposal
	taken := map[string]string{} // ticket ID to match ID
	for i, id := range ids {
		p, ok := byID[id]
		switch {
		case !ok:
			return nil, fmt.Errorf("match %q was not proposed", id)
		case slices.Contains(ids[:i], id):
			return nil, fmt.Errorf("duplicate match %q", id)
		}
		for _, t := range p.Tickets() {
			if other, there := taken[t.ID]; there {
				return nil, fmt.Errorf("matches %q and %q share the ticket %q", other, id, t.ID)
			}
			taken[t.ID] = id
		}
		accepted = append(accepted, p)
	}
	return accepted, nil
}

// httpEvaluator calls an evaluator over HTTP.
type httpEvaluator struct {
	client *jsonhttp.Client
	url    string
	queue  string
}

func newHTTPEvaluator(d matchmaking.Definition, targets *jsonhttp.Targets) *httpEvaluator {
	return &httpEvaluator{client: jsonhttp.New(targets, d.Evaluator.Timeout.Std(), responseBytes), url: d.Evaluator.URL,
		queue: d.Name}
}

type evaluatorCall struct {
	Queue     string     `json:"queue"`
	Proposals []proposed `json:"proposals"`
}

type proposed struct {
	ID         string                     `json:"id"`
	Score      float64                    `json:"score"`
	Tickets    []string                   `json:"tickets"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

func (e *httpEvaluator) call(ctx context.Context, proposals []matchmaking.Proposal) ([]string, error) {
	request := evaluatorCall{Queue: e.queue, Proposals: make([]proposed, len(proposals))}
	for i, p := range proposals {
		request.Proposals[i] = proposed{ID: p.ID, Score: p.Score, Tickets: idsOf(p), Extensions: p.Extensions}
	}
	body, err := jsonhttp.Encode(request)
	if err != nil {
		return nil, fmt.Errorf("encode the proposals: %w", err)
	}
	answer, err := e.client.Post(ctx, e.url, nil, body)
	if err != nil {
		return nil, err
	}
	var all struct {
		Accepted *[]string `json:"accepted"`
	}
	if err := json.Unmarshal(answer.Body, &all); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if all.Accepted == nil {
		return nil, errors.New(`the response has no "accepted"`)
	}
	return *all.Accepted, nil
}

// grpcEvaluator calls Open Match's Evaluator service.
type grpcEvaluator struct {
	conn    *grpc.ClientConn
	queue   string
	profile string
	timeout time.Duration
}

func newGRPCEvaluator(d matchmaking.Definition, targets *jsonhttp.Targets) (*grpcEvaluator, error) {
	conn, err := dialGRPC(d.Evaluator.URL, targets)
	if err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	e := &grpcEvaluator{
		conn:    conn,
		queue:   d.Name,
		profile: cmp.Or(d.Profile.Name, d.Name),
		timeout: cmp.Or(d.Evaluator.Timeout.Std(), matchmaking.DefaultCallTimeout),
	}
	runtime.AddCleanup(e, closeConn, conn)
	return e, nil
}

func (e *grpcEvaluator) call(ctx context.Context, proposals []matchmaking.Proposal) ([]string, error) {
	matches := make([]*openmatch.Match, len(proposals))
	for i, p := range proposals {
		match, err := matchOf(p, e.profile)
		if err != nil {
			return nil, fmt.Errorf("encode match %s: %w", p.ID, err)
		}
		matches[i] = match
	}
	callCtx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	call, err := openGRPC(callCtx, e.conn, e.queue)
	if err != nil {
		return nil, callError(ctx, callCtx, err)
	}
	var accepted []string
	err = converse(call, func() {
		for _, match := range matches {
			if call.Send(match) != nil {
				return // Receive returns the reason
			}
		}
		_ = call.Done()
	}, func() error {
		return receiveIDs(call, func(id string) error {
			if accepted = append(accepted, id); len(accepted) > len(matches) {
				return errors.New("more matches accepted than proposed")
			}
			return nil
		})
	}, cancel)
	if err != nil {
		return nil, callError(ctx, callCtx, err)
	}
	return accepted, nil
}

func idsOf(p matchmaking.Proposal) []string {
	tickets := p.Tickets()
	ids := make([]string, len(tickets))
	for i, t := range tickets {
		ids[i] = t.ID
	}
	return ids
}
