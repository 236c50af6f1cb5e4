// Package clock is the arithmetic of positions in a channel.
//
// A channel gives each of its messages the next clock. The clocks form a ring:
// an integer from Min to Max, and after Max comes Min. The bounds are those of
// the integers that a Lua script in Redis, whose numbers are 64-bit floats,
// can count without loss.
//
// On a ring no clock is larger than another by itself, so clocks must not be
// compared with < and >. Ask for the Distance from one to the other, or whether
// one lies Between two others. All arithmetic on clocks in Go is in this package.
//
// Functions and methods expect clocks for which Valid is true, and return only
// such clocks. What they return for other values is not specified. All of them
// may be called from any number of goroutines.
package clock

import "iter"

// Clock is a position in a channel: an integer from Min to Max that wraps.
// It is not wall time. The zero value is the clock of a channel that has no
// message yet.
type Clock int64

// Max is the largest clock, 2^53-1; Min, the smallest, comes after it.
const (
	Max Clock = 1<<53 - 1
	Min Clock = -Max
)

const (
	// positions is how many clocks there are. It is odd.
	positions = 1<<54 - 1
	// half is the longest distance that still counts as behind.
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

// Add returns the clock n steps forward from c. It wraps; there are 2^54-1
// clocks, and so many steps lead back to c.
func (c Clock) Add(n uint64) Clock {
	sum := c + Clock(n%positions)
	if sum > Max {
		sum -= positions
	}
	return sum
}

// Sub returns the clock n steps back from c. It wraps as Add does.
func (c Clock) Sub(n uint64) Clock {
	diff := c - Clock(n%positions)
	if diff < Min {
		diff += positions
	}
	return diff
}

// Distance returns how many steps lead forward from one clock to another:
// 0 where they are the same, at most 2^54-2.
func Distance(from, to Clock) uint64 {
	d := to - from
	if d < 0 {
		d += positions
	}
	return uint64(d)
}

// Between reports whether c is in (mark, last]: after mark and not after last,
// going forward from mark. Nothing is between where mark and last are the same.
func Between(mark, c, last Clock) bool {
	d := Distance(mark, c)
	return 0 < d && d <= Distance(mark, last)
}

// Behind reports whether c is at or behind mark by the half-range rule: c is
// mark, or the way forward from c to mark is at most 2^53-1 steps. The number
// of clocks is odd, so of two different clocks exactly one is behind the other.
//
// The rule can only guess which clocks are old: where the channel's last clock
// is known, ask Between first.
func Behind(c, mark Clock) bool { return Distance(c, mark) <= half }

// After returns the clocks in (mark, last] in order, going forward from mark,
// but no more than the first max of them. A max of 0 or less gives none.
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
