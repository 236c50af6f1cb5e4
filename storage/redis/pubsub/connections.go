package pubsub

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// subscriber returns the connection to the node at an address, or to any node if none is there. It connects if there is
// no connection yet.
func (s *Subscriptions) subscriber(ctx context.Context, address string) (*subscriber, error) {
	if at := s.single(); at != nil {
		return at, nil
	}
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

// single returns the connection to a Redis that has one node, which never changes; nil if there is no connection or
// Redis can have several nodes. It doesn't allocate, whereas the client creates a map of its nodes for each call.
func (s *Subscriptions) single() *subscriber {
	if s.client.Mode() != rueidis.ClientModeStandalone {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.nodes {
		return at
	}
	return nil
}

// existing returns the connection to the node at an address, or to any node if none is there; nil if there is none.
func (s *Subscriptions) existing(nodes map[string]rueidis.Client, address string) *subscriber {
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

func (s *Subscriptions) dial(address string, node rueidis.Client) (*subscriber, error) {
	if node == nil {
		return nil, rueidis.ErrClosing
	}
	if at := s.existing(map[string]rueidis.Client{address: node}, address); at != nil {
		return at, nil // made by a dial that ended just now
	}
	at := newSubscriber(address, s)
	if err := at.connect(node); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		at.close()
		return nil, rueidis.ErrClosing
	}
	s.nodes[address], s.open[at] = at, struct{}{}
	s.working.Go(func() { s.watch(at) })
	return at, nil
}

// leave removes a subscription from a connection, and closes the connection if it is not needed any more.
func (s *Subscriptions) leave(at *subscriber, sub *subscription) {
	at.remove(sub)
	if at.unneeded() {
		at.close()
	}
}

// watchEvery is how often a connection is checked.
const watchEvery = time.Second

// watch wakes the listeners of a connection when it has ended. It ends a connection to a node that the client no longer
// uses, such as after a fail-over by Sentinel: messages are published on another node then.
func (s *Subscriptions) watch(at *subscriber) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-at.ended:
			at.end(err)
			s.retire(at)
			s.mu.Lock()
			delete(s.open, at)
			s.mu.Unlock()
			at.close()
			return
		case <-tick.C:
			if s.client.Nodes()[at.address] == nil {
				at.close()
			}
		}
	}
}

// retire makes the listeners of a connection switch to a new one.
func (s *Subscriptions) retire(at *subscriber) {
	s.mu.Lock()
	if s.nodes[at.address] == at {
		delete(s.nodes, at.address)
	}
	s.mu.Unlock()
	for _, sub := range at.retire() {
		s.wake(sub)
	}
	if at.unneeded() {
		at.close()
	}
}
