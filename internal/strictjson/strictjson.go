// Package strictjson decodes JSON that comes from outside: bodies of requests, queue definitions, configuration.
//
// [Unmarshal] refuses what encoding/json accepts although the sender can't have meant it: duplicate members, unknown
// members and members in another case, null in place of a value, text that is not UTF-8, and anything after the value.
// The decoding itself is done by the library that is the experiment for encoding/json/v2.
//
// The error is always an *[Error]. It says what is wrong, in words for the sender, and where: as a path, as a JSON
// pointer and as an offset. If an Unmarshal method returns an *Error, its place is one within the method's value.
//
// Half of a surrogate pair ("\ud83d") is allowed by the grammar of JSON, but is not a character. It is refused in
// strings that are decoded, and accepted in values that are kept as they are written, such as json.RawMessage.
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

// Absent is a text that no string of JSON has, because it isn't UTF-8. A string that is Absent before it is decoded is
// still so afterwards if its member is missing.
const Absent = "\xff"

// Unmarshal decodes text, one JSON value, into v, a pointer. The members of an object are matched with the json tags of
// a struct's fields, in the same case. When Unmarshal returns an error, what v points to may be set in part.
func Unmarshal(text []byte, v any, options ...Option) error {
	var o Option
	for _, option := range options {
		o |= option
	}
	library := plain
	if o != 0 || special(text) {
		if !utf8.Valid(text) {
			return invalidUTF8(text)
		}
		library = hooked[o]
	}
	switch err := json.Unmarshal(text, v, library...); {
	case err == nil:
		return nil
	case !utf8.Valid(text):
		return invalidUTF8(text)
	default:
		return explain(text, err)
	}
}

// special reports whether text may contain a null or half of a surrogate pair. The library would accept the former
// everywhere, and the latter nowhere.
func special(text []byte) bool {
	if bytes.Contains(text, []byte("null")) {
		return true
	}
	return bytes.IndexByte(text, '\\') >= 0 &&
		(bytes.Contains(text, []byte(`\ud`)) || bytes.Contains(text, []byte(`\uD`)))
}

// plain is for text that isn't special. hooked, by Option, looks at every value, which takes longer. It is for text
// that is UTF-8, so that AllowInvalidUTF8 allows only halves of surrogate pairs.
var (
	plain  = []json.Options{json.RejectUnknownMembers(true)}
	hooked = [...][]json.Options{
		hook(0), hook(NullIsUnset), hook(TextIsPlain), hook(NullIsUnset | TextIsPlain),
	}
)

func hook(o Option) []json.Options {
	look := func(d *jsontext.Decoder, v any) error {
		switch kind := d.PeekKind(); {
		case kind == jsontext.KindNull && o&NullIsUnset != 0 && d.StackDepth() > 0:
			return d.SkipValue()
		case kind == jsontext.KindNull && !readsItself(v):
			if err := d.SkipValue(); err != nil { // it only begins as null does
				return err
			}
			return &json.SemanticError{GoType: reflect.TypeOf(v).Elem(), JSONKind: kind}
		case kind == jsontext.KindString && !readsItself(v):
			return unmarshalText(d, v, o)
		}
		return errors.ErrUnsupported
	}
	return []json.Options{json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(look))}
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
func unmarshalText(d *jsontext.Decoder, v any, o Option) error {
	switch v := v.(type) {
	case *string:
		text, err := characters(d)
		*v = text
		return err
	case encoding.TextUnmarshaler:
		text, err := characters(d)
		if err != nil {
			return err
		}
		if err := v.UnmarshalText([]byte(text)); err != nil {
			return &json.SemanticError{GoType: reflect.TypeOf(v).Elem(), JSONKind: jsontext.KindString, Err: err}
		}
		return nil
	}
	if o&TextIsPlain != 0 {
		return unmarshalPlain(d, v)
	}
	return errors.ErrUnsupported
}

// characters reads a string, all of which must be characters.
func characters(d *jsontext.Decoder) (string, error) {
	quoted, err := d.ReadValue()
	if err != nil {
		return "", err
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return "", fmt.Errorf("%.64s contains half of a surrogate pair, which is not a character", quoted)
	}
	return string(text), nil
}

// ParseBool parses a boolean of a configuration in each of the ways that are usual: true, on, yes and 1, and their
// opposites, as they are written here.
func ParseBool(text string) (bool, error) {
	switch text {
	case "true", "on", "yes", "1":
		return true, nil
	case "false", "off", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q isn't on or off, nor true or false, yes or no, 1 or 0", text)
}

// unmarshalPlain decodes a number or boolean from a string.
func unmarshalPlain(d *jsontext.Decoder, v any) error {
	target := reflect.ValueOf(v).Elem()
	switch target.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
	default:
		return errors.ErrUnsupported
	}
	text, err := characters(d)
	if err != nil {
		return err
	}
	switch target.Kind() {
	case reflect.Bool:
		var value bool
		value, err = ParseBool(text)
		target.SetBool(value)
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

// Valid reports whether text is one JSON value in UTF-8, which is what a body may have for a value that is kept as it
// is written: an object may have the same name twice, and an escape may be half of a surrogate pair. It takes between a
// third and two thirds of the time of encoding/json's Valid, which doesn't look at UTF-8.
func Valid(text []byte) bool {
	return utf8.Valid(text) &&
		jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
