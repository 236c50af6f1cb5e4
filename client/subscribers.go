package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
)

// From is the start of a new subscriber: Latest, Earliest, or After a clock.
type From struct {
	start start
	clock clock.Clock // of startAfter
}

// start is the kind of a From.
type start int

const (
	startLatest start = iota
	startEarliest
	startAfter
)

// The starts of new subscribers.
var (
	Latest   = From{}                     // after all messages published so far
	Earliest = From{start: startEarliest} // with the oldest message alive
)

// After is the start after the message with a clock.
func After(at clock.Clock) From { return From{start: startAfter, clock: at} }

// MarshalJSON returns "latest", "earliest" or a clock.
func (f From) MarshalJSON() ([]byte, error) {
	switch f.start {
	case startAfter:
		return json.Marshal(f.clock)
	case startEarliest:
		return []byte(`"earliest"`), nil
	case startLatest:
	}
	return []byte(`"latest"`), nil
}

// Subscription is the outcome of Subscribe. Created is false if the subscriber existed: its mark was not moved then. If
// an answer was lost and the call was retried, it can be false for a subscriber that the call created.
type Subscription struct {
	Channel    string      `json:"channel"`
	Subscriber string      `json:"subscriber"`
	Created    bool        `json:"created"` // false: it existed, and its mark was not moved
	Epoch      string      `json:"epoch"`   // of the channel
	Mark       clock.Clock `json:"mark"`    // the next fetch starts after it
}

// FetchOptions are the options of a fetch.
type FetchOptions struct {
	Max  int           // most messages; 0: the service's default
	Wait time.Duration // how long to wait for a message if there is none, at most the limit in Info; 0: don't wait
}

// Delivery is the result of a fetch. Its ReceiptHandle acknowledges all of Messages, and the Expired, Purged and
// Damaged ones; it is empty if there is nothing to acknowledge. More reports whether there is more to fetch now, and
// Lost whether the channel has lost the history of the request's LastReceiptHandle.
type Delivery struct {
	Messages      []Message `json:"messages"`                // in clock order; empty if there is nothing new
	ReceiptHandle string    `json:"receiptHandle,omitempty"` // acknowledges all of it; left out if there is nothing to acknowledge
	More          bool      `json:"more"`                    // there is more to fetch now
	Expired       uint64    `json:"expired"`                 // number of messages that expired unread and are skipped
	Purged        uint64    `json:"purged,omitempty"`        // number of messages that an operator purged before they were read
	Damaged       uint64    `json:"damaged,omitempty"`       // number of messages that are damaged and are skipped
	// Lost is set if the channel doesn't have the history of the request's LastReceiptHandle any more.
	Lost bool `json:"lost,omitempty"`
	// Closed is set if the channel is closed, and the subscriber gets nothing after Messages.
	Closed bool `json:"closed,omitempty"`
}

type subscribeRequest struct {
	From From `json:"from,omitzero"`
}

// Subscribe creates a subscriber, and its channel if that does not exist. Errors: ErrInvalidChannel,
// ErrInvalidSubscriber, ErrInvalidFrom for a clock ahead of the channel's.
func (c *Client) Subscribe(ctx context.Context, channel, subscriber string, from From) (Subscription, error) {
	r := subscriberRequest("subscribe "+subscriber+" to "+channel, http.MethodPut, channel, subscriber)
	body, err := json.Marshal(subscribeRequest{From: from})
	if err != nil {
		return Subscription{}, fmt.Errorf("%s: %w", r.what, err)
	}
	r.body = body
	var s Subscription
	_, err = c.call(ctx, r, &s)
	return s, err
}

// Unsubscribe removes a subscriber and its mark, and ends its waiting fetches. It succeeds if the subscriber does not
// exist.
func (c *Client) Unsubscribe(ctx context.Context, channel, subscriber string) error {
	r := subscriberRequest("unsubscribe "+subscriber+" from "+channel, http.MethodDelete, channel, subscriber)
	_, err := c.call(ctx, r, nil)
	return err
}

// Fetch returns the messages after the subscriber's mark. Until they are acknowledged, the next fetch returns them
// again. Errors: ErrNoSubscriber, ErrInvalidMax, ErrInvalidWait, ErrUnavailable.
func (c *Client) Fetch(ctx context.Context, channel, subscriber string, o FetchOptions) (Delivery, error) {
	r := subscriberRequest("fetch "+channel+"/"+subscriber, http.MethodGet, channel, subscriber, "messages")
	r.wait, r.query = o.Wait, url.Values{}
	if o.Max != 0 {
		r.query.Set("max", strconv.Itoa(o.Max))
	}
	if o.Wait != 0 {
		r.query.Set("wait", o.Wait.String())
	}
	var d Delivery
	_, err := c.call(ctx, r, &d)
	return d, err
}

// Ack moves the subscriber's mark up to the last message of the fetch that returned the receipt handle. A handle at or
// behind the mark changes nothing and succeeds. Errors: ErrNoSubscriber, ErrReceipt…, ErrUnavailable.
func (c *Client) Ack(ctx context.Context, channel, subscriber, receiptHandle string) error {
	r := subscriberRequest("acknowledge "+channel+"/"+subscriber, http.MethodPost, channel, subscriber, "ack")
	body, err := json.Marshal(map[string]string{"receiptHandle": receiptHandle})
	if err != nil {
		return fmt.Errorf("%s: %w", r.what, err)
	}
	r.body = body
	_, err = c.call(ctx, r, nil)
	return err
}

// Next is Ack and then Fetch, in one request. An empty handle makes it a Fetch. Errors: those of both; after an
// error of Ack nothing is fetched.
func (c *Client) Next(ctx context.Context, channel, subscriber, receiptHandle string, o FetchOptions) (Delivery,
	error) {
	return c.next(ctx, Source{Channel: channel, Subscriber: subscriber, ReceiptHandle: receiptHandle}, o)
}

type nextRequest struct {
	ReceiptHandle     string `json:"receiptHandle,omitempty"`
	LastReceiptHandle string `json:"lastReceiptHandle,omitempty"`
	Max               int    `json:"max,omitempty"`
	Wait              string `json:"wait,omitempty"`
}

// next is Next for a source, which may have a LastReceiptHandle.
func (c *Client) next(ctx context.Context, from Source, o FetchOptions) (Delivery, error) {
	channel, subscriber := from.Channel, from.Subscriber
	r := subscriberRequest("fetch "+channel+"/"+subscriber, http.MethodPost, channel, subscriber, "next")
	body, err := json.Marshal(nextRequest{ReceiptHandle: from.ReceiptHandle,
		LastReceiptHandle: from.LastReceiptHandle, Max: o.Max, Wait: durationText(o.Wait)})
	if err != nil {
		return Delivery{}, fmt.Errorf("%s: %w", r.what, err)
	}
	r.wait, r.body = o.Wait, body
	var d Delivery
	_, err = c.call(ctx, r, &d)
	return d, err
}

// subscriberRequest returns a request whose path is that of a subscriber, and the segments after it.
func subscriberRequest(what, method, channel string, below ...string) request {
	return request{what: what, method: method, path: append([]string{"channels", channel, "subscribers"}, below...)}
}
