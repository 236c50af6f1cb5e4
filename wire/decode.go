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
	drafts = dst
	err = decode(body, fault.SlugInvalidBody, func(d *strictjson.Decoder) error {
		if batch = d.IsArray(); batch {
			return d.Array(func() error {
				one, err := draft(d)
				drafts = append(drafts, one)
				return err
			})
		}
		one, err := draft(d)
		drafts = append(drafts, one)
		return err
	})
	switch {
	case err != nil && !batch:
		return nil, false, orAnArray(err)
	case err != nil:
		return nil, true, err
	case len(drafts) == len(dst):
		return nil, true, &InputError{Slug: fault.SlugInvalidBatch, Detail: "the batch is empty"}
	}
	for i, one := range drafts[len(dst):] {
		switch {
		case one.Content == nil && batch:
			return nil, true, missing("content", "/"+strconv.Itoa(i))
		case one.Content == nil:
			return nil, false, missing("content", "")
		}
	}
	return drafts, batch, nil
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
	err = decode(body, fault.SlugInvalidContent, func(d *strictjson.Decoder) (err error) {
		content, err = d.Raw()
		return err
	})
	return content, err
}

// DefinitionError returns an *InputError for an error of package matchmaking that is about the text of a queue's
// definition, which is the whole body: with SlugInvalidBody if the body isn't a JSON object, and SlugInvalidQueue
// otherwise. It returns other errors unchanged.
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
	err := decodeOptional(body, func(d *strictjson.Decoder) error {
		return d.Object(subscribeMembers, func(string) (err error) {
			r.From, err = from(d)
			return err
		})
	})
	return r, err
}

// DecodeAck decodes the body of an acknowledgement. The error is an *InputError with SlugInvalidBody.
func DecodeAck(body []byte) (AckRequest, error) {
	var r AckRequest
	found := false
	err := decode(body, fault.SlugInvalidBody, func(d *strictjson.Decoder) error {
		return d.Object(ackMembers, func(string) (err error) {
			found = true
			r.ReceiptHandle, err = d.String()
			return err
		})
	})
	if err == nil && !found {
		err = missing("receiptHandle", "")
	}
	return r, err
}

// DecodeNext decodes the body of a next, which may be empty. The error is an *InputError with SlugInvalidBody,
// SlugInvalidMax or SlugInvalidWait.
func DecodeNext(body []byte) (NextRequest, error) {
	var r NextRequest
	err := decodeOptional(body, func(d *strictjson.Decoder) error {
		return d.Object(nextMembers, func(name string) (err error) {
			switch name {
			case "receiptHandle":
				r.ReceiptHandle, err = d.String()
			case "max":
				r.Max, err = maxCount(d)
			case "wait":
				r.Wait, err = wait(d)
			}
			return err
		})
	})
	return r, err
}

// DecodeNewTicket decodes the body that makes a ticket. The result doesn't refer to body. The error is an *InputError
// with SlugInvalidBody or SlugInvalidTicket.
func DecodeNewTicket(body []byte) (NewTicket, error) {
	var t NewTicket
	err := decode(body, fault.SlugInvalidBody, func(d *strictjson.Decoder) error {
		return d.Object(ticketMembers, func(name string) (err error) {
			switch name {
			case "queue":
				t.Queue, err = notEmpty(d, "the queue is empty: leave it out for the queue default")
			case "id":
				t.ID, err = notEmpty(d, "the id is empty: leave it out to have one made")
			case "ttl":
				t.TTL, err = ttl(d)
			default:
				err = specMember(d, &t.Spec, name)
			}
			return err
		})
	})
	return t, err
}

// Decode decodes a JSON body into a value. The error is an *InputError with SlugInvalidBody.
func Decode(body []byte, out any) error {
	if len(trim(body)) == 0 {
		return emptyBody(fault.SlugInvalidBody)
	}
	err := strictjson.Unmarshal(body, out)
	var e *strictjson.Error
	if errors.As(err, &e) {
		return inputError(e, fault.SlugInvalidBody)
	}
	return err
}

func decodeOptional(body []byte, read func(*strictjson.Decoder) error) error {
	if len(trim(body)) == 0 {
		return nil
	}
	return decode(body, fault.SlugInvalidBody, read)
}

// decode calls read to decode the body. The error is an *InputError, with slug unless a value has another.
func decode(body []byte, slug fault.Slug, read func(*strictjson.Decoder) error) error {
	if len(trim(body)) == 0 {
		return emptyBody(slug)
	}
	err := strictjson.Decode(body, read)
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

// missing returns the error for a member that is missing in the object at pointer.
func missing(member, pointer string) error {
	return &InputError{Slug: fault.SlugInvalidBody, Detail: member + ": is missing", Field: pointer + "/" + member,
		Offset: -1}
}

// trim returns text without the white space of JSON around it.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }
