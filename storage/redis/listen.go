package redis

import "github.com/tidemark-dev/tidemark/storage/redis/pubsub"

// Listen subscribes to a topic until stop is called, and returns at once. It subscribes again whenever the subscription
// ends: see package pubsub. A topic must have a hash tag; it may have any number of listeners. After stop has returned
// l isn't called any more.
func (c *Conn) Listen(topic string, l pubsub.Listener) (stop func()) {
	interrupted := l.Interrupted
	l.Interrupted = func(err error) {
		c.metrics.resubscribed()
		c.logger.Debug("listening was interrupted", "topic", topic, "error", err)
		if interrupted != nil {
			interrupted(err)
		}
	}
	return c.subscriptions.Listen(topic, l)
}
