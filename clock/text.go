package clock

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors of Parse and UnmarshalJSON. They come wrapped: use errors.Is.
var (
	// ErrSyntax says that the text isn't an integer in its canonical form.
	ErrSyntax = errors.New("not an integer in plain decimal form")
	// ErrRange says that the text is an integer outside Min to Max.
	ErrRange = errors.New("outside -(2^53-1) to 2^53-1")
)

// String returns c in decimal, in the form that Parse reads and Redis keeps.
func (c Clock) String() string { return strconv.FormatInt(int64(c), 10) }

// Parse reads a clock from the one form that String gives it: decimal digits
// with a "-" in front of a negative one; no plus sign, leading zero, "-0",
// fraction, exponent or space. The error is ErrSyntax for text of another form
// and ErrRange for an integer that isn't from Min to Max.
func Parse(s string) (Clock, error) {
	if !canonical(s) {
		return 0, fmt.Errorf("clock %.24q: %w", s, ErrSyntax)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	// A canonical integer can fail here only by being too large for an int64.
	if c := Clock(n); err == nil && c.Valid() {
		return c, nil
	}
	return 0, fmt.Errorf("clock %.24q: %w", s, ErrRange)
}

// UnmarshalJSON reads a JSON number by the rules of Parse, with its errors.
// Anything else, null too, is ErrSyntax. c is unchanged after an error.
// Clocks are written to JSON as numbers, as any int64 is.
func (c *Clock) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(string(data))
	if err != nil {
		return err
	}
	*c = parsed
	return nil
}

// canonical reports whether s is an integer of any size as strconv writes it.
func canonical(s string) bool {
	if s == "0" {
		return true
	}
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	if s == "" || s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
