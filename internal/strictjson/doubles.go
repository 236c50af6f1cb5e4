package strictjson

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Doubles are numbers by name. Unlike JSON's own they may be NaN or infinite, which are written as the strings "NaN",
// "Infinity" and "-Infinity", as protobuf's JSON does.
type Doubles map[string]float64

// MarshalJSON writes the numbers.
func (d Doubles) MarshalJSON() ([]byte, error) {
	plain := make(map[string]any, len(d))
	for name, value := range d {
		switch {
		case math.IsNaN(value):
			plain[name] = "NaN"
		case math.IsInf(value, 1):
			plain[name] = "Infinity"
		case math.IsInf(value, -1):
			plain[name] = "-Infinity"
		default:
			plain[name] = value
		}
	}
	return stdjson.Marshal(plain)
}

// UnmarshalJSON decodes what MarshalJSON writes. The error is an *Error.
func (d *Doubles) UnmarshalJSON(text []byte) error {
	var values map[string]double
	if err := Unmarshal(text, &values); err != nil {
		return err
	}
	*d = make(Doubles, len(values))
	for name, value := range values {
		(*d)[name] = float64(value)
	}
	return nil
}

// double is one of Doubles.
type double float64

// UnmarshalJSONFrom decodes a number, or one of the strings of MarshalJSON.
func (f *double) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != jsontext.KindString {
		return json.UnmarshalDecode(d, (*float64)(f))
	}
	var text string
	if err := json.UnmarshalDecode(d, &text); err != nil {
		return err
	}
	switch text {
	case "NaN", "Infinity", "-Infinity":
		value, err := strconv.ParseFloat(text, 64)
		*f = double(value)
		return err
	}
	return fmt.Errorf(`must be a number, "NaN", "Infinity" or "-Infinity", not %.64q`, text)
}
