// Package channel is the durable publish/subscribe layer.
//
// A channel is a named, ordered log of messages. Every publish advances the channel's clock by one and stores its
// message at that clock. A subscriber is a named mark on the clock: it reads the messages after its mark, and moves the
// mark by acknowledging a receipt handle.
//
//	publish ──► clock 1   2   3   4   5        the channel's clock is 5
//	                      ▲       ▲
//	                      │       └ receipt: "everything up to 4", returned by a fetch
//	                      └ mark: acknowledged up to 2; the next fetch starts at 3
//
// Start from [Service], which many goroutines may use at the same time. It checks names and sizes, finds a channel's
// [Policy], signs and verifies receipts, and lets fetches wait. What clients are told when a call fails is an error of
// package fault. Channels are kept by a [Store], such as storage/redis/channels.
//
// Package waiting wakes the fetches that wait.
package channel
