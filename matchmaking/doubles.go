package matchmaking

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Doubles are numbers by name. Unlike JSON's own they may be NaN or infinite, which are written as the strings
// "NaN", "Infinity" and "-Infinity", as protobuf's JSON does.
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
func (d *Doubles) UnmarshalJSON(text []byte) error {
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(text, &plain); err != nil {
		return err
	}
	*d = make(Doubles, len(plain))
	for name, raw := range plain {
		value, err := parseDouble(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		(*d)[name] = value
	}
	return nil
}

func parseDouble(raw json.RawMessage) (float64, error) {
	if len(raw) > 0 && raw[0] == '"' {
		switch text := string(raw[1 : len(raw)-1]); text {
		case "NaN", "Infinity", "-Infinity":
			return strconv.ParseFloat(text, 64)
		}
		return 0, fmt.Errorf("%s isn't a number", raw)
	}
	var value float64
	err := json.Unmarshal(raw, &value)
	return value, err
}
