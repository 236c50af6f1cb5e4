package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/fault"
)

// decoder reads one body. It is used by one goroutine at a time and kept for the next body.
type decoder struct {
	json   jsontext.Decoder
	source bytes.Buffer // a bytes.Buffer, and no other reader, is parsed where it is, without a copy
	body   []byte
	slug   fault.Slug // of errors that have no other
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// loneSurrogates accepts "\ud83d", half of a surrogate pair, which JSON's grammar allows. The option accepts bytes that
// aren't UTF-8 too: read refuses them.
var loneSurrogates = []jsontext.Options{jsontext.AllowInvalidUTF8(true)}

func newDecoder(body []byte) *decoder {
	d := decoders.Get().(*decoder)
	d.reset(body)
	return d
}

// release returns the decoder to the pool, without the body.
func (d *decoder) release() {
	d.reset(nil)
	decoders.Put(d)
}

func (d *decoder) reset(body []byte) {
	d.body, d.slug, d.source = body, fault.SlugInvalidBody, *bytes.NewBuffer(body)
	d.json.Reset(&d.source, loneSurrogates...)
}

// notEmpty refuses a body that has nothing but white space.
func (d *decoder) notEmpty() error {
	if len(bytes.Trim(d.body, " \t\r\n")) == 0 {
		return &InputError{Slug: d.slug, Detail: "the body is empty, it must be JSON"}
	}
	return nil
}

// end refuses anything after the value that was read.
func (d *decoder) end() error {
	_, err := d.json.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	default:
		return &InputError{Slug: d.slug, Detail: "there is something after the JSON value", Offset: d.json.InputOffset()}
	}
}

func (d *decoder) beginObject(what string) error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid {
		return d.wrongType(what, "an object")
	}
	if _, err := d.json.ReadToken(); err != nil {
		return d.refuse(err)
	}
	return nil
}

// member reads the name of the next member of an object, and gives it in quotes and without escapes that it doesn't
// need. At the end of the object, which it reads, it gives an empty name. The name is valid until the next call.
func (d *decoder) member() ([]byte, error) {
	if d.json.PeekKind() == jsontext.KindEndObject {
		_, err := d.json.ReadToken()
		return nil, d.refuse(err)
	}
	name, err := d.read()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(name, '\\') < 0 {
		return name, nil
	}
	plain, err := d.unquote(name)
	if err != nil {
		return nil, err
	}
	quoted, err := jsontext.AppendQuote(nil, plain)
	return quoted, d.refuse(err)
}

// read reads a value of any type, or the name of a member. Both are valid until the next call.
func (d *decoder) read() (jsontext.Value, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return nil, d.refuse(err)
	}
	if !utf8.Valid(v) {
		e := d.input(d.slug, "the body is not valid JSON: invalid UTF-8")
		e.Offset += int64(firstInvalid(v) - len(v))
		return nil, e
	}
	return v, nil
}

// firstInvalid returns the index of the first byte that isn't UTF-8. There must be one.
func firstInvalid(text []byte) int {
	at := 0
	for {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
}

// unquote decodes a string, which must be characters: half of a surrogate pair is none.
func (d *decoder) unquote(quoted []byte) ([]byte, error) {
	plain, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, d.input(d.slug, fmt.Sprintf("%.64s has half of a surrogate pair, which is no character", quoted))
	}
	return plain, nil
}

// value reads a value of any type and returns the part of the body that it is.
func (d *decoder) value() ([]byte, error) {
	v, err := d.read()
	if err != nil {
		return nil, err
	}
	end := int(d.json.InputOffset())
	return d.body[end-len(v) : end : end], nil
}

// text reads a string.
func (d *decoder) text(what string) (string, error) {
	if kind := d.json.PeekKind(); kind != jsontext.KindString && kind != jsontext.KindInvalid {
		return "", d.wrongType(what, "a string")
	}
	quoted, err := d.read()
	if err != nil {
		return "", err
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	plain, err := d.unquote(quoted)
	return string(plain), err
}

// wrongType reads the value that has the wrong type and tells of it.
func (d *decoder) wrongType(what, want string) error {
	v, err := d.value()
	if err != nil {
		return err
	}
	e := d.input(d.slug, fmt.Sprintf("%s must be %s, it is %s", what, want, typeName(jsontext.Value(v).Kind())))
	e.Offset = d.json.InputOffset() - int64(len(v))
	return e
}

func typeName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	default:
		return "something else"
	}
}

// input tells what is wrong with the name or value that was read last.
func (d *decoder) input(slug fault.Slug, detail string) *InputError {
	return &InputError{Slug: slug, Detail: detail, Field: cutPointer(string(d.json.StackPointer())), Offset: d.json.InputOffset()}
}

// place adds to err, which may be nil, where in the body it is.
func (d *decoder) place(err error) error {
	var e *InputError
	if !errors.As(err, &e) {
		return err
	}
	return d.input(e.Slug, e.Detail)
}

// refuse tells of a syntax error; nil stays nil.
func (d *decoder) refuse(err error) error {
	if err == nil {
		return nil
	}
	e := &InputError{Slug: d.slug, Offset: int64(len(d.body))}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		e.Offset, e.Field, err = syntax.ByteOffset, cutPointer(string(syntax.JSONPointer)), syntax.Err
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Detail = fmt.Sprintf("the member %.64q is there twice", syntax.JSONPointer.LastToken())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Detail, e.Offset = "the JSON is cut short", int64(len(d.body))
	default:
		e.Detail = fmt.Sprintf("the body is not valid JSON: %v", err)
	}
	return e
}

// maxPointerBytes is how much of a JSON pointer is told.
const maxPointerBytes = 256

// cutPointer shortens a pointer into deeply nested JSON to its first tokens.
func cutPointer(p string) string {
	if len(p) <= maxPointerBytes {
		return p
	}
	p = p[:maxPointerBytes+1]
	return strings.ToValidUTF8(p[:max(strings.LastIndexByte(p, '/'), 1)], "")
}
