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
// [Policy], signs and verifies receipts, and lets fetches wait: fetch.go has the fetch from one channel, many.go and
// shares.go the fetch from several. Errors for clients are of package fault. Channels are
// kept by a [Store], such as storage/redis/channels.
//
// # How a fetch waits
//
// A fetch that found nothing sleeps at the positions that it read, until something happens there (wait.go):
//
//	join ─► prepare ─► read ─► sleep ─┬─► messages   each the next one after a position
//	           ▲                      ├─► wake-ups   for anything else that is new, and for every confirmation;
//	           └──────────────────────┘              only the channels concerned are read again
//	                                  └─► nothing    the time is over, the context ended, or the hub drained
//
// The hub (hub.go) has a topic for each channel on which a fetch waits, and the fetch is a member of the topics of its
// channels (topic.go). The store calls a topic with the channel's events. The topic wakes the members that an event
// concerns, usually with the message itself, so that they needn't read.
//
// No wake-up is lost: an event between a member's prepare and its sleep counts as if the member had slept already. No
// fetch spins: only events after its prepare wake a member. After each confirmation every member reads once, from a
// later prepare, and so finds what it missed before: a message, a removal or a fail-over.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package channel
