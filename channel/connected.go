package channel

import (
	"slices"
	"strings"
	"time"
)

// Connected is who waits on a channel at this server now: a page of its subscribers, and how many waits and streams it
// has in all. Other servers are not asked.
type Connected struct {
	Connections
	Tails       int                   // of the connections, those without a subscriber
	Subscribers []ConnectedSubscriber // by name
	Next        string                // the cursor of the next page; empty: this is the last
}

// Connections are numbers of open connections by their kind. One with several sources counts for each of them.
type Connections struct {
	Polls   int // fetches that wait
	Streams int // streams of server-sent events
	Sockets int // subscriptions of WebSockets
}

// ConnectedSubscriber is a subscriber with a connection.
type ConnectedSubscriber struct {
	Name string
	Connections
	Since time.Time // when the oldest of them began to wait
}

func (c *Connections) add(w *waiter) {
	switch {
	case w.socket:
		c.Sockets++
	case w.streams:
		c.Streams++
	default:
		c.Polls++
	}
}

// Connected returns the subscribers that wait on a channel, whose names come after a cursor, limit of them at most. It
// reads nothing from the store. Errors: fault.SlugInvalidChannel.
func (s *Service) Connected(channel, after string, limit int) (Connected, error) {
	if err := CheckChannel(channel); err != nil {
		return Connected{}, err
	}
	var c Connected
	var named []*member
	for _, m := range s.hub.members(channel) {
		c.add(m.waiter)
		switch {
		case m.subscriber == "":
			c.Tails++
		case m.subscriber > after:
			named = append(named, m)
		}
	}
	slices.SortFunc(named, func(a, b *member) int { return strings.Compare(a.subscriber, b.subscriber) })
	for _, m := range named {
		n := len(c.Subscribers)
		if n == 0 || c.Subscribers[n-1].Name != m.subscriber {
			if n == limit {
				c.Next = c.Subscribers[n-1].Name
				break
			}
			c.Subscribers, n = append(c.Subscribers, ConnectedSubscriber{Name: m.subscriber, Since: m.waiter.since}), n+1
		}
		subscriber := &c.Subscribers[n-1]
		subscriber.add(m.waiter)
		if m.waiter.since.Before(subscriber.Since) {
			subscriber.Since = m.waiter.since
		}
	}
	return c, nil
}

// members returns the members of a channel's topic now. Only what never changes in them may be read.
func (h *hub) members(channel string) []*member {
	h.mu.Lock()
	e := h.topics[channel]
	h.mu.Unlock()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.members)
}
