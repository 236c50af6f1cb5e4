package wire

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/clock"
)

// Draft is a message to publish: the body of a publish, or an element of it.
type Draft struct {
	ID      string          `json:"id,omitempty"` // empty: the server makes one
	Content json.RawMessage `json:"content"`      // one JSON value
}

// AppendJSON appends the draft, with the content unchanged. The content must be one JSON value.
func (d *Draft) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if d.ID != "" {
		dst = append(dst, `"id":`...)
		dst, _ = jsontext.AppendQuote(dst, d.ID) // invalid UTF-8 becomes U+FFFD, which the server refuses in IDs
		dst = append(dst, ',')
	}
	dst = append(dst, `"content":`...)
	dst = append(dst, d.Content...)
	return append(dst, '}')
}

// AppendDraftsJSON appends the body of a batch, with the contents unchanged.
func AppendDraftsJSON(dst []byte, drafts []Draft) []byte {
	dst = append(dst, '[')
	for i := range drafts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = drafts[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// Published is the answer to the publish of one message, and an element of the answer to a batch.
type Published struct {
	Channel   string      `json:"channel"`
	ID        string      `json:"id"`
	Clock     clock.Clock `json:"clock"`     // of the message; for a duplicate, of the first one
	Duplicate bool        `json:"duplicate"` // the ID was published before, and nothing was changed
}

// AppendJSON appends the JSON of p. Channel and ID must be names, which need no escapes.
func (p *Published) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"channel":"`...)
	dst = append(dst, p.Channel...)
	dst = append(dst, `","id":"`...)
	dst = append(dst, p.ID...)
	dst = append(dst, `","clock":`...)
	dst = strconv.AppendInt(dst, int64(p.Clock), 10)
	dst = append(dst, `,"duplicate":`...)
	dst = strconv.AppendBool(dst, p.Duplicate)
	return append(dst, '}')
}
