// Package clock is the arithmetic of positions in a channel. Start from [Clock].
//
// A channel gives each message the next clock. Clocks form a ring: they are the integers from Min to Max, and Min
// follows Max. The bounds are those of the integers that a Lua script in Redis, whose numbers are 64-bit floats, can
// represent exactly.
//
// On a ring no clock is larger than another, so clocks must not be compared with < and >. Use [Distance], [Between] or
// [Behind]. All arithmetic on clocks in Go is in this package.
//
// Functions and methods require clocks for which Valid is true, and return only such clocks. Nothing here fails except
// parsing. All of it may be called by many goroutines.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package clock

import "iter"

// Clock is a position in a channel, not wall time. The zero value is the clock of a channel without messages.
type Clock int64

// Max is the largest clock, 2^53-1. Min, the smallest, follows it.
const (
	Max Clock = 1<<53 - 1
	Min Clock = -Max
)

const (
	// positions is the number of clocks. It is odd.
	positions = 1<<54 - 1
	// half is the longest distance at which a clock is behind another one.
	half = positions / 2
)

// Valid reports whether c is from Min to Max.
func (c Clock) Valid() bool { return Min <= c && c <= Max }

// Next returns the clock after c: c+1, or Min after Max.
func (c Clock) Next() Clock {
	if c == Max {
		return Min
	}
	return c + 1
}

// Add returns the clock n steps after c. It wraps: 2^54-1 steps lead back to c.
func (c Clock) Add(n uint64) Clock {
	sum := c + Clock(n%positions)
	if sum > Max {
		sum -= positions
	}
	return sum
}

// Sub returns the clock n steps before c. It wraps.
func (c Clock) Sub(n uint64) Clock {
	diff := c - Clock(n%positions)
	if diff < Min {
		diff += positions
	}
	return diff
}

// Distance returns the number of steps forward from one clock to another: 0 if they are equal, at most 2^54-2.
func Distance(from, to Clock) uint64 {
	d := to - from
	if d < 0 {
		d += positions
	}
	return uint64(d)
}

// Between reports whether c is in (mark, last]: after mark and not after last, going forward from mark. If mark and
// last are equal, no clock is.
func Between(mark, c, last Clock) bool {
	d := Distance(mark, c)
	return 0 < d && d <= Distance(mark, last)
}

// Behind reports whether c is mark or behind it: whether mark is at most 2^53-1 steps after c. The number of clocks is
// odd, so of two different clocks exactly one is behind the other. This is a guess about which clock is older: if the
// channel's last clock is known, use Between.
func Behind(c, mark Clock) bool { return Distance(c, mark) <= half }

// After returns the first max clocks of (mark, last], in order.
func After(mark, last Clock, max int) iter.Seq[Clock] {
	return func(yield func(Clock) bool) {
		c := mark
		for range max {
			if c == last {
				return
			}
			c = c.Next()
			if !yield(c) {
				return
			}
		}
	}
}
