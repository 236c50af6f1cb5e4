package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// Draft is a message to publish. If the ID is empty, the client makes one. Content is one JSON value, which subscribers
// receive byte for byte. SetBytes sets another content than JSON.
type Draft struct {
	ID          string          `json:"id,omitempty"`          // empty: the server makes one
	ContentType string          `json:"contentType,omitempty"` // such as text/plain; empty: the content is JSON
	Content     json.RawMessage `json:"content"`               // one JSON value; of another type a string with base64
}

// SetBytes sets a content of any bytes, and its media type, such as text/plain. With application/json the content must be
// one JSON value, and is set as it is.
func (d *Draft) SetBytes(contentType string, content []byte) {
	if name, _, _ := strings.Cut(contentType, ";"); strings.EqualFold(strings.TrimSpace(name), "application/json") {
		d.ContentType, d.Content = "", content
		return
	}
	text := make([]byte, 0, base64.StdEncoding.EncodedLen(len(content))+2)
	d.ContentType = contentType
	d.Content = append(base64.StdEncoding.AppendEncode(append(text, '"'), content), '"')
}

// Published is the outcome of publishing a Draft. Duplicate means that the ID was published before, and that nothing
// was changed. It is never set for an ID that the client made. For an ID of the caller, the earlier publish may have
// been a try of the same call whose answer was lost. Differs means that it was another message: this content has other
// bytes, and is not on the channel. It is not set if the service can't compare them, as the message is gone.
type Published struct {
	Channel   string      `json:"channel"`
	ID        string      `json:"id"`
	Clock     clock.Clock `json:"clock"`             // of the message; for a duplicate, of the first one
	Duplicate bool        `json:"duplicate"`         // the ID was published before, and nothing was changed
	Differs   bool        `json:"differs,omitempty"` // a duplicate whose content is known to have other bytes than the first one's
}

// Message is a message as a subscriber receives it. PublishedAt is the storage's time, or zero if it isn't known.
// Content is byte for byte as it was published, except that on a stream line breaks between its tokens are spaces. Of a
// message that isn't JSON it is a string with base64: Bytes returns what was published.
type Message struct {
	ID          string          `json:"id"`
	Clock       clock.Clock     `json:"clock"`
	ContentType string          `json:"contentType,omitempty"` // such as text/plain; empty: the content is JSON
	Content     json.RawMessage `json:"content"`               // byte for byte; of another type a string with base64
	PublishedAt time.Time       `json:"publishedAt,omitzero"`  // Redis time, to the millisecond; left out if it isn't known
}

// Bytes returns the content: JSON as it was published, or the bytes of another content. The error is of a message with a
// ContentType whose Content isn't base64, which no service sends.
func (m *Message) Bytes() ([]byte, error) {
	if m.ContentType == "" {
		return m.Content, nil
	}
	var content []byte
	if err := json.Unmarshal(m.Content, &content); err != nil {
		return nil, fmt.Errorf("content of message %s, %s: %w", m.ID, m.ContentType, err)
	}
	return content, nil
}

// Publish appends a message to a channel, and creates the channel if it does not exist. The message is on the channel
// once, even if the call is retried. Errors: ErrInvalidChannel, ErrInvalidMessageID, ErrInvalidContent,
// ErrContentType, ErrSchema, ErrMessageTooLarge, ErrStorageFull, ErrUnavailable.
func (c *Client) Publish(ctx context.Context, channel string, d Draft) (Published, error) {
	published, err := c.publish(ctx, channel, []Draft{d}, false)
	if err != nil {
		return Published{}, err
	}
	return published[0], nil
}

// PublishBatch appends messages to a channel in one atomic step, in order. The results are in the same order. Errors:
// those of Publish, ErrInvalidBatch for none, ErrBatchTooLarge, ErrBodyTooLarge.
func (c *Client) PublishBatch(ctx context.Context, channel string, drafts []Draft) ([]Published, error) {
	return c.publish(ctx, channel, drafts, true)
}

func (c *Client) publish(ctx context.Context, channel string, drafts []Draft, batch bool) ([]Published, error) {
	return c.publishWith(ctx, channel, drafts, batch, PublishOptions{})
}

func (c *Client) publishWith(ctx context.Context, channel string, drafts []Draft, batch bool, o PublishOptions) (
	[]Published, error) {
	what := "publish to " + channel
	drafts = slices.Clone(drafts)
	made := make([]bool, len(drafts))
	for i := range drafts {
		if err := checkJSON(drafts[i].Content, ErrInvalidContent); err != nil {
			return nil, fmt.Errorf("%s: content %d of %d isn't JSON: %w", what, i+1, len(drafts), err)
		}
		if made[i] = drafts[i].ID == "" && o.Producer == nil; made[i] { // the service makes those of a producer
			drafts[i].ID = id.New()
		}
	}
	r := request{what: what, method: http.MethodPost, path: []string{"channels", channel, "messages"}, query: o.query()}
	published := make([]Published, 1)
	var out any = &published[0]
	if batch {
		r.body, out = draftsJSON(drafts), &published
	} else {
		r.body = appendDraft(nil, &drafts[0])
	}
	if _, err := c.call(ctx, r, out); err != nil {
		return nil, err
	}
	if len(published) != len(drafts) {
		return nil, fmt.Errorf("%s: the answer has %d messages instead of %d", what, len(published), len(drafts))
	}
	for i := range published {
		if made[i] { // the client made the ID: an earlier try of this call published it
			published[i].Duplicate, published[i].Differs = false, false
		}
	}
	return published, nil
}

// appendDraft appends the JSON of a draft, with the content unchanged: encoding/json would change its white space.
func appendDraft(dst []byte, d *Draft) []byte {
	start := len(dst)
	if d.ID != "" {
		dst, _ = jsontext.AppendQuote(append(dst, `,"id":`...), d.ID) // invalid UTF-8 becomes U+FFFD, which the server refuses in IDs
	}
	if d.ContentType != "" {
		dst, _ = jsontext.AppendQuote(append(dst, `,"contentType":`...), d.ContentType) // likewise
	}
	dst = append(dst, `,"content":`...)
	dst = append(dst, d.Content...)
	dst[start] = '{' // in place of the first comma
	return append(dst, '}')
}

// draftsJSON returns the body of a batch.
func draftsJSON(drafts []Draft) []byte {
	body := []byte{'['}
	for i := range drafts {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendDraft(body, &drafts[i])
	}
	return append(body, ']')
}
