package wire

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// DecodeDrafts decodes the body of a publish, one message or an array of them. The contents that are JSON are parts of
// body. batch reports whether it was an array. The error is an *InputError with SlugInvalidBody, SlugInvalidBatch,
// SlugInvalidMessageID, SlugContentType or SlugInvalidContent.
func DecodeDrafts(body []byte) (drafts []channel.Draft, batch bool, err error) {
	if !bytes.HasPrefix(body[start(body):], []byte("[")) {
		var single draft
		switch err := decode(body, fault.SlugInvalidBody, &single); {
		case err != nil:
			return nil, false, orAnArray(err)
		case single.Content.end == 0:
			return nil, false, missing("content", "")
		}
		drafts = make([]channel.Draft, 1)
		drafts[0], err = single.in(body, "")
		return drafts, false, err
	}
	var list []draft
	if err := decode(body, fault.SlugInvalidBody, &list); err != nil {
		return nil, true, err
	}
	if len(list) == 0 {
		return nil, true, &InputError{Slug: fault.SlugInvalidBatch, Detail: "the batch is empty"}
	}
	drafts = make([]channel.Draft, len(list))
	for i := range list {
		if list[i].Content.end == 0 {
			return nil, true, missing("content", "/"+strconv.Itoa(i))
		}
		if drafts[i], err = list[i].in(body, "/"+strconv.Itoa(i)); err != nil {
			return nil, true, err
		}
	}
	return drafts, true, nil
}

// orAnArray adds to an error about the type of a body that an array is valid, too.
func orAnArray(err error) error {
	var input *InputError
	if errors.As(err, &input) {
		input.Detail = strings.Replace(input.Detail, "the body must be an object,",
			"the body must be an object or an array of objects,", 1)
	}
	return err
}

// DecodeContent checks a body that is the content of a message, and returns the part of body that is the JSON value,
// without the white space around it. The error is an *InputError with SlugInvalidContent.
func DecodeContent(body []byte) (content []byte, err error) {
	var p part
	if err := decode(body, fault.SlugInvalidContent, &p); err != nil {
		return nil, err
	}
	return p.in(body), nil
}

// DecodeValues checks a body that is JSON, and returns the elements of its array, or the body as the only element if it is
// another value. They are parts of body. The error is an *InputError with SlugInvalidContent.
func DecodeValues(body []byte) (values [][]byte, err error) {
	if !bytes.HasPrefix(body[start(body):], []byte("[")) {
		value, err := DecodeContent(body)
		return [][]byte{value}, err
	}
	var list []part
	if err := decode(body, fault.SlugInvalidContent, &list); err != nil {
		return nil, err
	}
	values = make([][]byte, len(list))
	for i := range list {
		values[i] = list[i].in(body)
	}
	return values, nil
}

// DefinitionError returns an *InputError for an error of package matchmaking that is about the text of a queue's
// definition, which is the whole body: with SlugInvalidBody if the body isn't a JSON object, and SlugInvalidQueue
// otherwise. It returns other errors unchanged.
func DefinitionError(body []byte, err error) error {
	var e *strictjson.Error
	switch {
	case !errors.As(err, &e):
		return err
	case start(body) == len(body):
		return emptyBody(fault.SlugInvalidBody)
	case e.Path == "":
		return inputError(e, fault.SlugInvalidBody)
	}
	return inputError(e, fault.SlugInvalidQueue)
}

// DecodeSubscribe decodes the body of a subscribe, which may be empty. The error is an *InputError with
// SlugInvalidBody or SlugInvalidFrom.
func DecodeSubscribe(body []byte) (SubscribeRequest, error) {
	var r SubscribeRequest
	err := decodeOptional(body, &r)
	return r, err
}

// DecodeProperties decodes the body of the creation of a channel, which may be empty. The error is an *InputError with
// SlugInvalidBody.
func DecodeProperties(body []byte) (channel.Properties, error) {
	var r struct {
		ContentType string    `json:"contentType"`
		TTL         Duration  `json:"ttl"`
		Ends        time.Time `json:"ends"`
	}
	err := decodeOptional(body, &r)
	return channel.Properties{ContentType: r.ContentType, TTL: time.Duration(r.TTL), Ends: r.Ends.Truncate(time.Millisecond)}, err
}

// DecodeAck decodes the body of an acknowledgement. The error is an *InputError with SlugInvalidBody.
func DecodeAck(body []byte) (AckRequest, error) {
	r := AckRequest{ReceiptHandle: strictjson.Absent}
	err := decode(body, fault.SlugInvalidBody, &r)
	if err == nil && r.ReceiptHandle == strictjson.Absent {
		err = missing("receiptHandle", "")
	}
	return r, err
}

// DecodeNext decodes the body of a next, which may be empty. The error is an *InputError with SlugInvalidBody,
// SlugInvalidMax or SlugInvalidWait.
func DecodeNext(body []byte) (NextRequest, error) {
	var r struct {
		NextRequest
		Max maxCount `json:"max"`
	}
	err := decodeOptional(body, &r)
	r.NextRequest.Max = int(r.Max)
	return r.NextRequest, err
}

