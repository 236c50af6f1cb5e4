// Package schema validates JSON by JSON Schema. A Schema is a channel.Schema: contents of messages and cached values of
// clients are validated by it, so that its own cost, and that of its errors, are bounded.
package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/tidemark-dev/tidemark/internal/redact"
)

// Bounds of a schema.
const (
	maxBytes       = 64 << 10
	maxSchemaDepth = 32 // of its objects and arrays
)

const maxDetail = 200 // bytes of an error to a client

// maxNumber is how many characters a number in a message can have before its exponent, and the largest exponent. The
// library computes with all digits of a number.
const maxNumber = 350

var errNumber = fmt.Errorf("a number of more than %d digits, or with an exponent of more than %d", maxNumber, maxNumber)

// Schema is a compiled JSON schema. Any number of goroutines may use it.
type Schema struct {
	compiled *jsonschema.Schema
	sum      [sha256.Size]byte // of its text
}

// Sum returns the SHA-256 of the schema's text.
func (s *Schema) Sum() []byte { return s.sum[:] }

// Open returns the schema in a file.
func Open(name string) (*Schema, error) {
	f, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	s, err := Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// errRemote is the error of a reference to another document.
var errRemote = errors.New("a schema may only refer to itself, with # and a path")

// nothing loads no document.
type nothing struct{}

func (nothing) Load(string) (any, error) { return nil, errRemote }

// Compile returns the schema of a text, which may not refer to other documents.
func Compile(text []byte) (*Schema, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("a schema of more than %d bytes", maxBytes)
	}
	if err := checkDepth(text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const here = "schema:this"
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled: compiled, sum: sha256.Sum256(text)}, nil
}

// checkDepth returns an error if a text of JSON is nested more deeply than maxSchemaDepth.
func checkDepth(text []byte) error {
	depth, d := 0, json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
		if depth > maxSchemaDepth {
			return fmt.Errorf("a schema of more than %d levels", maxSchemaDepth)
		}
	}
}

// Check returns nil, or the error of content, which is JSON, and its place: a JSON pointer, or "" for the whole
// content.
func (s *Schema) Check(content []byte) (field string, err error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	if path := hugeNumber(value); path != nil {
		slices.Reverse(path)
		return pointer(path), errNumber
	}
	err = s.compiled.Validate(value)
	if err == nil {
		return "", nil
	}
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return "", err
	}
	wrong = deepest(wrong)
	path := wrong.InstanceLocation
	switch k := wrong.ErrorKind.(type) {
	case *kind.Required:
		path = append(path, k.Missing[0])
	case *kind.AdditionalProperties:
		path = append(path, k.Properties[0])
	}
	return pointer(path), errors.New(redact.Cut(wrong.ErrorKind.LocalizedString(english), maxDetail))
}

// hugeNumber returns where a value has a number beyond maxNumber, from there to the whole, or nil.
func hugeNumber(value any) (path []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			if path = hugeNumber(value); path != nil {
				return append(path, name)
			}
		}
	case []any:
		for i, value := range v {
			if path = hugeNumber(value); path != nil {
				return append(path, strconv.Itoa(i))
			}
		}
	case json.Number:
		digits, exponent := string(v), "0"
		if i := strings.IndexAny(digits, "eE"); i >= 0 {
			digits, exponent = digits[:i], digits[i+1:]
		}
		if e, err := strconv.Atoi(exponent); err != nil || len(digits) > maxNumber || e > maxNumber || e < -maxNumber {
			return []string{}
		}
	}
	return nil
}

var english = message.NewPrinter(language.English)

// deepest returns the first of the errors that are deepest in the content.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	found := e
	for _, cause := range e.Causes {
		if d := deepest(cause); len(found.Causes) > 0 && found == e ||
			len(d.InstanceLocation) > len(found.InstanceLocation) {
			found = d
		}
	}
	return found
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + escapes.Replace(name))
	}
	return redact.Cut(b.String(), maxDetail)
}
