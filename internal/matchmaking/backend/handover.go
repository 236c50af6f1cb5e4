package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
)

// Handover carries calls to the server that runs the cycles of their queue, and its answers back. All methods may be
// called by many goroutines, and may be repeated.
//
// A call is stored from its first Ask until Leave, or until CallTTL after the last Ask. Its answers are numbered from
// 1, and are stored until an Ask for later ones.
type Handover interface {
	// Leases returns the leases of queues, by queue name.
	Leases() lease.Store

	// Ask keeps a call alive, notifies the holder of the lease of that, and reads answers. While the call isn't accepted
	// it notifies the holder of the request. Errors: ErrNoHolder if the call isn't accepted and no server holds the
	// lease; ErrHolderGone if it was accepted, there are no more answers, and another server or none holds the lease.
	Ask(ctx context.Context, r AskRequest) (Asked, error)
	// Leave returns answers. If the caller leaves they are those that it hasn't got, except for those that the holder has
	// got; the call is removed, and the holder notified. If the holder leaves they are those that no Ask has read, and
	// none reads from now on; a last answer is added. If the caller has left there are none.
	Leave(ctx context.Context, r LeaveRequest) (unread [][]byte, err error)
	// ListenAnswers calls answered with the IDs of calls that have new answers, until stop is called. While the
	// subscription isn't established calls are missed.
	ListenAnswers(queue string, answered func(id string)) (stop func())

	// ListenCalls calls l with what callers send, until stop is called. While the subscription isn't established calls
	// are missed.
	ListenCalls(queue string, l CallListener) (stop func())
	// Accept records that the holder with a fence serves a call. Errors: ErrCallGone if its caller or a holder has
	// left, or the call was accepted in another attempt.
	Accept(ctx context.Context, r AcceptRequest) error
	// Answer adds answers. Errors: ErrCallGone if the caller has left; ErrCallFull if the unread answers would exceed
	// the limit, and nothing was added.
	Answer(ctx context.Context, r AnswerRequest) error
}

// Errors of a Handover.
var (
	ErrNoHolder   = errors.New("no server holds the queue's lease")
	ErrHolderGone = errors.New("the server that accepted the call no longer holds the queue's lease")
	ErrCallGone   = errors.New("the caller has left")
	ErrCallFull   = errors.New("the caller has too many unread answers")
)

// AskRequest is the request of Ask.
type AskRequest struct {
	Queue    string
	ID       string // of the call: new for each
	Request  []byte // of the call; empty: the caller knows that it was accepted
	Accepted bool   // the caller knows that it was accepted
	After    int    // the number of the last answer that the caller has
	Bytes    int    // of the answers to read, at most, but at least one; 0: none
}

// Asked is the result of Ask.
type Asked struct {
	Now      time.Time // of the storage's clock, in milliseconds, when it was asked
	Accepted bool
	Answers  [][]byte // the next ones
	More     bool     // there are others
}

// LeaveRequest is the request of Leave.
type LeaveRequest struct {
	Queue string
	ID    string
	Last  []byte // the last answer, if the holder leaves; empty: the caller leaves
	After int    // the number of the last answer that the caller has, if it leaves
}

// AcceptRequest is the request of Accept.
type AcceptRequest struct {
	Queue   string
	ID      string
	Fence   uint64 // of the holder's lease
	Attempt string // new for every call except a repetition
}

// AnswerRequest is the request of Answer.
type AnswerRequest struct {
	Queue   string
	ID      string
	First   int // the number of the first answer
	Answers [][]byte
	Limit   int // of the bytes of unread answers, unless there are none
}

// CallListener receives what callers send. Its functions are called one after the other, by different goroutines, and
// must not block.
type CallListener struct {
	Alive func(id string, request []byte) // an Ask; request is empty if the call is accepted
	Left  func(id string)                 // a Leave
}

// answer is the head of an answer: of a match, whose content follows, or of the end of a call.
type answer struct {
	Token   string                `json:"token,omitempty"`
	Tickets []string              `json:"tickets,omitempty"`
	Created *matchmaking.Backfill `json:"created,omitempty"`
	Held    time.Time             `json:"held,omitzero"` // of the storage's clock
	End     bool                  `json:"end,omitempty"`
	Error   *told                 `json:"error,omitempty"`
}

// encodeMatch returns the answer of a match.
func encodeMatch(m handedOut) ([]byte, error) {
	head, err := json.Marshal(answer{Token: m.token, Tickets: m.tickets, Created: m.Created, Held: m.held})
	if err != nil {
		return nil, fmt.Errorf("encode a match: %w", err)
	}
	return append(append(head, '\n'), m.Content...), nil
}

// encodeEnd returns the answer of the end of a call with an error, nil for none.
func encodeEnd(err error) ([]byte, error) {
	text, failed := json.Marshal(answer{End: true, Error: tellError(err)})
	if failed != nil {
		return nil, fmt.Errorf("encode the end of a call: %w", failed)
	}
	return text, nil
}

// decodeAnswer returns a match, or reports the end of the call with its error.
func decodeAnswer(text []byte) (m handedOut, end bool, err error) {
	head, content, _ := bytes.Cut(text, []byte("\n"))
	var a answer
	if err := json.Unmarshal(head, &a); err != nil {
		return handedOut{}, true, fmt.Errorf("read an answer of the queue's synchronizer: %w", err)
	}
	if a.End {
		return handedOut{}, true, a.Error.err()
	}
	return handedOut{
		Match: Match{Content: content, Created: a.Created}, token: a.Token, tickets: a.Tickets, held: a.Held,
	}, false, nil
}

// decodeAnswers returns the matches of answers, and reports the end of the call with its error.
func decodeAnswers(texts [][]byte) (matches []handedOut, end bool, err error) {
	for _, text := range texts {
		m, end, err := decodeAnswer(text)
		if end || err != nil {
			return matches, true, err
		}
		matches = append(matches, m)
	}
	return matches, false, nil
}

// invalid returns an error of an invalid request.
func invalid(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidRequest, Field: field,
		Detail: fmt.Sprintf(format, args...)}
}
