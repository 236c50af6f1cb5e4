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
	"github.com/tidemark-dev/tidemark/wire"
)

// From says where a new subscriber starts: Latest, Earliest, or After a clock.
type From = wire.From

// Where a new subscriber may start.
var (
	Latest   = From{Start: wire.StartLatest}   // after everything that has been published so far
	Earliest = From{Start: wire.StartEarliest} // with the oldest message that is alive
)

// After makes a new subscriber start with the message after a clock.
func After(at clock.Clock) From { return From{Start: wire.StartAt, Clock: at} }

// Subscription is the outcome of Subscribe. Created is false where the subscriber was there already; its mark was
// not moved then. Where an answer was lost and the call tried again, it can be false for one that was just made.
type Subscription = wire.Subscription

// FetchOptions says how much to fetch.
type FetchOptions struct {
	Max  int           // messages at most; 0: as the service likes
	Wait time.Duration // how long to wait for a message where there is none, up to the limit that Info tells; 0: not at all
}

// Delivery is what a fetch answers. Its ReceiptHandle acknowledges all of Messages, and passes over Expired; it is
// empty where there is nothing to acknowledge. More says that there is more to fetch now.
type Delivery = wire.Delivery

// Subscribe makes a subscriber, and its channel where it is missing. Errors: ErrInvalidChannel,
// ErrInvalidSubscriber, ErrInvalidFrom for a clock ahead of the channel's.
func (c *Client) Subscribe(ctx context.Context, channel, subscriber string, from From) (Subscription, error) {
	r := subscriberRequest("subscribe "+subscriber+" to "+channel, http.MethodPut, channel, subscriber)
	body, err := json.Marshal(wire.SubscribeRequest{From: from})
	if err != nil {
		return Subscription{}, fmt.Errorf("%s: %w", r.what, err)
	}
	r.body = body
	var s Subscription
	_, err = c.call(ctx, r, &s)
	return s, err
}

// Unsubscribe removes a subscriber and its mark, and ends its fetches that wait. It succeeds too where there was
// none.
func (c *Client) Unsubscribe(ctx context.Context, channel, subscriber string) error {
	r := subscriberRequest("unsubscribe "+subscriber+" from "+channel, http.MethodDelete, channel, subscriber)
	_, err := c.call(ctx, r, nil)
	return err
}

// Fetch reads what stands after the subscriber's mark. Until that is acknowledged, the next fetch reads it again.
// Errors: ErrNoSubscriber, ErrInvalidMax, ErrInvalidWait, ErrUnavailable.
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

// Ack moves the subscriber's mark up to what a receipt handle stands for. A handle at or behind the mark changes
// nothing and succeeds. Errors: ErrNoSubscriber, ErrReceipt…, ErrUnavailable.
func (c *Client) Ack(ctx context.Context, channel, subscriber, receiptHandle string) error {
	r := subscriberRequest("acknowledge "+channel+"/"+subscriber, http.MethodPost, channel, subscriber, "ack")
	body, err := json.Marshal(wire.AckRequest{ReceiptHandle: receiptHandle})
	if err != nil {
		return fmt.Errorf("%s: %w", r.what, err)
	}
	r.body = body
	_, err = c.call(ctx, r, nil)
	return err
}

// Next is Ack and then Fetch, in one request. An empty handle makes it a Fetch. Errors: those of both; after an
// error of Ack nothing is fetched.
func (c *Client) Next(ctx context.Context, channel, subscriber, receiptHandle string, o FetchOptions) (Delivery, error) {
	r := subscriberRequest("fetch "+channel+"/"+subscriber, http.MethodPost, channel, subscriber, "next")
	body, err := json.Marshal(wire.NextRequest{ReceiptHandle: receiptHandle, Max: o.Max, Wait: wire.Wait(o.Wait)})
	if err != nil {
		return Delivery{}, fmt.Errorf("%s: %w", r.what, err)
	}
	r.wait, r.body = o.Wait, body
	var d Delivery
	_, err = c.call(ctx, r, &d)
	return d, err
}

func subscriberRequest(what, method, channel, subscriber string, below ...string) request {
	path := append([]string{"channels", channel, "subscribers", subscriber}, below...)
	return request{what: what, method: method, path: path}
}
