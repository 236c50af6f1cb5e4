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
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// TypePrefix precedes the slug in a problem's type.
const TypePrefix = "urn:tidemark:problem:"

// Problem is an error in the form of RFC 9457, which the service answers as application/problem+json.
type Problem struct {
	Type   string `json:"type"`             // TypePrefix and a slug
	Title  string `json:"title"`            // meaning of the slug
	Status int    `json:"status"`           // the HTTP status
	Detail string `json:"detail,omitempty"` // what is wrong with this request
	// Field is the wrong part of the request: a JSON pointer (RFC 6901) into the body if it starts with "/", otherwise
	// the name of a parameter.
	Field      string `json:"field,omitempty"`
	Offset     *int64 `json:"offset,omitempty"`     // of what is wrong in the body, in bytes from its start
	RequestID  string `json:"requestId,omitempty"`  // as in the header X-Request-Id and in the server's log
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds after which a retry may succeed, as in the header Retry-After
	// OutOfReach is the parts of the storage that failed a readiness check: "channels", "tickets", "sessions" or "cache",
	// followed by slots if it is a part of a Cluster, as in "channels slots 0-5460".
	OutOfReach []string `json:"outOfReach,omitempty"`
	// Clock is that of the channel to which nothing could be published: its last one if it is closed.
	Clock            *clock.Clock `json:"clock,omitempty"`
	ProducerEpoch    *int64       `json:"producerEpoch,omitempty"`    // the highest that has published
	ExpectedSequence *int64       `json:"expectedSequence,omitempty"` // the next one of the producer
}

// Slug returns the slug, or "" if the type isn't one of Tidemark's.
func (p *Problem) Slug() fault.Slug {
	slug, ok := strings.CutPrefix(p.Type, TypePrefix)
	if !ok {
		return ""
	}
	return fault.Slug(slug)
}

// Error is an error that the service answered.
type Error struct {
	Problem    Problem       // empty if the answer has none, as those of proxies
	Status     int           // the HTTP status
	RetryAfter time.Duration // how long the service asks to wait before the next try; 0: no advice
}

