// Package insight reports the longest waiting tickets of a queue and the reasons. [Reader] reads the waiting tickets,
// up to a bound, and [Examine] computes the [Report]. Package function decides whether tickets accept each other, as in
// a match.
package insight
