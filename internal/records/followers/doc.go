// Package followers maps users to the notification channels that they follow, and channels to their followers, by the
// follow lists in the cache. Start from [New].
//
// # Copies
//
// For channels whose rule has deliver: copies, each message is copied to the followers of the channel's author, topic
// or publication.
//
// A publish announces its channel in a small set first, and makes the subscriber [Subscriber] there. A [Job], which
// runs in one process at a time, reads the channels of the set as that subscriber, publishes each message on the
// channel of each follower under the same ID, and acknowledges it when all have it:
//
//	publish ──► announce ──► subscribe ──► publish on the topic's channel
//	                │                            │
//	               Job ◄─────────────────────────┘
//	                └──► fetch ──► publish on notifications:<follower>, for each ──► acknowledge ──► settle
//
// After a crash at any step, the job begins again with the unacknowledged messages. The channel of a follower that
// already has a message drops the copy as a duplicate. A channel leaves the set when no message is left to fetch and
// its last announcement is so old that the publish has ended; a later announcement keeps it there.
package followers
