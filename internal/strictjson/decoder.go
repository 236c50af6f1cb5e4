package strictjson

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decoder reads the values of one text, one after the other. [Decode] makes it. When a method returns an error, the
// caller returns that error.
type Decoder struct {
	json   jsontext.Decoder
	source bytes.Buffer // the library reads a bytes.Buffer, and no other reader, without copying the text
	text   []byte
	last   int // length of the value or name that was read last
}

var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// allow is base for reading tokens.
var allow = []jsontext.Options{jsontext.AllowInvalidUTF8(true)}

// Decode calls read, which reads the one JSON value that text is. It refuses what Unmarshal refuses and returns the
// same errors, and takes less time, because it doesn't use reflection. The Decoder is valid until read returns.
func Decode(text []byte, read func(*Decoder) error) error {
	if !utf8.Valid(text) {
		return invalidUTF8(text)
	}
	d := decoders.Get().(*Decoder)
	d.reset(text)
	err := read(d)
	end := d.json.InputOffset()
	d.reset(nil)
	decoders.Put(d)
	switch {
	case err != nil:
		return explain(text, err)
	case len(bytes.TrimLeft(text[end:], " \t\r\n")) > 0:
		return explain(text, json.Unmarshal(text, new(jsontext.Value), base))
	}
	return nil
}

func (d *Decoder) reset(text []byte) {
	d.text, d.source = text, *bytes.NewBuffer(text)
	d.json.Reset(&d.source, allow...)
}

// Object reads an object. For each member it calls member, which reads the value. Names that are not in known are
// refused.
func (d *Decoder) Object(known []string, member func(name string) error) error {
	if err := d.begin(jsontext.KindBeginObject, "an object"); err != nil {
		return err
	}
	for d.json.PeekKind() != jsontext.KindEndObject {
		name, err := d.characters()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(known, func(k string) bool { return k == string(name) })
		if i < 0 {
			return d.wrong("unknown member (known: "+strings.Join(known, ", ")+")", nil)
		}
		if err := member(known[i]); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// Map reads an object whose members can have any name.
func Map[V any](d *Decoder, value func(*Decoder) (V, error)) (map[string]V, error) {
	if err := d.begin(jsontext.KindBeginObject, "an object"); err != nil {
		return nil, err
	}
	values := map[string]V{}
	for d.json.PeekKind() != jsontext.KindEndObject {
		name, err := d.characters()
		if err != nil {
			return nil, err
		}
		key := string(name)
		v, err := value(d)
		if err != nil {
			return nil, err
		}
		values[key] = v
	}
	_, err := d.json.ReadToken()
	return values, err
}

// Array reads an array. For each element it calls element, which reads the element.
func (d *Decoder) Array(element func() error) error {
	if err := d.begin(jsontext.KindBeginArray, "an array"); err != nil {
		return err
	}
	for d.json.PeekKind() != jsontext.KindEndArray {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.json.ReadToken()
	return err
}

// List reads an array into a slice, which is not nil.
func List[T any](d *Decoder, element func(*Decoder) (T, error)) ([]T, error) {
	list := []T{}
	err := d.Array(func() error {
		e, err := element(d)
		list = append(list, e)
		return err
	})
	return list, err
}

// IsArray reports whether the next value is an array.
func (d *Decoder) IsArray() bool { return d.json.PeekKind() == jsontext.KindBeginArray }

// IsString reports whether the next value is a string.
func (d *Decoder) IsString() bool { return d.json.PeekKind() == jsontext.KindString }

// String reads a string.
func (d *Decoder) String() (string, error) {
	if err := d.check(jsontext.KindString, "a string"); err != nil {
		return "", err
	}
	text, err := d.characters()
	return string(text), err
}

// Int reads an integer.
func (d *Decoder) Int() (int, error) {
	if err := d.check(jsontext.KindNumber, "an integer"); err != nil {
		return 0, err
	}
	digits, err := d.read()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0, d.wrong(fmt.Sprintf("must be an integer, not %.64s", digits), nil)
	}
	return n, nil
}

// Float reads a number.
func (d *Decoder) Float() (float64, error) {
	if err := d.check(jsontext.KindNumber, "a number"); err != nil {
		return 0, err
	}
	digits, err := d.read()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(string(digits), 64)
	if err != nil {
		return 0, d.wrong(fmt.Sprintf("%.64s is too large for a double", digits), nil)
	}
	return f, nil
}

// Raw reads any value, also null, and returns the part of the text that is the value. Appending to it doesn't change
// the text.
func (d *Decoder) Raw() ([]byte, error) {
	v, err := d.read()
	if err != nil {
		return nil, err
	}
	end := int(d.json.InputOffset())
	return d.text[end-len(v) : end : end], nil
}

// Refuse returns an error for the value that was read last: cause is what is wrong with it.
func (d *Decoder) Refuse(cause error) error { return d.wrong(cause.Error(), cause) }

// Missing returns an error for the object that was read last: it lacks a member.
func (d *Decoder) Missing(member string) error {
	return &Error{
		Reason:  "is missing",
		Pointer: string(d.json.StackPointer().AppendToken(member)),
		Offset:  d.json.InputOffset() - 1, // the closing brace
	}
}

// characters reads a string or a member's name, all of which must be characters. The result is valid until the next
// call.
func (d *Decoder) characters() ([]byte, error) {
	quoted, err := d.read()
	if err != nil {
		return nil, err
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	plain, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, d.wrong(halfPair(quoted), nil)
	}
	return plain, nil
}

// begin reads the start of an object or array.
func (d *Decoder) begin(want jsontext.Kind, name string) error {
	if err := d.check(want, name); err != nil {
		return err
	}
	_, err := d.json.ReadToken()
	return err
}

// check returns an error if the next value is of another kind.
func (d *Decoder) check(want jsontext.Kind, name string) error {
	kind := d.json.PeekKind()
	if kind == want {
		return nil
	}
	if _, err := d.read(); err != nil {
		return err
	}
	return d.wrong("must be "+name+", not "+kindName(kind), nil)
}

// wrong returns an error for the value or name that was read last.
func (d *Decoder) wrong(reason string, cause error) error {
	return &Error{
		Reason: reason, Pointer: string(d.json.StackPointer()), Offset: d.json.InputOffset() - int64(d.last),
		Cause: cause,
	}
}

// read reads a value or a member's name. It is valid until the next call.
func (d *Decoder) read() (jsontext.Value, error) {
	v, err := d.json.ReadValue()
	d.last = len(v)
	return v, err
}
