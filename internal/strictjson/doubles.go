package strictjson

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"strconv"
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
	return Decode(text, func(in *Decoder) (err error) {
		*d, err = in.Doubles()
		return err
	})
}

// Doubles reads what [Doubles.MarshalJSON] writes.
func (d *Decoder) Doubles() (Doubles, error) { return Map(d, double) }

// double reads one of Doubles.
func double(d *Decoder) (float64, error) {
	if !d.IsString() {
		return d.Float()
	}
	text, err := d.String()
	if err != nil {
		return 0, err
	}
	switch text {
	case "NaN", "Infinity", "-Infinity":
		return strconv.ParseFloat(text, 64)
	}
	return 0, d.Refuse(fmt.Errorf(`must be a number, "NaN", "Infinity" or "-Infinity", not %.64q`, text))
}
