// Package pubsub listens to topics of sharded publish/subscribe: with one connection to each node, however many topics
// are listened to there, and no goroutine per topic.
//
// Start from [Subscriptions.Listen], which keeps a subscription until it is stopped. Whenever Redis ends it, because
// the connection was lost or the topic's slot moved, Listen subscribes again and calls [Listener.Confirmed]: messages
// can be lost before that call, and none after it until the next interruption.
//
// # Connections
//
// The connections are separate from those for commands, so that Redis's limits on the output buffers of subscribers
// don't apply to commands. In a Cluster topics are subscribed at primaries only: a replica accepts subscriptions too,
// but its messages may be late or missing.
//
// No connection ever unsubscribes. After each UNSUBSCRIBE rueidis sends a PING, and it ends the process if the reply to
// that PING is an error that it doesn't expect, such as MISCONF or MASTERDOWN. A topic without listeners stays
// subscribed, as stale. If there are many stale topics, or many messages of them, the connection is retired: its
// listeners switch to a new one, without an interruption, and the last of them closes it.
package pubsub
