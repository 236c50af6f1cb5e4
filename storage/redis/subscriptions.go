package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"
)

// subscriptions holds what a store listens to: one connection to each node, beside the connection for commands, so that
// Redis's limits on the output buffers of subscribers don't apply to commands.
//
// No connection ever unsubscribes. After each UNSUBSCRIBE rueidis sends a PING, and it ends the process where the reply
// to that PING is an error that it doesn't expect, such as MISCONF or MASTERDOWN. A topic that nobody listens to any more
// stays subscribed, as stale, until its connection is replaced: see subscriber.
type subscriptions struct {
	client  rueidis.Client
	dialing singleflight.Group
	dials   sync.WaitGroup

	mu     sync.Mutex
	nodes  map[string]*subscriber // by address: where new topics are subscribed
	owners map[uint16]string      // addresses by slot, where Redis has named them
	closed bool
}

// Why a subscription ends by itself.
var (
	errSubscriber = errors.New("the connection of the subscription has ended")
	errSlotMoved  = errors.New("the node doesn't serve the topic's slot any more")
)

func newSubscriptions(client rueidis.Client) *subscriptions {
	return &subscriptions{client: client, nodes: map[string]*subscriber{}, owners: map[uint16]string{}}
}

// receive subscribes to a topic and returns when the subscription has ended or ctx has: then with ctx's error. The
// callbacks must be quick: the messages of all topics of a node come one after the other.
func (s *subscriptions) receive(ctx context.Context, topic string, r receiver) error {
	sub := &subscription{topic: topic, message: r.message, repeats: r.repeats, lost: make(chan struct{}, 1)}
	at, err := s.subscribe(ctx, sub)
	if err != nil {
		return err
	}
	r.confirmed()
	for {
		select {
		case <-ctx.Done():
			s.leave(at, sub)
			return ctx.Err()
		case <-sub.lost:
			s.leave(at, sub)
			return errSlotMoved
		case err := <-at.ended: // of which only one listener gets the error
			s.leave(at, sub)
			return errors.Join(errSubscriber, err)
		case <-at.retired:
			if at, err = s.handOver(ctx, at, sub); err != nil {
				return err
			}
		}
	}
}

// handOver moves a subscription from a connection that is retired to the one after it. A PING tells when a connection has
// brought all that Redis sent there before.
func (s *subscriptions) handOver(ctx context.Context, old *subscriber, sub *subscription) (*subscriber, error) {
	next, err := s.subscribe(ctx, sub)
	if err == nil {
		err = old.flush(ctx)
	}
	if err != nil {
		s.leave(old, sub)
		if next != nil {
			s.leave(next, sub)
		}
		return nil, err
	}
	sub.goOver()
	s.leave(old, sub)
	defer sub.settle()
	if err := next.flush(ctx); err != nil {
		s.leave(next, sub)
		return nil, err
	}
	return next, nil
}

// subscribe adds a subscription to the connection of its node, and returns when Redis has confirmed it. It goes on to
// another node of a cluster at once where Redis names one.
func (s *subscriptions) subscribe(ctx context.Context, sub *subscription) (*subscriber, error) {
	command := s.client.B().Ssubscribe().Channel(sub.topic).Build() // only for its slot
	slot := command.Slot()
	at, err := s.subscribeAt(ctx, s.owner(slot), sub)
	if address, moved := movedTo(err); moved {
		s.learn(slot, address)
		return s.subscribeAt(ctx, address, sub)
	}
	return at, err
}

// movedTo returns the address of the node that an error names as a slot's owner.
func movedTo(err error) (address string, moved bool) {
	var refusal *rueidis.RedisError
	if !errors.As(err, &refusal) || len(strings.Fields(refusal.Error())) != 3 { // IsMoved relies on them
		return "", false
	}
	return refusal.IsMoved()
}

