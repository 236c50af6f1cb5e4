package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Doubles are numbers by name. Unlike JSON's own they may be NaN or infinite, which are written as the strings "NaN",
// "Infinity" and "-Infinity".
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
	return json.Marshal(plain)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Doubles) UnmarshalJSON(data []byte) error {
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	*d = make(Doubles, len(plain))
	for name, raw := range plain {
		value, err := unmarshalDouble(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		(*d)[name] = value
	}
	return nil
}

func unmarshalDouble(raw json.RawMessage) (value float64, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && isSpecial(text) {
		return strconv.ParseFloat(text, 64)
	}
	err = json.Unmarshal(raw, &value)
	return value, err
}

// isSpecial tells whether text stands for a number that JSON has no numeral for.
func isSpecial(text string) bool { return text == "NaN" || text == "Infinity" || text == "-Infinity" }
