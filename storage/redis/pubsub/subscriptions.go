package pubsub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"
)

// Subscriptions is the connections of one client to the nodes that it listens to. It may be used by many goroutines.
type Subscriptions struct {
	client  rueidis.Client
	backOff func() backoff.BackOff
	locate  Locate
	ctx     context.Context //nolint:containedctx // of the goroutines that subscribe, which no call waits for
	cancel  context.CancelFunc
	dialing singleflight.Group
	working sync.WaitGroup // the goroutines of attend and watch

	mu     sync.Mutex
	nodes  map[string]*subscriber   // by address: where new topics are subscribed
	open   map[*subscriber]struct{} // those, and retired ones that still have listeners
	owners map[uint16]string        // addresses by slot, as Redis has named them
	closed bool
}

// Errors of subscriptions that Redis has ended.
var (
	errClosed = errors.New("the connection of the subscription was closed")
	errMoved  = errors.New("the topic's slot has moved")
)

// Listener handles the messages of a topic. Its functions are called one after the other, by different goroutines. They
// must not block, since the messages of all topics of a node are delivered one after the other, and must not call stop.
type Listener struct {
	Confirmed   func()            // Redis has confirmed the subscription: no message is lost from now on
	Message     func(text string) // a message arrived; the first may arrive before Confirmed is called
	Interrupted func(err error)   // subscribing failed, or the subscription ended; Listen tries again; may be nil
	Repeats     bool              // messages may have the same text; then some may be delivered twice, but all are
}

// Locate returns the address of the node that serves a key of a Cluster now, or "" if no node says that.
type Locate func(ctx context.Context, key string) (address string)

// New returns subscriptions at the nodes of a client, which must not retry by itself. backOff returns the pauses
// between attempts to subscribe to a topic; locate is called if a node of a Cluster is gone. Close ends everything that
// calls of Listen have started.
func New(ctx context.Context, client rueidis.Client, backOff func() backoff.BackOff, locate Locate) *Subscriptions {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &Subscriptions{
		client: client, backOff: backOff, locate: locate, ctx: ctx, cancel: cancel,
		nodes: map[string]*subscriber{}, open: map[*subscriber]struct{}{}, owners: map[uint16]string{},
	}
}

// Listen subscribes to a topic until stop is called, and returns at once. After stop has returned l isn't called any
// more. After Close it only calls l.Interrupted.
func (s *Subscriptions) Listen(topic string, l Listener) (stop func()) {
	sub := &subscription{topic: topic, listener: l}
	if !s.wake(sub) {
		sub.interrupted(rueidis.ErrClosing)
	}
	return func() {
		for _, at := range sub.stop() {
			s.leave(at, sub)
		}
	}
}

// Listeners returns the number of listeners of a topic.
func (s *Subscriptions) Listeners(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for at := range s.open {
		n += len(at.listeners(topic))
	}
	return n
}

// Close closes all connections. Listeners aren't called any more when it returns.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	s.cancel()
	for _, at := range open {
		at.close()
	}
	s.working.Wait()
}

// start calls f in a goroutine and returns true, unless the subscriptions are closed.
func (s *Subscriptions) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.working.Go(f)
	}
	return !s.closed
}

// wake makes attend check a subscription. It returns false if the subscriptions are closed.
func (s *Subscriptions) wake(sub *subscription) bool {
	ctx, cancel := context.WithCancel(s.ctx)
	if !sub.attend(cancel) {
		cancel()
		return true
	}
	started := s.start(func() {
		defer cancel()
		s.attend(ctx, sub)
	})
	if !started {
		cancel()
	}
	return started
}