func (s *subscriptions) subscribeAt(ctx context.Context, address string, sub *subscription) (*subscriber, error) {
	at, err := s.subscriber(ctx, address)
	if err != nil {
		return nil, err
	}
	if s.client.Mode() == rueidis.ClientModeCluster {
		if err := at.serves(ctx, sub.topic); err != nil {
			return nil, err
		}
	}
	at.add(sub)
	if err := at.client.Do(ctx, at.client.B().Ssubscribe().Channel(sub.topic).Build()).Error(); err != nil {
		s.leave(at, sub)
		return nil, err
	}
	return at, nil
}

// owner returns the address of the node that is known to serve a slot, or of any node.
func (s *subscriptions) owner(slot uint16) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owners[slot]
}

func (s *subscriptions) learn(slot uint16, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[slot] = address
}

// subscriber returns the connection to the node at an address, or to any node where none is there, and makes it where
// it is missing.
func (s *subscriptions) subscriber(ctx context.Context, address string) (*subscriber, error) {
	nodes := s.client.Nodes()
	if at := s.existing(nodes, address); at != nil {
		return at, nil
	}
	if nodes[address] == nil {
		for address = range nodes { // any
			break
		}
	}
	dialed := s.dialing.DoChan(address, func() (any, error) { return s.dial(address, nodes[address]) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case d := <-dialed:
		if d.Err != nil {
			return nil, d.Err
		}
		return d.Val.(*subscriber), nil
	}
}

// existing returns the connection to the node at an address, or to any node where none is there; nil: dial one.
func (s *subscriptions) existing(nodes map[string]rueidis.Client, address string) *subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	if nodes[address] != nil {
		return s.nodes[address]
	}
	for address, at := range s.nodes {
		if nodes[address] != nil {
			return at
		}
	}
	return nil
}

func (s *subscriptions) dial(address string, node rueidis.Client) (*subscriber, error) {
	if node == nil || !s.beginDial() {
		return nil, rueidis.ErrClosing
	}
	defer s.dials.Done()
	if at := s.existing(map[string]rueidis.Client{address: node}, address); at != nil {
		return at, nil // made by a dial that ended just now
	}
	at, err := newSubscriber(address, node)
	if err != nil {
		return nil, err
	}
	at.crowded = func() { s.retire(at) }
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[address] = at
	time.AfterFunc(watchEvery, func() { s.check(at) })
	return at, nil
}

func (s *subscriptions) beginDial() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.dials.Add(1)
	return true
}

// leave ends a subscription on a connection, and closes a connection that nobody needs any more.
func (s *subscriptions) leave(at *subscriber, sub *subscription) {
	at.remove(sub)
	s.closeUnneeded(at)
}

// watchEvery is how often a connection is checked.
const watchEvery = time.Second

// check ends a connection whose node the client has left, as after a fail-over by Sentinel: notifications are sent
// elsewhere then.
func (s *subscriptions) check(at *subscriber) {
	if s.client.Nodes()[at.address] == nil {
		s.retire(at)
		at.close()
	}
	if !s.closeUnneeded(at) {
		time.AfterFunc(watchEvery, func() { s.check(at) })
	}
}

// retire makes the listeners of a connection go over to a new one.
func (s *subscriptions) retire(at *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[at.address] == at {
		delete(s.nodes, at.address)
		close(at.retired)
	}
}

// closeUnneeded closes a connection that has ended, or is retired and has no listeners. It reports whether it did.
func (s *subscriptions) closeUnneeded(at *subscriber) bool {
	select {
	case <-at.ended: //nolint:errcheck // it only says why the connection has ended
		s.retire(at)
	case <-at.retired:
		if at.listening() {
			return false
		}
	default:
		return false
	}
	at.close()
	return true
}

// close ends all connections, and with them what is received.
func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.dials.Wait()
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.nodes))
	s.mu.Unlock()
	for _, at := range open {
		s.retire(at)
		at.close()
	}
}
