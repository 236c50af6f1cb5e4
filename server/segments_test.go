package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestChannelsWithSegments: a slash in the name of a channel is percent-encoded in paths, and nothing else differs.
func TestChannelsWithSegments(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	require.Equal(t, "chat/7", h.Subscribe("chat%2F7", "ann").Channel)
	h.Do("POST", "/v1/channels/chat%2f7/messages", `{"id":"m","content":1}`).Expect(201,
		`{"channel":"chat/7","id":"m","clock":1,"duplicate":false}`)
	h.Do("GET", "/v1/channels/chat%2F8", "").Problem(404, fault.SlugNoChannel)
	h.Do("GET", "/v1/channels/chat/7", "").Problem(404, fault.SlugNoPath)

	c, err := client.New(h.URL)
	require.NoError(t, err)
	d, err := c.Fetch(t.Context(), "chat/7", "ann", client.FetchOptions{Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "1", string(d.Messages[0].Content))
	require.NoError(t, c.Ack(t.Context(), "chat/7", "ann", d.ReceiptHandle))
	described, err := c.Describe(t.Context(), "chat/7")
	require.NoError(t, err)
	require.Equal(t, "chat/7", described.Channel)

	h.Subscribe("chat%2F8", "ann")
	many := openEvents(t, h, "/v1/stream?sub=chat/7/ann&sub=chat%2F8/ann&tail=chat/9/earliest")
	for _, name := range []string{"chat/7", "chat/8", "chat/9"} {
		_, err := c.Publish(t.Context(), name, client.Draft{Content: []byte(`2`)})
		require.NoError(t, err)
		require.Contains(t, many.next().data, `"channel":"`+name+`"`)
	}
}

// TestGrantsOfSegments: patterns of grants and of rules may have slashes.
func TestGrantsOfSegments(t *testing.T) {
	t.Parallel()
	people := &servertest.People{}
	h := servertest.Start(t, servertest.Closed(t, people,
		access.ChannelRule{Pattern: `room/[^/]+`, Readers: []string{"*"}, Writers: []string{"*"}}))
	people.Add(t, "writer", `[{"actions":["publish"],"channels":["chat/*"]}]`)
	people.Add(t, "user", `[{"actions":["publish"],"channels":["other"]}]`)
	for _, name := range []string{"chat%2F7", "chat%2Fa%2Fb", "room%2F7"} {
		h.Do("POST", "/v1/channels/"+name+"/messages", `{"content":1}`, servertest.Bearer("writer")).With(201)
	}
	h.Forbids("writer", `POST /v1/channels/chat/messages {"content":1}`, `POST /v1/channels/room%2F7%2Fa/messages {"content":1}`)
	h.Forbids("user", `POST /v1/channels/chat%2F7/messages {"content":1}`)
}
