package redis

import (
	"context"

	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// nudgeFree is the text of a nudge of a director that has resigned.
const nudgeFree = "free"

// Watch subscribes to the queue's topic.
func (q *Queues) Watch(ctx context.Context, queue string, told func(free bool)) {
	stop := q.store.Conn.Listen(q.keys(queue).nudges(), pubsub.Listener{
		Confirmed: func() { told(true) },
		Message:   func(text string) { told(text == nudgeFree) },
		Repeats:   true,
	})
	defer stop()
	<-ctx.Done()
}
