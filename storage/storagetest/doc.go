// Package storagetest is the one conformance suite that every channel.Store passes.
//
// A store's test hands Run a function that makes a Harness: a store of its own, and a way behind it to do what
// only time and accidents do otherwise, such as letting messages expire or bringing a clock close to its wrap.
//
//	func TestConformance(t *testing.T) {
//		t.Parallel()
//		storagetest.Run(t, func(t testing.TB) storagetest.Harness { return newHarness(t) })
//	}
//
// Each case states one rule. A rule that depends on clocks is tried at several starts: on a new channel, across
// zero, where numbers get their 15th digit, and over the wrap. Where a case fails, its output also says what a
// user of the service would notice.
package storagetest
