package redis

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/rueidis"
)

// subscriber is one connection to one node, on which topics are listened to. It ends when the connection does. It is
// retired when it has become crowded: too many of its topics or messages are of nobody. Then its listeners go over to
// another one, and the last to leave closes it.
type subscriber struct {
	address string
	client  rueidis.DedicatedClient
	ended   <-chan error  // closed when the connection has ended
	retired chan struct{} // closed under the lock of the subscriptions
	crowded func()        // called when the connection should be retired; must not block
	closing sync.Once

	mu       sync.Mutex
	topics   map[string][]*subscription // replaced when it changes, so that it can be read without the lock
	stale    map[string]struct{}        // subscribed, and listened to by nobody
	unwanted int                        // messages of stale topics
}

// mostStale bounds the stale topics of a connection, and their messages, where it has fewer topics that are listened to.
const mostStale = 1024

// newSubscriber opens a connection. The client must be closed and never released, which would unsubscribe.
func newSubscriber(address string, node rueidis.Client) (*subscriber, error) {
	client, _ := node.Dedicate()
	at := &subscriber{
		address: address, client: client, retired: make(chan struct{}), crowded: func() {},
		topics: map[string][]*subscription{}, stale: map[string]struct{}{},
	}
	at.ended = client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: at.deliver, OnSubscription: at.changed})
	select {
	case err := <-at.ended:
		at.close()
		return nil, err
	default:
		return at, nil
	}
}

func (at *subscriber) add(sub *subscription) {
	sub.enter(at)
	at.mu.Lock()
	defer at.mu.Unlock()
	delete(at.stale, sub.topic)
	at.topics[sub.topic] = append(slices.Clone(at.topics[sub.topic]), sub)
}

// remove takes a subscription out. Its topic becomes stale with the last one.
func (at *subscriber) remove(sub *subscription) {
	sub.exit(at)
	at.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(at.topics[sub.topic]), func(other *subscription) bool { return other == sub })
	if len(left) > 0 {
		at.topics[sub.topic] = left
	} else {
		delete(at.topics, sub.topic)
		at.stale[sub.topic] = struct{}{}
	}
	full := at.full()
	at.mu.Unlock()
	if full {
		at.crowded()
	}
}

// full reports whether the connection is crowded. The lock is held.
func (at *subscriber) full() bool {
	return max(len(at.stale), at.unwanted) >= max(mostStale, len(at.topics))
}

func (at *subscriber) listening() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return len(at.topics) > 0
}

// deliver is called by the connection's reader, one message after the other.
func (at *subscriber) deliver(m rueidis.PubSubMessage) {
	at.mu.Lock()
	subs, full := at.topics[m.Channel], false
	if len(subs) == 0 {
		at.unwanted++
		full = at.full()
	}
	at.mu.Unlock()
	if full {
		at.crowded()
	}
	for _, sub := range subs {
		sub.deliver(at, m.Message)
	}
}

// changed is called by the connection's reader. Redis ends subscriptions by itself where a slot has moved.
func (at *subscriber) changed(s rueidis.PubSubSubscription) {
	if s.Kind != "sunsubscribe" {
		return
	}
	at.mu.Lock()
	delete(at.stale, s.Channel)
	subs := at.topics[s.Channel]
	at.mu.Unlock()
	for _, sub := range subs {
		signal(sub.lost)
	}
}

// serves returns an error that names the primary of a topic's slot, if that is another node of a cluster. A node that
// becomes a replica ends its subscriptions, but one that is a replica takes new ones. It gets notifications some time
// after its primary has sent them, and can miss some.
func (at *subscriber) serves(ctx context.Context, topic string) error {
	err := at.client.Do(ctx, at.client.B().Exists().Key(topic).Build()).Error()
	if _, moved := movedTo(err); moved {
		return err
	}
	return nil // whatever else is wrong, subscribing finds it too
}

// flush returns when all that Redis sent before has been delivered.
func (at *subscriber) flush(ctx context.Context) error {
	return at.client.Do(ctx, at.client.B().Ping().Build()).NonRedisError()
}

// close ends the connection. It must not be called by the connection's reader.
func (at *subscriber) close() {
	at.closing.Do(at.client.Close)
}
