package assigner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
)

// webhook calls a service of the operator.
type webhook struct {
	client *jsonhttp.Client
	url    string
	queue  string
	secret string // empty: requests are not signed
}

func newWebhook(d matchmaking.Definition, targets *jsonhttp.Targets) (*webhook, error) {
	client, err := newClient(d, targets)
	if err != nil {
		return nil, err
	}
	secret, err := secretOf(d.Assigner.Secret, d.Assigner.SecretFile)
	if err != nil {
		return nil, err
	}
	return &webhook{client: client, url: d.Assigner.URL, queue: d.Name, secret: secret}, nil
}

// releaseKey is the prefix of a release's idempotency key, which must differ from the allocation's.
const releaseKey = "release-"

type allocateCall struct {
	Action     string                     `json:"action"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Teams      [][]ticket                 `json:"teams"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

type ticket struct {
	ID         string    `json:"id"`
	CreateTime time.Time `json:"createTime,omitzero"`
	matchmaking.Spec
}

type releaseCall struct {
	Action     string                     `json:"action"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection,omitempty"`
	Token      string                     `json:"token,omitempty"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

type allocateAnswer struct {
	Connection string                     `json:"connection"`
	Extensions map[string]json.RawMessage `json:"extensions"`
	Token      string                     `json:"token"`
}

// Allocate repeats the request until it succeeds or fails permanently, or the context's deadline is near.
func (w *webhook) Allocate(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
	body, err := jsonhttp.Encode(allocateCall{
		Action: "allocate", MatchID: p.ID, Queue: w.queue, Teams: ticketsOf(p.Teams), Extensions: p.Extensions,
	})
	if err != nil {
		return matchmaking.Allocation{}, fmt.Errorf("encode match %s: %w", p.ID, err)
	}
	answer, err := w.post(ctx, p.ID, body)
	if err != nil {
		return matchmaking.Allocation{}, fmt.Errorf("allocate match %s by webhook: %w", p.ID, err)
	}
	var found allocateAnswer
	if err := json.Unmarshal(answer.Body, &found); err != nil {
		return matchmaking.Allocation{}, fmt.Errorf("allocate match %s by webhook: read the response: %w", p.ID, err)
	}
	if found.Connection == "" {
		return matchmaking.Allocation{}, fmt.Errorf("allocate match %s by webhook: the response has no connection",
			p.ID)
	}
	return matchmaking.Allocation(found), nil
}

// Release notifies the webhook that a connection is not needed.
func (w *webhook) Release(ctx context.Context, matchID string, a matchmaking.Allocation) error {
	body, err := jsonhttp.Encode(releaseCall{
		Action: "release", MatchID: matchID, Queue: w.queue, Connection: a.Connection, Token: a.Token,
		Extensions: a.Extensions,
	})
	if err != nil {
		return fmt.Errorf("encode match %s: %w", matchID, err)
	}
	_, err = w.post(ctx, releaseKey+matchID, body)
	if err != nil && !isGone(err) {
		return fmt.Errorf("release match %s by webhook: %w", matchID, err)
	}
	return nil
}

// post sends a body. Each try is signed again, so that its timestamp is current.
func (w *webhook) post(ctx context.Context, key string, body []byte) (jsonhttp.Response, error) {
	header := http.Header{}
	header.Set(HeaderIdempotencyKey, key)
	return keepTrying(ctx, call{
		try: func(ctx context.Context) (jsonhttp.Response, error) {
			if w.secret != "" {
				Sign(header, w.secret, time.Now(), body)
			}
			return w.client.Post(ctx, w.url, header, body)
		},
		again: jsonhttp.Retryable,
	})
}

// isGone reports whether there is nothing to release.
func isGone(err error) bool {
	var status *jsonhttp.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

func ticketsOf(teams [][]*matchmaking.Ticket) [][]ticket {
	all := make([][]ticket, len(teams))
	for i, team := range teams {
		all[i] = make([]ticket, len(team))
		for j, t := range team {
			all[i][j] = ticket{ID: t.ID, CreateTime: t.CreateTime, Spec: convert.WithExtensions(t.Spec)}
		}
	}
	return all
}
