package wire

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/fault"
)

// AppendDrafts decodes the body of a publish, one message or an array of them, and appends it to dst. The contents
// are parts of body. batch tells whether it was an array. The error is an *InputError with fault.SlugInvalidBody or
// fault.SlugInvalidBatch.
func AppendDrafts(dst []Draft, body []byte) (drafts []Draft, batch bool, err error) {
	d := newDecoder(body)
	defer d.release()
	if err := d.notEmpty(); err != nil {
		return nil, false, err
	}
	switch kind := d.json.PeekKind(); kind {
	case jsontext.KindBeginObject:
		var draft Draft
		if draft, err = d.draft(); err == nil {
			drafts = append(dst, draft)
		}
	case jsontext.KindBeginArray:
		batch = true
		drafts, err = d.drafts(dst)
	default:
		err = d.wrongType("the body", "an object or an array of objects")
	}
	if err != nil {
		return nil, batch, err
	}
	return drafts, batch, d.end()
}

func (d *decoder) drafts(dst []Draft) ([]Draft, error) {
	if _, err := d.json.ReadToken(); err != nil {
		return nil, d.refuse(err)
	}
	if d.json.PeekKind() == jsontext.KindEndArray {
		return nil, &InputError{Slug: fault.SlugInvalidBatch, Detail: "the batch is empty", Offset: d.json.InputOffset()}
	}
	for d.json.PeekKind() != jsontext.KindEndArray {
		draft, err := d.draft()
		if err != nil {
			return nil, err
		}
		dst = append(dst, draft)
	}
	if _, err := d.json.ReadToken(); err != nil {
		return nil, d.refuse(err)
	}
	return dst, nil
}

func (d *decoder) draft() (Draft, error) {
	var draft Draft
	if err := d.beginObject("a message"); err != nil {
		return Draft{}, err
	}
	for {
		name, err := d.member()
		if err != nil {
			return Draft{}, err
		}
		switch string(name) {
		case "":
			if draft.Content == nil {
				return Draft{}, d.missing("content")
			}
			return draft, nil
		case `"id"`:
			draft.ID, err = d.text("id")
			if err == nil && draft.ID == "" {
				err = d.input(fault.SlugInvalidMessageID, "the id is empty: leave it out to have one made")
			}
		case `"content"`:
			draft.Content, err = d.value()
		default:
			err = d.unknown(name, "id and content")
		}
		if err != nil {
			return Draft{}, err
		}
	}
}

// DecodeContent checks a body that is the content of a message, and gives the part of body that is the JSON value,
// without the white space around it. The error is an *InputError with fault.SlugInvalidContent.
func DecodeContent(body []byte) ([]byte, error) {
	d := newDecoder(body)
	defer d.release()
	d.slug = fault.SlugInvalidContent
	if err := d.notEmpty(); err != nil {
		return nil, err
	}
	content, err := d.value()
	if err != nil {
		return nil, err
	}
	return content, d.end()
}

// DecodeSubscribe decodes the body of a subscribe, which may be empty. The error is an *InputError with
// fault.SlugInvalidBody or fault.SlugInvalidFrom.
func DecodeSubscribe(body []byte) (SubscribeRequest, error) {
	var r SubscribeRequest
	err := decodeObject(body, optional, func(d *decoder, name []byte) error {
		if string(name) != `"from"` {
			return d.unknown(name, "from")
		}
		value, err := d.value()
		if err != nil {
			return err
		}
		return d.place(r.From.UnmarshalJSON(value))
	})
	return r, err
}

// DecodeAck decodes the body of an acknowledgement. The error is an *InputError with fault.SlugInvalidBody.
func DecodeAck(body []byte) (AckRequest, error) {
	var r AckRequest
	found := false
	err := decodeObject(body, required, func(d *decoder, name []byte) (err error) {
		if string(name) != `"receiptHandle"` {
			return d.unknown(name, "receiptHandle")
		}
		found = true
		r.ReceiptHandle, err = d.text("receiptHandle")
		return err
	})
	if err == nil && !found {
		err = &InputError{Slug: fault.SlugInvalidBody, Detail: "receiptHandle is missing", Field: "/receiptHandle", Offset: -1}
	}
	return r, err
}

// DecodeNext decodes the body of a next, which may be empty. The error is an *InputError with fault.SlugInvalidBody,
// fault.SlugInvalidMax or fault.SlugInvalidWait.
func DecodeNext(body []byte) (NextRequest, error) {
	var r NextRequest
	err := decodeObject(body, optional, func(d *decoder, name []byte) (err error) {
		switch string(name) {
		case `"receiptHandle"`:
			r.ReceiptHandle, err = d.text("receiptHandle")
		case `"max"`:
			r.Max, err = d.max()
		case `"wait"`:
			r.Wait, err = d.wait()
		default:
			err = d.unknown(name, "receiptHandle, max and wait")
		}
		return err
	})
	return r, err
}

func (d *decoder) max() (int, error) {
	value, err := d.value()
	if err != nil {
		return 0, err
	}
	n, err := ParseMax(string(value))
	return n, d.place(err)
}

// wait reads "20s", "20" or 20.
func (d *decoder) wait() (Wait, error) {
	if d.json.PeekKind() == jsontext.KindString {
		text, err := d.text("wait")
		if err != nil {
			return 0, err
		}
		wait, err := ParseWait(text)
		return Wait(wait), d.place(err)
	}
	value, err := d.value()
	if err != nil {
		return 0, err
	}
	wait, err := ParseWait(string(value))
	return Wait(wait), d.place(err)
}

// presence tells whether a body may be empty.
type presence bool

const (
	required presence = false
	optional presence = true
)

// decodeObject calls member for each member of the object that is the body. member reads the value.
func decodeObject(body []byte, p presence, member func(d *decoder, name []byte) error) error {
	d := newDecoder(body)
	defer d.release()
	if err := d.notEmpty(); err != nil {
		if p == optional {
			return nil
		}
		return err
	}
	if err := d.beginObject("the body"); err != nil {
		return err
	}
	for {
		name, err := d.member()
		if err != nil {
			return err
		}
		if len(name) == 0 {
			return d.end()
		}
		if err := member(d, name); err != nil {
			return err
		}
	}
}

func (d *decoder) missing(name string) error {
	return &InputError{
		Slug: d.slug, Detail: name + " is missing", Field: cutPointer(string(d.json.StackPointer()) + "/" + name),
		Offset: d.json.InputOffset(),
	}
}

func (d *decoder) unknown(name []byte, known string) error {
	return d.input(d.slug, fmt.Sprintf("there is no member %.64s here, only %s", name, known))
}
