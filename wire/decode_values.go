package wire

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// The types of this file are values in bodies of requests that have rules of their own. What they refuse is an
// *InputError without its place, which decode adds.

// messageID is a message's ID that isn't empty.
type messageID string

func (id *messageID) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return notEmpty(d, (*string)(id), fault.SlugInvalidMessageID, "the id is empty: leave it out to have one made")
}

// ticketID is a ticket's ID that isn't empty.
type ticketID string

func (id *ticketID) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return notEmpty(d, (*string)(id), fault.SlugInvalidTicket, "the id is empty: leave it out to have one made")
}

// queueName is a queue's name that isn't empty.
type queueName string

func (q *queueName) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return notEmpty(d, (*string)(q), fault.SlugInvalidTicket, "the queue is empty: leave it out for the queue default")
}

func notEmpty(d *jsontext.Decoder, s *string, slug fault.Slug, detail string) error {
	if err := json.UnmarshalDecode(d, s); err != nil {
		return err
	}
	if *s == "" {
		return &InputError{Slug: slug, Detail: detail}
	}
	return nil
}

// maxCount is what ParseMax reads.
type maxCount int

func (m *maxCount) UnmarshalJSON(text []byte) error {
	n, err := ParseMax(string(text))
	*m = maxCount(n)
	return err
}

// UnmarshalJSON reads "20s", "20" or 20.
func (w *Wait) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		plain, err := jsontext.AppendUnquote(nil, text)
		if err != nil {
			return err
		}
		text = plain
	}
	return w.UnmarshalText(text)
}

// UnmarshalJSONFrom refuses a criterion that lacks a member.
func (c *Criterion) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var m struct {
		Name     *string  `json:"name"`
		MinValue *float64 `json:"minValue"`
		MaxValue *float64 `json:"maxValue"`
	}
	if err := json.UnmarshalDecode(d, &m); err != nil {
		return err
	}
	switch {
	case m.Name == nil:
		return strictjson.Missing(d, "name")
	case m.MinValue == nil:
		return strictjson.Missing(d, "minValue")
	case m.MaxValue == nil:
		return strictjson.Missing(d, "maxValue")
	}
	*c = Criterion{Name: *m.Name, MinValue: *m.MinValue, MaxValue: *m.MaxValue}
	return nil
}

// UnmarshalJSONFrom refuses a statistic that lacks a member.
func (s *Statistic) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var m struct {
		Name  *string  `json:"name"`
		Value *float64 `json:"value"`
	}
	if err := json.UnmarshalDecode(d, &m); err != nil {
		return err
	}
	switch {
	case m.Name == nil:
		return strictjson.Missing(d, "name")
	case m.Value == nil:
		return strictjson.Missing(d, "value")
	}
	*s = Statistic{Name: *m.Name, Value: *m.Value}
	return nil
}
