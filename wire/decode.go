package wire

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// AppendDrafts decodes the body of a publish, one message or an array of them, and appends it to dst. The contents
// are parts of body. batch reports whether it was an array. The error is an *InputError with SlugInvalidBody,
// SlugInvalidBatch or SlugInvalidMessageID.
func AppendDrafts(dst []Draft, body []byte) (drafts []Draft, batch bool, err error) {
	type draft struct {
		ID      messageID       `json:"id"`
		Content strictjson.Span `json:"content"`
	}
	if trimmed := trim(body); len(trimmed) == 0 || trimmed[0] != '[' {
		var one draft
		if err := decode(body, &one, fault.SlugInvalidBody); err != nil {
			return nil, false, orAnArray(err)
		}
		if one.Content.IsZero() {
			return nil, false, missing("content", "")
		}
		return append(dst, Draft{ID: string(one.ID), Content: one.Content.Of(body)}), false, nil
	}
	var all []draft
	if err := decode(body, &all, fault.SlugInvalidBody); err != nil {
		return nil, true, err
	}
	if len(all) == 0 {
		return nil, true, &InputError{Slug: fault.SlugInvalidBatch, Detail: "the batch is empty"}
	}
	for i, one := range all {
		if one.Content.IsZero() {
			return nil, true, missing("content", "/"+strconv.Itoa(i))
		}
		dst = append(dst, Draft{ID: string(one.ID), Content: one.Content.Of(body)})
	}
	return dst, true, nil
}

// orAnArray adds to an error about the type of a body that it may be an array, too.
func orAnArray(err error) error {
	var input *InputError
	if errors.As(err, &input) {
		input.Detail = strings.Replace(input.Detail, "the body must be an object,", "the body must be an object or an array of objects,", 1)
	}
	return err
}

// DecodeContent checks a body that is the content of a message, and returns the part of body that is the JSON value,
// without the white space around it. The error is an *InputError with SlugInvalidContent.
func DecodeContent(body []byte) ([]byte, error) {
	var content strictjson.Span
	if err := decode(body, &content, fault.SlugInvalidContent); err != nil {
		return nil, err
	}
	return content.Of(body), nil
}

// DefinitionError returns an *InputError for an error of package matchmaking that is about the text of a queue's
// definition, which is the whole body: with SlugInvalidBody if the body isn't a JSON object, and SlugInvalidQueue
// otherwise. It returns other errors as they are.
func DefinitionError(body []byte, err error) error {
	var e *strictjson.Error
	switch {
	case !errors.As(err, &e):
		return err
	case len(trim(body)) == 0:
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
	return r, decodeOptional(body, &r)
}

// DecodeAck decodes the body of an acknowledgement. The error is an *InputError with SlugInvalidBody.
func DecodeAck(body []byte) (AckRequest, error) {
	var r struct {
		ReceiptHandle *string `json:"receiptHandle"`
	}
	if err := decode(body, &r, fault.SlugInvalidBody); err != nil {
		return AckRequest{}, err
	}
	if r.ReceiptHandle == nil {
		return AckRequest{}, missing("receiptHandle", "")
	}
	return AckRequest{ReceiptHandle: *r.ReceiptHandle}, nil
}

// DecodeNext decodes the body of a next, which may be empty. The error is an *InputError with SlugInvalidBody,
// SlugInvalidMax or SlugInvalidWait.
func DecodeNext(body []byte) (NextRequest, error) {
	var r struct {
		ReceiptHandle string   `json:"receiptHandle"`
		Max           maxCount `json:"max"`
		Wait          Wait     `json:"wait"`
	}
	err := decodeOptional(body, &r)
	return NextRequest{ReceiptHandle: r.ReceiptHandle, Max: int(r.Max), Wait: r.Wait}, err
}

// DecodeNewTicket decodes the body that makes a ticket. The result doesn't refer to body. The error is an *InputError
// with SlugInvalidBody or SlugInvalidTicket.
func DecodeNewTicket(body []byte) (NewTicket, error) {
	var t struct {
		Queue queueName `json:"queue"`
		ID    ticketID  `json:"id"`
		TTL   TTL       `json:"ttl"`
		TicketSpec
	}
	err := decode(body, &t, fault.SlugInvalidBody)
	return NewTicket{Queue: string(t.Queue), ID: string(t.ID), TTL: t.TTL, TicketSpec: t.TicketSpec}, err
}

func decodeOptional(body []byte, v any) error {
	if len(trim(body)) == 0 {
		return nil
	}
	return decode(body, v, fault.SlugInvalidBody)
}

// decode decodes the body into v. The error is an *InputError, with slug unless the type of a value has another.
func decode(body []byte, v any, slug fault.Slug) error {
	if len(trim(body)) == 0 {
		return emptyBody(slug)
	}
	var e *strictjson.Error
	if err := strictjson.Unmarshal(body, v); !errors.As(err, &e) {
		return err
	}
	return inputError(e, slug)
}

func emptyBody(slug fault.Slug) *InputError {
	return &InputError{Slug: slug, Detail: "the body is empty, it must be JSON"}
}

// inputError returns what a client is told about an error of the decoder.
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

// missing returns the error for a member that is missing in the object at pointer.
func missing(member, pointer string) error {
	return &InputError{Slug: fault.SlugInvalidBody, Detail: member + ": is missing", Field: pointer + "/" + member, Offset: -1}
}

// trim returns text without the white space of JSON around it.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }
