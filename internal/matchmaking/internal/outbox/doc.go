// Package outbox publishes assignments from a queue's outbox, where the step that assigns a match stores them, on the
// channels of their tickets. Start at [Relay], one for all queues of a server, and [Queue], its part for one queue.
// Each assignment is published at least once, under a message ID that makes repetitions harmless, and only then removed
// from the outbox. Failures are retried by the backstop of the queue, on this server or on another.
package outbox
