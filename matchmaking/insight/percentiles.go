package insight

import (
	"cmp"
	"slices"
	"time"
)

// Percentiles are percentiles of values, by nearest rank.
type Percentiles[T cmp.Ordered] struct {
	P50, P90, P99, Max T
}

// Waits are percentiles of the waiting times of tickets.
type Waits = Percentiles[time.Duration]

// PercentilesOf returns the percentiles of the values, by nearest rank, and sorts the values. Without values all are 0.
func PercentilesOf[T cmp.Ordered](values []T) (p Percentiles[T]) {
	if len(values) == 0 {
		return p
	}
	slices.Sort(values)
	at := func(percent int) T { return values[(len(values)*percent+99)/100-1] }
	return Percentiles[T]{P50: at(50), P90: at(90), P99: at(99), Max: values[len(values)-1]}
}
