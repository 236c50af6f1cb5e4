// Package strictjson decodes JSON that comes from outside: bodies of requests, queue definitions, configuration.
//
// [Unmarshal] refuses what encoding/json accepts although the sender can't have meant it: duplicate members, unknown
// members and members in another case, null in place of a value, text that is not UTF-8, and anything after the value.
// The decoding itself is done by the library that is the experiment for encoding/json/v2. [Decode] is for the bodies of
// requests: it refuses the same, and what it reads is written out in code instead of in struct tags, which takes half
// the time.
//
// The error is always an *[Error]. It says what is wrong, in words for the sender, and where: as a path, as a JSON
// pointer and as an offset.
//
// Half of a surrogate pair ("\ud83d") is allowed by the grammar of JSON, but is not a character. It is refused in
// strings that are decoded, and accepted in values that are kept as they are written: [Decoder.Raw] and
// json.RawMessage.
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
	// NullIsUnset makes null leave a value in the text unchanged, as if the member were missing. The text itself must
	// not be null.
	NullIsUnset Option = 1 << iota
	// TextIsPlain makes numbers and booleans accept a string that contains one. It is for JSON that was made from a
	// format such as YAML by keeping all values as text.
	TextIsPlain
)

// Unmarshal decodes text, one JSON value, into v, a pointer. The members of an object are matched with the json tags of
// a struct's fields, in the same case. When Unmarshal returns an error, what v points to may be set in part.
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

// base is the options of all calls. Since Unmarshal checks UTF-8 before, AllowInvalidUTF8 allows only halves of
// surrogate pairs.
var base = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.RejectUnknownMembers(true))

// strict is for text without a null. hooked, by Option, looks at every value, which takes longer.
var (
	strict = json.JoinOptions(base, json.WithUnmarshalers(json.UnmarshalFromFunc(unmarshalText)))
	hooked = [...]json.Options{
		hook(0), hook(NullIsUnset), hook(TextIsPlain), hook(NullIsUnset | TextIsPlain),
	}
)

func hook(o Option) json.Options {
	look := func(d *jsontext.Decoder, v any) error {
		switch kind := d.PeekKind(); {
		case kind == jsontext.KindNull && o&NullIsUnset != 0 && d.StackDepth() > 0:
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

// readsItself reports whether the type of v decides what to do with a null.
func readsItself(v any) bool {
	switch v.(type) {
	case json.UnmarshalerFrom, stdjson.Unmarshaler, *any:
		return true
	}
	return false
}

// unmarshalText decodes a string, all of which must be characters.
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
		return errors.New(halfPair(quoted))
	}
	*s = string(plain)
	return nil
}

// halfPair says what is wrong with a string that isn't characters.
func halfPair(quoted []byte) string {
	return fmt.Sprintf("%.64s contains half of a surrogate pair, which is not a character", quoted)
}

// unmarshalPlain decodes a number or boolean from a string.
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
		return &json.SemanticError{GoType: target.Type(), JSONKind: jsontext.KindString,
			JSONValue: fmt.Appendf(nil, "%q", text)}
	}
	return nil
}
