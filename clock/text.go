package clock

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors of Parse and UnmarshalJSON. They come wrapped: use errors.Is.
var (
	// ErrSyntax reports text that isn't an integer in canonical form.
	ErrSyntax = errors.New("not an integer in plain decimal form")
	// ErrRange reports an integer outside Min to Max.
	ErrRange = errors.New("outside -(2^53-1) to 2^53-1")
)

// String returns c in decimal.
func (c Clock) String() string { return strconv.FormatInt(int64(c), 10) }

// Parse parses the output of String: no plus sign, leading zero, "-0", fraction, exponent or space. The error is
// ErrSyntax, or ErrRange for an integer outside the range of clocks.
func Parse(s string) (Clock, error) {
	if !canonical(s) {
		return 0, fmt.Errorf("clock %.24q: %w", s, ErrSyntax)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	// ParseInt fails on a canonical integer only if it is too large.
	if c := Clock(n); err == nil && c.Valid() {
		return c, nil
	}
	return 0, fmt.Errorf("clock %.24q: %w", s, ErrRange)
}

// UnmarshalJSON parses a JSON number as Parse does, with its errors. Anything else, null included, is ErrSyntax. After
// an error c is unchanged. Clocks are marshaled as numbers.
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
