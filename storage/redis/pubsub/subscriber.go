package pubsub

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// subscriber is one connection to one node, with the listeners of its topics. It is retired when it has ended or is
// crowded: too many of its topics, or of their messages, have no listener.
type subscriber struct {
	all     *Subscriptions
	address string
	client  rueidis.DedicatedClient
	ended   <-chan error // closed when the connection has ended
	closing sync.Once
	retired atomic.Bool
	failure atomic.Pointer[error] // reason for the connection's end; nil: it is open

	mu       sync.Mutex                 // locked before that of a subscription
	topics   map[string][]*subscription // values are replaced, not changed: they are read without the lock
	stale    map[string]struct{}        // subscribed, without listeners
	unwanted int                        // messages of stale topics
}

// mostStale limits the stale topics of a connection, and the messages of them, if it has fewer topics with listeners. A
// stale topic takes about 250 bytes of Redis's memory, so at most 1 MiB. A low limit costs commands: when a connection
// is retired, each of its topics with listeners is subscribed again.
const mostStale = 4096

func newSubscriber(address string, all *Subscriptions) *subscriber {
	return &subscriber{
		all: all, address: address, topics: map[string][]*subscription{}, stale: map[string]struct{}{},
	}
}

// connect opens the connection. The client must be closed, never released: that would unsubscribe.
func (at *subscriber) connect(node rueidis.Client) error {
	at.client, _ = node.Dedicate()
	at.ended = at.client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: at.deliver, OnSubscription: at.changed})
	select {
	case err := <-at.ended:
		at.close()
		return cmp.Or(err, errClosed)
	default:
		return nil
	}
}

// add adds a subscription, unless it is stopped.
func (at *subscriber) add(sub *subscription) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	if !sub.enter(at) {
		return false
	}
	delete(at.stale, sub.topic)
	at.topics[sub.topic] = append(slices.Clone(at.topics[sub.topic]), sub)
	return true
}

// remove removes a subscription. With the last one its topic becomes stale.
func (at *subscriber) remove(sub *subscription) {
	sub.exit(at)
	at.mu.Lock()
	remaining := slices.DeleteFunc(slices.Clone(at.topics[sub.topic]),
		func(other *subscription) bool { return other == sub })
	if len(remaining) > 0 {
		at.topics[sub.topic] = remaining
	} else {
		delete(at.topics, sub.topic)
		at.stale[sub.topic] = struct{}{}
	}
	crowded := at.crowded()
	at.mu.Unlock()
	if crowded {
		at.all.retire(at)
	}
}

// crowded reports whether the connection must be retired. The caller holds the lock.
func (at *subscriber) crowded() bool {
	return !at.retired.Load() && max(len(at.stale), at.unwanted) >= max(mostStale, len(at.topics))
}

func (at *subscriber) listeners(topic string) []*subscription {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.topics[topic]
}

// unneeded reports whether the connection is retired and has no listeners.
func (at *subscriber) unneeded() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.retired.Load() && len(at.topics) == 0
}

// retire marks the connection as retired and returns its listeners.
func (at *subscriber) retire() []*subscription {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.retired.Store(true)
	var all []*subscription
	for _, subs := range at.topics {
		all = append(all, subs...)
	}
	return all
}

// end marks the connection as ended.
func (at *subscriber) end(err error) {
	err = errors.Join(errClosed, err)
	at.failure.Store(&err)
}

// why returns the reason that the connection, or a subscription on it, has ended.
func (at *subscriber) why() error {
	if failure := at.failure.Load(); failure != nil {
		return *failure
	}
	return errMoved
}

// deliver passes a message to the listeners of its topic. The connection's reader calls it, one message after the
// other.
func (at *subscriber) deliver(m rueidis.PubSubMessage) {
	at.mu.Lock()
	subs, crowded := at.topics[m.Channel], false
	if len(subs) == 0 {
		at.unwanted++
		crowded = at.crowded()
	}
	at.mu.Unlock()
	if crowded {
		at.all.retire(at)
	}
	for _, sub := range subs {
		sub.deliver(at, m.Message)
	}
}

// changed ends subscriptions that Redis has ended because their slot moved. The connection's reader calls it.
func (at *subscriber) changed(s rueidis.PubSubSubscription) {
	if s.Kind != "sunsubscribe" {
		return
	}
	at.mu.Lock()
	delete(at.stale, s.Channel)
	subs := at.topics[s.Channel]
	at.mu.Unlock()
	for _, sub := range subs {
		sub.lose(at)
		at.all.wake(sub)
	}
}

// serves returns an error that names the primary of a topic's slot, if that is another node of a cluster. A node that
// becomes a replica ends its subscriptions, but a node that is a replica accepts new ones. It receives messages later
// than its primary, and can miss some.
func (at *subscriber) serves(ctx context.Context, topic string) error {
	err := at.client.Do(ctx, at.client.B().Exists().Key(topic).Build()).Error()
	if _, moved := MovedTo(err); moved {
		return err
	}
	return nil // subscribing finds any other error too
}

// flush returns when everything that Redis sent before has been delivered.
func (at *subscriber) flush(ctx context.Context) error {
	return at.client.Do(ctx, at.client.B().Ping().Build()).NonRedisError()
}

// close closes the connection, in another goroutine: the connection's reader may be the caller.
func (at *subscriber) close() {
	at.closing.Do(func() { go at.client.Close() })
}
