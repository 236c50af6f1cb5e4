// Package recordstest is the conformance suites of the stores of records: [RunSessions], [RunSettings], [RunTokens],
// [RunCounters] and [RunCache]. Each case runs on a harness of its own: a store that no other case uses, with direct
// access to its data.
package recordstest
