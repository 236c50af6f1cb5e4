package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/wire"
)

// Error is what the service answered instead of what was asked for.
type Error struct {
	Problem    wire.Problem  // empty where a proxy answered, which knows nothing of problems
	Status     int           // the HTTP status
	RetryAfter time.Duration // how long the service asks to wait before the next try; 0: it doesn't say
}

// Errors to ask errors.Is for. Each stands for all errors with its slug.
var (
	ErrInvalidChannel    = named(wire.SlugInvalidChannel)
	ErrInvalidSubscriber = named(wire.SlugInvalidSubscriber)
	ErrInvalidMessageID  = named(wire.SlugInvalidMessageID)
	ErrInvalidContent    = named(wire.SlugInvalidContent) // not JSON, or not UTF-8
	ErrInvalidBody       = named(wire.SlugInvalidBody)
	ErrInvalidBatch      = named(wire.SlugInvalidBatch)
	ErrInvalidMax        = named(wire.SlugInvalidMax)
	ErrInvalidWait       = named(wire.SlugInvalidWait)
	ErrInvalidFrom       = named(wire.SlugInvalidFrom)
	ErrInvalidPolicy     = named(wire.SlugInvalidPolicy)
	ErrInvalidQuery      = named(wire.SlugInvalidQuery) // a page's cursor or limit
	ErrMessageTooLarge   = named(wire.SlugMessageTooLarge)
	ErrBatchTooLarge     = named(wire.SlugBatchTooLarge)
	ErrBodyTooLarge      = named(wire.SlugBodyTooLarge)
	ErrNoChannel         = named(wire.SlugNoChannel)
	ErrNoSubscriber      = named(wire.SlugNoSubscriber)
	ErrReceiptMalformed  = named(wire.SlugReceiptMalformed)
	ErrReceiptForged     = named(wire.SlugReceiptForged)
	ErrReceiptChannel    = named(wire.SlugReceiptChannel)
	ErrReceiptSubscriber = named(wire.SlugReceiptSubscriber)
	ErrReceiptEpoch      = named(wire.SlugReceiptEpoch)      // of an earlier life of the channel: fetch again
	ErrReceiptAhead      = named(wire.SlugReceiptAhead)      // the channel has lost messages: fetch again
	ErrReceiptSuperseded = named(wire.SlugReceiptSuperseded) // another message stands there now: fetch again
	ErrStorageFull       = named(wire.SlugStorageFull)       // nothing was written
	ErrUnavailable       = named(wire.SlugUnavailable)       // trying again is safe
	ErrNotReplicated     = named(wire.SlugNotReplicated)     // stored, but not yet on as many replicas as the channel asks for
	ErrDraining          = named(wire.SlugDraining)          // the server shuts down: try again, perhaps elsewhere
	ErrOverloaded        = named(wire.SlugOverloaded)        // the server has too much under way: try again
	ErrUnknownHost       = named(wire.SlugUnknownHost)       // the server isn't configured with the host name of its URL
	ErrInternal          = named(wire.SlugInternal)
	ErrNoMatchmaking     = named(wire.SlugNoPath) // the service runs without tickets and queues
	ErrInvalidTicket     = named(wire.SlugInvalidTicket)
	ErrInvalidQueue      = named(wire.SlugInvalidQueue) // its name, or its definition
	ErrNoTicket          = named(wire.SlugNoTicket)
	ErrNoQueue           = named(wire.SlugNoQueue)
	ErrTicketExists      = named(wire.SlugTicketExists)  // a ticket of another queue has the ID
	ErrTicketMatched     = named(wire.SlugTicketMatched) // its assignment is there, or is coming
	ErrTicketTooLarge    = named(wire.SlugTicketTooLarge)
	ErrQueueFull         = named(wire.SlugQueueFull)
	ErrQueueConfigured   = named(wire.SlugQueueFixed) // it is part of the service's configuration
	ErrQueueInUse        = named(wire.SlugQueueInUse) // tickets wait in it, or assignments are on their way
	ErrTooManyQueues     = named(wire.SlugTooManyQueues)
	ErrReserved          = named(wire.SlugReserved) // a channel that only the service writes to
)

// Errors of AwaitAssignment.
var (
	ErrTicketCancelled = errors.New("the ticket was cancelled")
	ErrTicketExpired   = errors.New("the ticket's life ended before there was a match")
)

// ErrUnreachable says that a try got no answer: no connection, one that broke, or none within the time of a try.
// What was asked for may have happened all the same.
var ErrUnreachable = errors.New("the service can't be reached")

func named(slug string) *Error {
	return &Error{Problem: wire.Problem{Type: wire.TypePrefix + slug, Title: wire.Title(slug)}}
}

// checkJSON returns nil if data is one JSON value, and otherwise refused with the place and the reason.
func checkJSON(data []byte, refused *Error) error {
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	if err == nil {
		return nil
	}
	e := *refused
	e.Problem.Detail = err.Error()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := data[:max(0, min(syntax.Offset, int64(len(data)))-1)]
		line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
		e.Problem.Detail = fmt.Sprintf("line %d, column %d: %s", line, column, err)
	}
	return &e
}

// Error gives what the service says, in one line.
func (e *Error) Error() string {
	p := e.Problem
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	switch slug := p.Slug(); {
	case slug != "" && e.Status != 0:
		return fmt.Sprintf("%s (%d %s)", text, e.Status, slug)
	case slug != "":
		return fmt.Sprintf("%s (%s)", text, slug)
	default:
		return fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	}
}

// Slug gives the end of the problem's type, such as "subscriber-not-found", or "" where there is none.
func (e *Error) Slug() string { return e.Problem.Slug() }

// Is compares slugs, so that errors.Is(err, ErrNoSubscriber) holds for every error of that name.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Slug() != "" && t.Slug() == e.Slug()
}

// lostReceipt tells of refusals after which a new fetch goes on.
func lostReceipt(err error) bool {
	return errors.Is(err, ErrReceiptEpoch) || errors.Is(err, ErrReceiptAhead) || errors.Is(err, ErrReceiptSuperseded)
}

// maxProblemBytes is how much of an error's body is read.
const maxProblemBytes = 64 << 10

// readError makes an *Error of an answer that is one.
func readError(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if err != nil || json.Unmarshal(body, &e.Problem) != nil || e.Problem.Slug() == "" {
		e.Problem = wire.Problem{} // the status says what there is to say
	}
	return e
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil && seconds <= math.MaxInt32 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
