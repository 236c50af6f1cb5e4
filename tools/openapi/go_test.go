package openapi

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	api "github.com/tidemark-dev/tidemark/tools/openapi/generated"
)

// TestGoClient publishes, fetches and acknowledges with a client that oapi-codegen has generated.
func TestGoClient(t *testing.T) {
	t.Parallel()
	c, err := api.NewClientWithResponses(startService(t))
	require.NoError(t, err)
	ctx := t.Context()

	var from api.From
	require.NoError(t, from.FromStart(api.Earliest))
	subscribed, err := c.SubscribeWithResponse(ctx, "lobby", "ann", api.SubscribeRequest{From: &from})
	require.NoError(t, err)
	require.NotNil(t, subscribed.JSON201, "%s", subscribed.Body)
	require.True(t, subscribed.JSON201.Created)

	const exact = `{"n":12345678901234567890.10,"text":"hello"}`
	id := "m-1"
	var one, batch api.DraftOrBatch
	require.NoError(t, one.FromDraft(api.Draft{Id: &id, Content: json.RawMessage(exact)}))
	published, err := c.PublishWithResponse(ctx, "lobby", nil, one)
	require.NoError(t, err)
	require.NotNil(t, published.JSON201, "%s", published.Body)
	first, err := published.JSON201.AsPublished()
	require.NoError(t, err)
	require.Equal(t, api.Published{Channel: "lobby", Id: "m-1", Clock: 1}, first)
	require.NoError(t,
		batch.FromDraftBatch(api.DraftBatch{{Content: json.RawMessage("null")}, {Content: json.RawMessage("[2]")}}))
	published, err = c.PublishWithResponse(ctx, "lobby", nil, batch)
	require.NoError(t, err)
	require.NotNil(t, published.JSON201, "%s", published.Body)
	both, err := published.JSON201.AsPublishedBatch()
	require.NoError(t, err)
	require.Len(t, both, 2)
	put, err := c.PutMessageWithResponse(ctx, "lobby", "m-4", nil, json.RawMessage(`"four"`))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, put.StatusCode(), "%s", put.Body)

	most, wait := int32(10), "20s"
	fetched, err := c.FetchWithResponse(ctx, "lobby", "ann", &api.FetchParams{Max: &most, Wait: &wait})
	require.NoError(t, err)
	require.NotNil(t, fetched.JSON200, "%s", fetched.Body)
	var contents []string
	for _, m := range fetched.JSON200.Messages {
		contents = append(contents, string(m.Content))
	}
	require.Equal(t, []string{exact, "null", "[2]", `"four"`}, contents)
	acked, err := c.AckWithResponse(ctx, "lobby", "ann", api.AckRequest{ReceiptHandle: *fetched.JSON200.ReceiptHandle})
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, acked.StatusCode(), "%s", acked.Body)
	var atOnce api.Wait
	require.NoError(t, atOnce.FromSeconds(0))
	next, err := c.NextWithResponse(ctx, "lobby", "ann", api.NextRequest{Wait: &atOnce})
	require.NoError(t, err)
	require.NotNil(t, next.JSON200, "%s", next.Body)
	require.Empty(t, next.JSON200.Messages)

	refused, err := c.FetchWithResponse(ctx, "lobby", "nobody", nil)
	require.NoError(t, err)
	require.NotNil(t, refused.ApplicationproblemJSON404, "%s", refused.Body)
	require.Equal(t, api.UrnTidemarkProblemSubscriberNotFound, refused.ApplicationproblemJSON404.Type)
}

// TestGoClientMatchmaking creates a queue and two tickets, and reads their assignments.
func TestGoClientMatchmaking(t *testing.T) {
	t.Parallel()
	c, err := api.NewClientWithResponses(startService(t))
	require.NoError(t, err)
	ctx := t.Context()

	var definition api.Definition
	require.NoError(t, json.Unmarshal([]byte(`{"assigner":{"connection":"127.0.0.1:7777"}}`), &definition))
	queue, err := c.PutQueueWithResponse(ctx, "duel", definition)
	require.NoError(t, err)
	require.NotNil(t, queue.JSON201, "%s", queue.Body)
	require.Equal(t, "duel", queue.JSON201.Queue)

	const skill = 1234.56789012345
	name := "duel"
	var created *api.CreatedTicket
	for range 2 {
		var level api.Double
		require.NoError(t, level.FromNotFinite(api.Infinity))
		answer, err := c.CreateTicketWithResponse(ctx, api.NewTicket{
			Queue: &name, Statistics: &api.Statistics{{Name: "skill", Value: skill}},
			SearchFields: &api.SearchFields{DoubleArgs: &map[string]api.Double{"level": level}},
		})
		require.NoError(t, err)
		require.NotNil(t, answer.JSON201, "%s", answer.Body)
		created = answer.JSON201
	}
	wait := "20s"
	fetched, err := c.FetchWithResponse(ctx, *created.Channel, *created.Subscriber, &api.FetchParams{Wait: &wait})
	require.NoError(t, err)
	require.NotNil(t, fetched.JSON200, "%s", fetched.Body)
	require.Len(t, fetched.JSON200.Messages, 1)
	var assignment api.Assignment
	require.NoError(t, json.Unmarshal(fetched.JSON200.Messages[0].Content, &assignment))
	require.Equal(t, "127.0.0.1:7777", assignment.Connection)

	shown, err := c.ShowTicketWithResponse(ctx, created.Id)
	require.NoError(t, err)
	require.NotNil(t, shown.JSON200, "%s", shown.Body)
	require.Equal(t, &assignment, shown.JSON200.Assignment)
	require.Equal(t, api.Statistics{{Name: "skill", Value: skill}}, *shown.JSON200.Statistics)
}
