// Package storagetest has the common parts of the conformance suites of stores.
//
// A suite, such as storagetest/channeltest, has a table of [Case] and a function Run that calls [Run]; each case has a
// store of its own. The test of a store in Redis calls the suite's Run on each kind of Redis, by [Each].
package storagetest
