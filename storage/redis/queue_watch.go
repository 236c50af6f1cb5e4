package redis

import "context"

// nudgeFree is the text of a nudge that says that a director has resigned.
const nudgeFree = "free"

// Watch subscribes to the queue's topic, again and again until ctx ends. Before each subscription but the first it runs a
// command on a key of the queue, from which the client learns the slot's new owner.
func (q *Queues) Watch(ctx context.Context, queue string, told func(free bool)) {
	s, k := q.store, q.keys(queue)
	wait := newBackOff()
	for again := false; ctx.Err() == nil; again = true {
		if again {
			err := s.retry(ctx, "watch", func(ctx context.Context) error {
				return s.client.Do(ctx, s.client.B().Exists().Key(k.director()).Build()).Error()
			})
			if err != nil {
				s.pause(ctx, wait.NextBackOff())
				continue
			}
		}
		err := s.receive(ctx, k.nudges(), receiver{
			confirmed: func() {
				wait.Reset()
				told(true)
			},
			message: func(text string) { told(text == nudgeFree) },
			repeats: true,
		})
		if ctx.Err() == nil {
			s.metrics.resubscribed()
			s.logger.DebugContext(ctx, "watching was interrupted", "queue", queue, "error", err)
			s.pause(ctx, wait.NextBackOff())
		}
	}
}