// Errors to compare with errors.Is. Each matches all errors with its slug.
var (
	ErrInvalidChannel    = named(fault.SlugInvalidChannel)
	ErrInvalidSubscriber = named(fault.SlugInvalidSubscriber)
	ErrInvalidMessageID  = named(fault.SlugInvalidMessageID)
	ErrInvalidContent    = named(fault.SlugInvalidContent) // not JSON, or not UTF-8
	ErrContentType       = named(fault.SlugContentType)    // no media type, or one that is too long or needs quotes
	ErrSchema            = named(fault.SlugSchema)         // doesn't match the schema of the channel's rule
	ErrInvalidBody       = named(fault.SlugInvalidBody)
	ErrInvalidBatch      = named(fault.SlugInvalidBatch)
	ErrInvalidMax        = named(fault.SlugInvalidMax)
	ErrInvalidWait       = named(fault.SlugInvalidWait)
	ErrInvalidFrom       = named(fault.SlugInvalidFrom)
	ErrInvalidPosition   = named(fault.SlugInvalidPosition) // of an operator's call
	ErrOtherLife         = named(fault.SlugOtherLife)       // the channel's epoch isn't that of the call
	ErrInvalidSources    = named(fault.SlugInvalidSources)
	ErrInvalidPolicy     = named(fault.SlugInvalidPolicy)
	ErrInvalidQuery      = named(fault.SlugInvalidQuery) // a page's cursor or limit
	ErrMessageTooLarge   = named(fault.SlugMessageTooLarge)
	ErrBatchTooLarge     = named(fault.SlugBatchTooLarge)
	ErrBodyTooLarge      = named(fault.SlugBodyTooLarge)
	ErrNoChannel         = named(fault.SlugNoChannel)
	ErrNoSubscriber      = named(fault.SlugNoSubscriber)
	ErrChannelClosed     = named(fault.SlugChannelClosed) // nothing can be published any more; see Problem.Clock
	ErrChannelExists     = named(fault.SlugChannelExists) // with other properties
	ErrInvalidProperties = named(fault.SlugInvalidProperties)
	ErrOtherContentType  = named(fault.SlugOtherContentType) // than the channel's
	ErrInvalidProducer   = named(fault.SlugInvalidProducer)
	ErrProducerFenced    = named(fault.SlugProducerFenced) // see Problem.ProducerEpoch
	ErrProducerGap       = named(fault.SlugProducerGap)    // see Problem.ExpectedSequence
	ErrProducerStart     = named(fault.SlugProducerStart)
	ErrManyProducers     = named(fault.SlugManyProducers)
	ErrOrderConflict     = named(fault.SlugOrderConflict)
	ErrReceiptMalformed  = named(fault.SlugReceiptMalformed)
	ErrReceiptForged     = named(fault.SlugReceiptForged)
	ErrReceiptChannel    = named(fault.SlugReceiptChannel)
	ErrReceiptSubscriber = named(fault.SlugReceiptSubscriber)
	ErrReceiptEpoch      = named(fault.SlugReceiptEpoch)      // from an earlier life of the channel: fetch again
	ErrReceiptAhead      = named(fault.SlugReceiptAhead)      // the channel has lost messages: fetch again
	ErrReceiptSuperseded = named(fault.SlugReceiptSuperseded) // another message has its clock now: fetch again
	ErrStorageFull       = named(fault.SlugStorageFull)       // nothing was written
	ErrUnavailable       = named(fault.SlugUnavailable)       // trying again is safe
	// stored, but not yet confirmed by as many replicas as the channel asks for
	ErrNotReplicated = named(fault.SlugNotReplicated)
	ErrDraining      = named(fault.SlugDraining)   // the server shuts down: try again
	ErrOverloaded    = named(fault.SlugOverloaded) // the server has too much to do: try again
	// the server isn't configured with the host name of its URL
	ErrUnknownHost       = named(fault.SlugUnknownHost)
	ErrInternal          = named(fault.SlugInternal)
	ErrNoMatchmaking     = named(fault.SlugNoPath) // the service runs without tickets and queues
	ErrInvalidTicket     = named(fault.SlugInvalidTicket)
	ErrInvalidQueue      = named(fault.SlugInvalidQueue) // its name, or its definition
	ErrNoTicket          = named(fault.SlugNoTicket)
	ErrNoQueue           = named(fault.SlugNoQueue)
	ErrNoMatch           = named(fault.SlugNoMatch)       // or its record isn't kept any more
	ErrTicketExists      = named(fault.SlugTicketExists)  // a ticket of another queue or owner has the ID
	ErrTicketMatched     = named(fault.SlugTicketMatched) // it has its assignment, or will have it
	ErrTicketTooLarge    = named(fault.SlugTicketTooLarge)
	ErrQueueFull         = named(fault.SlugQueueFull)
	ErrQueueConfigured   = named(fault.SlugQueueFixed) // it is part of the service's configuration
	ErrQueueInUse        = named(fault.SlugQueueInUse) // tickets wait in it, or assignments are not delivered yet
	ErrTooManyQueues     = named(fault.SlugTooManyQueues)
	ErrReserved          = named(fault.SlugReserved)          // a channel that only the service writes to
	ErrNoCredential      = named(fault.SlugNoCredential)      // the service requires credentials
	ErrInvalidCredential = named(fault.SlugInvalidCredential) // an unknown key, or a token that isn't valid
	ErrExpiredCredential = named(fault.SlugExpiredCredential)
	ErrRevokedCredential = named(fault.SlugRevokedCredential)
	ErrKeysUnavailable   = named(fault.SlugKeysUnavailable) // a token can't be verified now: try again
	ErrNotGranted        = named(fault.SlugNotGranted)      // the credentials don't grant it
	ErrRateLimited       = named(fault.SlugRateLimited)
	ErrTooManyWaits      = named(fault.SlugTooManyWaits)
	ErrManySubscribers   = named(fault.SlugManySubscribers)
	ErrNoKey             = named(fault.SlugNoKey)
	ErrInvalidKey        = named(fault.SlugInvalidKey)
	ErrInvalidRevocation = named(fault.SlugInvalidRevocation)
	ErrKeyConfigured     = named(fault.SlugKeyFixed) // it is part of the service's configuration
	ErrTooManyKeys       = named(fault.SlugTooManyKeys)
	ErrManyRevocations   = named(fault.SlugManyRevocations)
	ErrConfiguration     = named(fault.SlugConfiguration)
)

// Errors of AwaitAssignment.
var (
	ErrTicketCancelled = errors.New("the ticket was cancelled")
	ErrTicketExpired   = errors.New("the ticket expired before there was a match")
)

// ErrUnreachable means that a try got no answer: no connection, a broken one, or a time-out. The service may have
// executed the request.
var ErrUnreachable = errors.New("the service can't be reached")

func named(slug fault.Slug) *Error {
	return &Error{Problem: Problem{Type: TypePrefix + string(slug), Title: slug.Title()}}
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

// Error returns the detail of the problem in one line, with status and slug.
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

// Slug returns the end of the problem's type, such as "subscriber-not-found", or "" if there is none.
func (e *Error) Slug() fault.Slug { return e.Problem.Slug() }

// Is compares slugs, so that errors.Is(err, ErrNoSubscriber) holds for every error of that name.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Slug() != "" && t.Slug() == e.Slug()
}

// lostReceipt reports whether an acknowledgement was refused in a way after which the reader should fetch again.
func lostReceipt(err error) bool {
	return errors.Is(err, ErrReceiptEpoch) || errors.Is(err, ErrReceiptAhead) || errors.Is(err, ErrReceiptSuperseded)
}

// maxProblemBytes limits how much of an error's body is read.
const maxProblemBytes = 64 << 10

// readError returns the *Error of an answer. A redirect isn't followed: it would make a GET of other methods, and take
// the body to where it leads.
func readError(resp *http.Response) error {
	if at := resp.Header.Get("Location"); at != "" && resp.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("the service's URL leads to %.200q: use that URL (%w)", at, &Error{Status: resp.StatusCode})
	}
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if err != nil || json.Unmarshal(body, &e.Problem) != nil || e.Problem.Slug() == "" {
		e.Problem = Problem{} // only the status is known
	}
	return e
}

// retryAfter parses the header Retry-After: seconds, or a date.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil && seconds <= math.MaxInt32 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
