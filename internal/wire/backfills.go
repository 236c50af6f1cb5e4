package wire

import (
	"encoding/json"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// NewBackfill is the body that creates a backfill.
type NewBackfill struct {
	Queue string `json:"queue,omitempty"` // empty: the queue "default"
	matchmaking.BackfillSpec
}

// Backfill is the request of a running game for more players.
type Backfill struct {
	ID         string    `json:"id"`
	Queue      string    `json:"queue"`
	CreateTime time.Time `json:"createTime"` // Redis time, to the microsecond
	ExpireTime time.Time `json:"expireTime"` // Redis time, after which it ends; an acknowledgement moves it
	Generation int64     `json:"generation"` // 1, and one more with each update, and each match that has the backfill
	matchmaking.BackfillSpec
	Tickets []string `json:"tickets,omitempty"` // IDs of those that wait for an acknowledgement
}

// Acknowledgement is the body that acknowledges a backfill: where its tickets play.
type Acknowledgement struct {
	Connection string                     `json:"connection"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// AcknowledgedBackfill is the answer to an acknowledgement.
type AcknowledgedBackfill struct {
	Backfill Backfill `json:"backfill"`
	Tickets  []Ticket `json:"tickets"` // that it assigned
}

// DecodeNewBackfill decodes the body that creates a backfill. The error is an *InputError with SlugInvalidBody.
func DecodeNewBackfill(body []byte) (NewBackfill, error) {
	var b NewBackfill
	err := decode(body, fault.SlugInvalidBody, &b)
	return b, err
}

// DecodeBackfillSpec decodes the body that updates a backfill. The error is an *InputError with SlugInvalidBody.
func DecodeBackfillSpec(body []byte) (matchmaking.BackfillSpec, error) {
	var s matchmaking.BackfillSpec
	err := decode(body, fault.SlugInvalidBody, &s)
	return s, err
}

// DecodeAcknowledgement decodes the body that acknowledges a backfill. The error is an *InputError with SlugInvalidBody.
func DecodeAcknowledgement(body []byte) (Acknowledgement, error) {
	var a struct {
		Acknowledgement
		Connection *string `json:"connection"`
	}
	if err := decode(body, fault.SlugInvalidBody, &a); err != nil {
		return Acknowledgement{}, err
	}
	if a.Connection == nil {
		return Acknowledgement{}, missing("connection", "")
	}
	a.Acknowledgement.Connection = *a.Connection
	return a.Acknowledgement, nil
}
