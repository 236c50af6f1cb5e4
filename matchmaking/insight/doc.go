// Package insight reports who waits long in a queue, and why. [Reader] reads the waiting tickets, up to a bound, and
// [Examine] computes the [Report]. Whether tickets accept each other is decided by package function, as in a match.
package insight
