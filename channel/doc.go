// Package channel is the durable publish/subscribe layer: names, messages, policies, the store's interface and
// the service that publishes, fetches, acknowledges and waits.
//
// A channel is a named, ordered log of messages. Every publish moves the channel's clock one step and puts its
// message there. A subscriber is a named mark on that clock: it reads what stands after its mark, and moves the
// mark by acknowledging a receipt handle.
//
//	publish ──► clock 1   2   3   4   5        the channel's clock is 5
//	                      ▲       ▲
//	                      │       └ receipt: "everything up to 4", handed out by a fetch
//	                      └ mark: acknowledged up to 2; the next fetch starts at 3
//
// The package decides what is valid and what an outcome means. How channels are kept is the store's matter
// (storage/redis), and how an outcome is told to a client is the server's.
package channel