// attend works until a subscription is subscribed on a connection that isn't retired, or is stopped. No more than one
// goroutine runs attend for a subscription.
func (s *Subscriptions) attend(ctx context.Context, sub *subscription) {
	var wait backoff.BackOff // made when an attempt has failed
	for again := false; ctx.Err() == nil; {
		at, what := sub.plan()
		var err error
		switch what {
		case planNothing:
			return
		case planSwitch:
			err = s.handOver(ctx, at, sub)
		case planLeave:
			s.leave(at, sub)
			err = at.why()
		case planSubscribe:
			err = s.confirm(ctx, sub, again || sub.before)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if again = true; wait == nil {
			wait = s.backOff()
		}
		sub.interrupted(err)
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// confirm subscribes. Before each attempt but the first it finds the node that serves the topic.
func (s *Subscriptions) confirm(ctx context.Context, sub *subscription, again bool) error {
	if again {
		if err := s.find(ctx, sub.topic); err != nil {
			return err
		}
	}
	if _, err := s.subscribe(ctx, sub); err != nil {
		return err
	}
	sub.confirmed()
	return nil
}

// find runs a command with a topic as its key, from which the client learns the new node of a slot that has moved. If
// the node that the client asks is gone, another one says which node serves the slot.
func (s *Subscriptions) find(ctx context.Context, topic string) error {
	command := s.client.B().Exists().Key(topic).Build()
	slot := command.Slot()
	result := s.client.Do(ctx, command)
	lost := result.NonRedisError()
	if lost == nil || s.client.Mode() != rueidis.ClientModeCluster {
		return result.Error()
	}
	address := s.locate(ctx, topic)
	if address == "" {
		return lost
	}
	s.learn(slot, address)
	return nil
}

// handOver moves a subscription from a retired connection to the new one of its node. The reply to a PING shows that a
// connection has delivered everything that Redis sent before.
func (s *Subscriptions) handOver(ctx context.Context, old *subscriber, sub *subscription) error {
	next, err := s.subscribe(ctx, sub)
	if err == nil {
		err = old.flush(ctx)
	}
	if err != nil {
		s.leave(old, sub)
		if next != nil {
			s.leave(next, sub)
		}
		return err
	}
	sub.switchOver()
	s.leave(old, sub)
	defer sub.finish()
	if err := next.flush(ctx); err != nil {
		s.leave(next, sub)
		return err
	}
	return nil
}

// subscribe adds a subscription to the connection of its node, and returns when Redis has confirmed it. If Redis
// names another node of a cluster, it subscribes there at once.
func (s *Subscriptions) subscribe(ctx context.Context, sub *subscription) (*subscriber, error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		return s.subscribeAt(ctx, "", sub)
	}
	command := s.client.B().Ssubscribe().Channel(sub.topic).Build() // only to compute the slot
	slot := command.Slot()
	at, err := s.subscribeAt(ctx, s.owner(slot), sub)
	if address, moved := MovedTo(err); moved {
		s.learn(slot, address)
		return s.subscribeAt(ctx, address, sub)
	}
	return at, err
}

// MovedTo returns the address of the node that an error names as a slot's owner.
func MovedTo(err error) (address string, moved bool) {
	var refusal *rueidis.RedisError
	if !errors.As(err, &refusal) || len(strings.Fields(refusal.Error())) != 3 { // IsMoved relies on them
		return "", false
	}
	return refusal.IsMoved()
}

func (s *Subscriptions) subscribeAt(ctx context.Context, address string, sub *subscription) (*subscriber, error) {
	at, err := s.subscriber(ctx, address)
	if err != nil {
		return nil, err
	}
	if s.client.Mode() == rueidis.ClientModeCluster {
		if err := at.serves(ctx, sub.topic); err != nil {
			return nil, err
		}
	}
	if !at.add(sub) {
		return nil, context.Canceled
	}
	if err := at.client.Do(ctx, at.client.B().Ssubscribe().Channel(sub.topic).Build()).Error(); err != nil {
		s.leave(at, sub)
		return nil, err
	}
	return at, nil
}

// owner returns the address of the node that is known to serve a slot, or "".
func (s *Subscriptions) owner(slot uint16) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owners[slot]
}

func (s *Subscriptions) learn(slot uint16, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[slot] = address
}
