package strictjson

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error says what is wrong with a text, and where.
type Error struct {
	Reason  string // for the sender, such as "duplicate member" or "must be a string, not a number"
	Path    string // of the wrong value, such as match.widen[1].after; "" for the whole text and for its syntax
	Pointer string // the place as a JSON pointer (RFC 6901), shortened if it is very long
	Offset  int64  // the place in bytes from the start of the text
	Cause   error  // the error of a type's Unmarshal method; may be nil
}

// Error returns the path and the reason.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrUnknown is the cause of the error of a member that isn't known.
var ErrUnknown error = json.ErrUnknownName

// explain returns the *Error for an error of the library about text.
func explain(text []byte, err error) *Error {
	var ours *Error
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &ours) && errors.As(err, &semantic):
		return (&Error{Reason: ours.Reason, Pointer: string(semantic.JSONPointer) + ours.Pointer,
			Offset: semantic.ByteOffset + ours.Offset, Cause: ours.Cause}).placed(text)
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return (&Error{Reason: "duplicate member", Pointer: string(syntax.JSONPointer),
			Offset: syntax.ByteOffset}).placed(text)
	case errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Reason: fmt.Sprintf("invalid JSON: %v", syntax.Err), Pointer: cut(syntax.JSONPointer),
			Offset: syntax.ByteOffset}
	case errors.As(err, &semantic):
		e := &Error{Reason: reason(semantic), Pointer: string(semantic.JSONPointer), Offset: semantic.ByteOffset,
			Cause: semantic.Err}
		return e.placed(text)
	}
	e := &Error{Reason: "unexpected end of JSON", Offset: int64(len(text))}
	if syntax != nil {
		e.Pointer = cut(syntax.JSONPointer)
	}
	return e
}

// reason says what is wrong with a value that is valid JSON.
func reason(e *json.SemanticError) string {
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return "unknown member (known: " + strings.Join(members(e.GoType), ", ") + ")"
	case errors.Is(e.Err, strconv.ErrRange) && e.GoType.Kind() == reflect.Float64:
		return fmt.Sprintf("%.64s is too large for a double", e.JSONValue)
	case e.GoType == reflect.TypeFor[time.Time]():
		return `must be a time, such as "2006-01-02T15:04:05Z"`
	case e.Err != nil && !errors.Is(e.Err, strconv.ErrSyntax) && !errors.Is(e.Err, strconv.ErrRange) &&
		!takesText(e.GoType, e.JSONKind):
		return e.Err.Error()
	case len(e.JSONValue) > 0:
		return fmt.Sprintf("must be %s, not %.64s", nameOf(e.GoType), e.JSONValue)
	}
	return fmt.Sprintf("must be %s, not %s", nameOf(e.GoType), kindName(e.JSONKind))
}

// takesText reports whether a type that is decoded from a string got something else.
func takesText(t reflect.Type, kind jsontext.Kind) bool {
	return kind != jsontext.KindString && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// members returns the member names of a struct.
func members(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, members(f.Type)...)
		case name != "-" && !slices.Contains(names, name): // otherwise it hides one of an embedded struct
			names = append(names, name)
		}
	}
	return names
}

func nameOf(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Pointer:
		return nameOf(t.Elem())
	default:
		return "an object"
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginArray:
		return "an array"
	default:
		return "an object"
	}
}

// placed adds the path, which follows from the pointer and from the objects and arrays that are open at the offset.
func (e *Error) placed(text []byte) *Error {
	pointer := jsontext.Pointer(cut(jsontext.Pointer(e.Pointer)))
	d := jsontext.NewDecoder(bytes.NewReader(text[:e.Offset]), jsontext.AllowInvalidUTF8(true),
		jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	var path strings.Builder
	level := 0
	for token := range pointer.Tokens() {
		level++
		var open jsontext.Kind
		if level <= d.StackDepth() {
			open, _ = d.StackIndex(level)
		}
		switch {
		case open == jsontext.KindBeginArray:
			fmt.Fprintf(&path, "[%s]", token)
		case level == 1:
			path.WriteString(token)
		default:
			path.WriteString("." + token)
		}
	}
	e.Pointer, e.Path = string(pointer), path.String()
	return e
}

// invalidUTF8 returns the error for text that isn't UTF-8: a syntax error if there is one before the first invalid
// byte.
func invalidUTF8(text []byte) *Error {
	at := firstInvalid(text)
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true))
	for d.InputOffset() <= at {
		if _, err := d.ReadToken(); err != nil {
			return explain(text, err)
		}
	}
	return &Error{Reason: "invalid JSON: invalid UTF-8", Pointer: cut(d.StackPointer()), Offset: at}
}

// firstInvalid returns the index of the first byte that isn't UTF-8. There must be one.
func firstInvalid(text []byte) int64 {
	at := 0
	for {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return int64(at)
		}
		at += size
	}
}

// maxPointerBytes is how long a pointer may be.
const maxPointerBytes = 256

// cut shortens a pointer into deeply nested JSON to its first tokens.
func cut(p jsontext.Pointer) string {
	if len(p) <= maxPointerBytes {
		return string(p)
	}
	short := string(p[:maxPointerBytes+1])
	return strings.ToValidUTF8(short[:max(strings.LastIndexByte(short, '/'), 1)], "")
}
