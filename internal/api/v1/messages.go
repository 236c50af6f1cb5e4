package v1

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Messages publishes messages.
type Messages interface {
	Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error)
	CloseChannel(ctx context.Context, r channel.CloseRequest) (channel.Life, error)
}

type messages struct{ service Messages }

// publish is POST /v1/channels/{channel}/messages. A body that isn't JSON is the content of a message.
func (m *messages) publish(c *web.Call) error {
	contentType, err := c.ContentType()
	if err != nil {
		return err
	}
	if contentType != "" {
		return m.publishBody(c, "", contentType)
	}
	body, err := c.Body()
	if err != nil {
		return err
	}
	drafts, batch, err := wire.DecodeDrafts(body.Bytes)
	if err != nil {
		body.Release()
		return err
	}
	c.Decoded()
	r := channel.PublishRequest{Channel: c.Param(0), Drafts: drafts}
	if err := publishQuery(c.Request().URL.RawQuery, &r); err != nil {
		body.Release()
		return err
	}
	published, err := m.service.Publish(c.Context(), r)
	if err != nil {
		return err // the body isn't released: an abandoned write may still be in progress
	}
	body.Release()
	return answerPublished(c, published, batch)
}

// put is PUT /v1/channels/{channel}/messages/{id}.
func (m *messages) put(c *web.Call) error {
	id := c.Param(1)
	if err := channel.CheckMessageID(id); err != nil { // the service would generate an ID for an empty one
		return err
	}
	contentType, err := c.ContentType()
	if err != nil {
		return err
	}
	return m.publishBody(c, id, contentType)
}

// publishBody publishes a message whose content is the body, of a content type of [web.Call.ContentType]. The ID may be
// empty.
func (m *messages) publishBody(c *web.Call, id, contentType string) error {
	body, content, err := c.ContentOf(contentType)
	if err != nil {
		return err
	}
	r := channel.PublishRequest{Channel: c.Param(0),
		Drafts: []channel.Draft{{ID: id, ContentType: contentType, Content: content}}}
	if err := publishQuery(c.Request().URL.RawQuery, &r); err != nil {
		body.Release()
		return err
	}
	published, err := m.service.Publish(c.Context(), r)
	if err != nil {
		return ofContent(err) // the body isn't released: see publish
	}
	body.Release()
	return answerPublished(c, published, false)
}

// close is POST /v1/channels/{channel}/close.
func (m *messages) close(c *web.Call) error {
	r := channel.CloseRequest{Channel: c.Param(0)}
	if err := closeQuery(c.Request().URL.RawQuery, &r); err != nil {
		return err
	}
	at, err := m.service.CloseChannel(c.Context(), r)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, client.Closed{Channel: r.Channel, Epoch: at.Epoch.String(), Clock: at.Clock})
}

// ofContent removes the field from an error about a content that is the whole body, or about its type, which isn't in
// the body.
func ofContent(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Field, "/content") {
		return err
	}
	whole := *e
	whole.Field = strings.TrimPrefix(strings.TrimPrefix(e.Field, "/content"), "Type")
	return &whole
}

// answerPublished answers 201, or 200 if all messages are duplicates.
func answerPublished(c *web.Call, published []channel.Published, batch bool) error {
	const perMessage = channel.MaxChannelBytes + channel.MaxNameBytes + 112
	status, name := http.StatusOK, c.Param(0)
	for i := range published {
		if !published[i].Duplicate {
			status = http.StatusCreated
		}
	}
	return c.Append(status, len(published)*perMessage, func(b []byte) []byte {
		if batch {
			b = append(b, '[')
		}
		for i := range published {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendPublishedJSON(b, name, &published[i])
		}
		if batch {
			b = append(b, ']')
		}
		return b
	})
}
