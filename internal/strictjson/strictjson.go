// Package strictjson decodes JSON that people and programs of others write: bodies of requests, queue definitions,
// configuration. [Unmarshal] refuses what a sender can't have meant, which encoding/json accepts: duplicate members,
// unknown members and members in another case, null in place of a value, text that is not valid UTF-8, and anything
// after the value. The decoding itself is done by the library that is to become encoding/json/v2.
//
// The error is always an *[Error], which says what is wrong in words for the sender, and where: as a path, as a JSON
// pointer and as an offset.
//
// Half of a surrogate pair ("\ud83d") is allowed by JSON's grammar, but is not a character. It is refused in every string
// that is decoded into Go text, and passes in what is kept as it is written: [Span] and json.RawMessage.
//
// All functions may be called by any number of goroutines.
package strictjson

import (
	"bytes"
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Option changes what Unmarshal accepts.
type Option uint8

const (
	// NullIsUnset makes a null leave what it would set as it is.
	NullIsUnset Option = 1 << iota
	// TextIsPlain makes numbers and booleans accept a string that holds one, for JSON made of a format such as YAML
	// whose values are all kept as text.
	TextIsPlain
)

// Unmarshal decodes the one JSON value of text into v, a pointer. Members of objects are matched with the json tags of
// struct fields, in the same case. The value that v points to may be set in part when an error is returned.
func Unmarshal(text []byte, v any, options ...Option) error {
	var o Option
	for _, option := range options {
		o |= option
	}
	if !utf8.Valid(text) {
		return invalidUTF8(text)
	}
	library := strict
	if o != 0 || bytes.Contains(text, []byte("null")) {
		library = hooked[o]
	}
	if err := json.Unmarshal(text, v, library); err != nil {
		return explain(text, err)
	}
	return nil
}

// Span is where a value stands in the text, for a value that is kept as it is written. It accepts any value, null too.
type Span struct{ start, end int }

// UnmarshalJSONFrom implements json.UnmarshalerFrom of the library.
func (s *Span) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	s.end = int(d.InputOffset())
	s.start = s.end - len(v)
	return nil
}

// IsZero reports whether there was no value.
func (s Span) IsZero() bool { return s == Span{} }

// Of returns the part of text that is the value. Appending to it doesn't change text.
func (s Span) Of(text []byte) []byte { return text[s.start:s.end:s.end] }

// Missing returns the error of an UnmarshalJSONFrom method whose object, which d has just read, lacks a member.
func Missing(d *jsontext.Decoder, member string) error {
	return &Error{
		Reason:  "is missing",
		Pointer: string(d.StackPointer().AppendToken(member)),
		Offset:  d.InputOffset() - 1, // the closing brace
	}
}

// base is what all calls set. The check of UTF-8 is made before, so that the option lets only halves of surrogate pairs
// through.
var base = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.RejectUnknownMembers(true))

// strict is for text without a null. hooked looks at every value, which takes longer.
var (
	strict = json.JoinOptions(base, json.WithUnmarshalers(json.UnmarshalFromFunc(unmarshalText)))
	hooked = [...]json.Options{
		hook(0), hook(NullIsUnset), hook(TextIsPlain), hook(NullIsUnset | TextIsPlain),
	}
)

func hook(o Option) json.Options {
	look := func(d *jsontext.Decoder, v any) error {
		switch kind := d.PeekKind(); {
		case kind == jsontext.KindNull && o&NullIsUnset != 0:
			return d.SkipValue()
		case kind == jsontext.KindNull && !readsItself(v):
			return &json.SemanticError{GoType: reflect.TypeOf(v).Elem(), JSONKind: kind}
		case kind == jsontext.KindString && o&TextIsPlain != 0:
			return unmarshalPlain(d, v)
		}
		return errors.ErrUnsupported
	}
	return json.JoinOptions(base, json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(look), json.UnmarshalFromFunc(unmarshalText),
	)))
}

// readsItself reports whether v decides itself what it makes of a null.
func readsItself(v any) bool {
	switch v.(type) {
	case json.UnmarshalerFrom, stdjson.Unmarshaler, *any:
		return true
	}
	return false
}

// unmarshalText reads a string, all of which must be characters.
func unmarshalText(d *jsontext.Decoder, s *string) error {
	if d.PeekKind() != jsontext.KindString {
		return errors.ErrUnsupported
	}
	quoted, err := d.ReadValue()
	if err != nil {
		return err
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		*s = string(inner)
		return nil
	}
	plain, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return fmt.Errorf("%.64s contains half of a surrogate pair, which is not a character", quoted)
	}
	*s = string(plain)
	return nil
}

// unmarshalPlain reads a number or boolean from a string.
func unmarshalPlain(d *jsontext.Decoder, v any) error {
	target := reflect.ValueOf(v).Elem()
	switch target.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
	default:
		return errors.ErrUnsupported
	}
	if _, itself := v.(encoding.TextUnmarshaler); itself || readsItself(v) {
		return errors.ErrUnsupported
	}
	var text string
	if err := unmarshalText(d, &text); err != nil {
		return err
	}
	var err error
	switch target.Kind() {
	case reflect.Bool:
		target.SetBool(text == "true")
		if text != "true" && text != "false" {
			err = strconv.ErrSyntax
		}
	case reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		if f-f != 0 { // infinite, or not a number
			err = strconv.ErrSyntax
		}
		target.SetFloat(f)
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		target.SetInt(n)
	}
	if err != nil {
		return &json.SemanticError{GoType: target.Type(), JSONKind: jsontext.KindString, JSONValue: fmt.Appendf(nil, "%q", text)}
	}
	return nil
}