// DecodeFetch decodes the body of a fetch from several channels. The error is an *InputError with SlugInvalidBody,
// SlugInvalidSources, SlugInvalidMax or SlugInvalidWait.
func DecodeFetch(body []byte) (FetchRequest, error) {
	var r struct {
		FetchRequest
		From sources  `json:"from"`
		Max  maxCount `json:"max"`
	}
	err := decode(body, fault.SlugInvalidBody, &r)
	if err == nil && r.From == nil {
		err = missing("from", "")
	}
	if err != nil {
		return FetchRequest{}, err
	}
	r.FetchRequest.From, r.FetchRequest.Max = make([]client.Source, len(r.From)), int(r.Max)
	for i := range r.From {
		r.FetchRequest.From[i] = client.Source(r.From[i])
	}
	return r.FetchRequest, nil
}

// DecodeNewTicket decodes the body that makes a ticket. The result doesn't refer to body. The error is an *InputError
// with SlugInvalidBody or SlugInvalidTicket.
func DecodeNewTicket(body []byte) (NewTicket, error) {
	var t struct {
		NewTicket
		Queue      ticketQueue `json:"queue"`
		ID         ticketID    `json:"id"`
		Criteria   []criterion `json:"criteria"`
		Statistics []statistic `json:"statistics"`
	}
	if err := decode(body, fault.SlugInvalidBody, &t); err != nil {
		return NewTicket{}, err
	}
	t.NewTicket.Queue, t.NewTicket.ID = string(t.Queue), string(t.ID)
	if t.Criteria != nil {
		t.NewTicket.Criteria = make([]matchmaking.Criterion, len(t.Criteria))
	}
	for i, c := range t.Criteria {
		t.NewTicket.Criteria[i] = matchmaking.Criterion(c)
	}
	if t.Statistics != nil {
		t.NewTicket.Statistics = make([]matchmaking.Statistic, len(t.Statistics))
	}
	for i, s := range t.Statistics {
		t.NewTicket.Statistics[i] = matchmaking.Statistic(s)
	}
	return t.NewTicket, nil
}

// DecodeNewKey decodes the body that creates an API key. The error is an *InputError with SlugInvalidBody.
func DecodeNewKey(body []byte) (client.NewKey, error) {
	var k struct {
		client.NewKey
		Expires moment `json:"expires"`
	}
	err := decode(body, fault.SlugInvalidBody, &k)
	if err == nil && k.Grants == nil {
		err = missing("grants", "")
	}
	k.NewKey.Expires = time.Time(k.Expires)
	return k.NewKey, err
}

// DecodeNewRevocation decodes the body of a revocation. The error is an *InputError with SlugInvalidBody.
func DecodeNewRevocation(body []byte) (client.NewRevocation, error) {
	var r struct {
		client.NewRevocation
		Until moment `json:"until"`
	}
	err := decode(body, fault.SlugInvalidBody, &r)
	r.NewRevocation.Until = time.Time(r.Until)
	return r.NewRevocation, err
}

// Decode decodes a JSON body into a value. The error is an *InputError with SlugInvalidBody.
func Decode(body []byte, out any) error { return decode(body, fault.SlugInvalidBody, out) }

func decodeOptional(body []byte, out any) error {
	if start(body) == len(body) {
		return nil
	}
	return decode(body, fault.SlugInvalidBody, out)
}

// decode decodes a JSON body into a value. The error is an *InputError, with slug unless a value has another.
func decode(body []byte, slug fault.Slug, out any) error {
	if start(body) == len(body) {
		return emptyBody(slug)
	}
	err := strictjson.Unmarshal(body, out)
	if err == nil {
		return nil
	}
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err
	}
	return inputError(e, slug)
}

func emptyBody(slug fault.Slug) *InputError {
	return &InputError{Slug: slug, Detail: "the body is empty, it must be JSON"}
}

// inputError returns the error for clients of an error of the decoder.
func inputError(e *strictjson.Error, slug fault.Slug) *InputError {
	input := &InputError{Slug: slug, Detail: e.Error(), Field: e.Pointer, Offset: e.Offset}
	var cause *InputError
	switch {
	case errors.As(e.Cause, &cause):
		input.Slug, input.Detail = cause.Slug, cause.Detail
	case strings.HasPrefix(input.Detail, "must be"):
		input.Detail = "the body " + input.Detail
	}
	return input
}

// missing returns the error for a member that is missing in the object at pointer, in a body that was decoded.
func missing(member, pointer string) error {
	return &InputError{Slug: fault.SlugInvalidBody, Detail: member + ": is missing", Field: pointer + "/" + member,
		Offset: -1}
}

// start returns the index of the first byte of text that isn't white space of JSON, or its length.
func start(text []byte) int {
	for i, c := range text {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return i
		}
	}
	return len(text)
}
