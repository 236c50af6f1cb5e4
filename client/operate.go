package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
)

// The calls of this file are answered on the service's admin address only.

// ListedChannel is an entry of the list of channels.
type ListedChannel struct {
	Channel         string      `json:"channel"`
	Clock           clock.Clock `json:"clock"`           // of the last message
	TTLMillis       int64       `json:"ttlMs"`           // remaining life of the channel without activity
	SubscriberCount uint64      `json:"subscriberCount"` // with those that expired recently
	// Details are left out unless they were asked for.
	Details *ChannelDetails `json:"details,omitempty"`
}

// ChannelDetails describes the messages of a channel and their readers.
type ChannelDetails struct {
	Messages uint64 `json:"messages"`          // kept, at most: from the oldest to the last
	Lag      uint64 `json:"lag"`               // of the slowest of the examined subscribers
	Slowest  string `json:"slowest,omitempty"` // its name; left out: there is none
	// Partial is set if the channel has more subscribers than were examined, about 100.
	Partial bool `json:"partial,omitempty"`
	// Rate is messages per second since the server that answers has listed the channel with details before; left out:
	// it hasn't in the last hour.
	Rate *float64 `json:"rate,omitempty"`
}

// Connected is who waits on a channel at the server that answers: a page of its subscribers, and all of its connections.
type Connected struct {
	Channel string `json:"channel"`
	Connections
	Tails       int                   `json:"tails"`            // of the connections, those without a subscriber
	Subscribers []ConnectedSubscriber `json:"subscribers"`      // by name
	Cursor      string                `json:"cursor,omitempty"` // of the next page; left out: this is the last
}

// Connections are numbers of open connections by their kind. One with several sources counts for each of them.
type Connections struct {
	Polls   int `json:"polls"`   // fetches that wait
	Streams int `json:"streams"` // streams of server-sent events
	Sockets int `json:"sockets"` // subscriptions of WebSockets
}

// ConnectedSubscriber is a subscriber with a connection.
type ConnectedSubscriber struct {
	Name string `json:"name"`
	Connections
	Since time.Time `json:"since"` // when the oldest of them began to wait
}

// Peeked is messages of a channel, read without a subscriber.
type Peeked struct {
	Channel  string      `json:"channel"`
	Epoch    string      `json:"epoch"`
	Clock    clock.Clock `json:"clock"`    // of the channel's last message
	Messages []Message   `json:"messages"` // in clock order
	Through  clock.Clock `json:"through"`  // where the next peek begins
	More     bool        `json:"more"`     // there are messages after that
}

// Purged is the outcome of a purge.
type Purged struct {
	Channel string      `json:"channel"`
	Epoch   string      `json:"epoch"`
	Through clock.Clock `json:"through"` // up to which messages were purged
	Purged  uint64      `json:"purged"`  // messages
}

// Sought is the outcome of a seek.
type Sought struct {
	Channel    string      `json:"channel"`
	Subscriber string      `json:"subscriber"`
	Epoch      string      `json:"epoch"`
	Mark       clock.Clock `json:"mark"` // where it is now
	Lag        uint64      `json:"lag"`  // messages after it
}

// To is where Seek sets a mark. Its From is Latest, Earliest or After a clock.
type To struct {
	From
	Time time.Time // if it isn't zero, instead of From: before the first message that was published then or later
}

// MarshalJSON returns "latest", "earliest", a clock, or a time in the form of RFC 3339.
func (t To) MarshalJSON() ([]byte, error) {
	if !t.Time.IsZero() {
		return json.Marshal(t.Time)
	}
	return t.From.MarshalJSON()
}

// ToTime is before the first message that was published at a time or later. For the zero time it is Earliest.
func ToTime(at time.Time) To {
	if at.IsZero() {
		return To{From: Earliest}
	}
	return To{Time: at}
}

// PeekOptions are the options of a peek.
type PeekOptions struct {
	After *clock.Clock // where it begins; nil: before the oldest message alive
	Max   int          // most messages; 0: the service's default
}

// Channels returns the channels whose names have a prefix, empty for all. It calls the service for each page; a channel
// can be returned twice. After an error it ends. Errors: ErrInvalidQuery, ErrUnavailable.
func (c *Client) Channels(ctx context.Context, prefix string) iter.Seq2[ListedChannel, error] {
	return func(yield func(ListedChannel, error) bool) {
		r := request{what: "list channels", method: http.MethodGet, path: []string{"channels"}, query: url.Values{}}
		if prefix != "" {
			r.query.Set("prefix", prefix)
		}
		for {
			var page struct {
				Channels []ListedChannel `json:"channels"`
				Cursor   string          `json:"cursor"`
			}
			if _, err := c.call(ctx, r, &page); err != nil {
				yield(ListedChannel{}, err)
				return
			}
			for _, listed := range page.Channels {
				if !yield(listed, nil) {
					return
				}
			}
			if page.Cursor == "" {
				return
			}
			r.query.Set("cursor", page.Cursor)
		}
	}
}

// Connected returns who waits on a channel at the server that answers; other servers on the same Redis are not asked.
// Errors: ErrInvalidChannel, ErrInvalidQuery.
func (c *Client) Connected(ctx context.Context, channel string, p Page) (Connected, error) {
	r := request{what: "list the connections of " + channel, method: http.MethodGet,
		path: []string{"channels", channel, "connected"}, query: p.query()}
	var found Connected
	_, err := c.call(ctx, r, &found)
	return found, err
}

// Peek returns messages of a channel without a subscriber, and changes nothing. Errors: ErrNoChannel,
// ErrInvalidChannel, ErrInvalidPosition, ErrInvalidMax, ErrUnavailable.
func (c *Client) Peek(ctx context.Context, channel string, o PeekOptions) (Peeked, error) {
	r := request{what: "peek " + channel, method: http.MethodGet, path: []string{"channels", channel, "messages"},
		query: url.Values{}}
	if o.After != nil {
		r.query.Set("after", o.After.String())
	}
	if o.Max != 0 {
		r.query.Set("max", strconv.Itoa(o.Max))
	}
	var p Peeked
	_, err := c.call(ctx, r, &p)
	return p, err
}

type purgeRequest struct {
	Through From   `json:"through"`
	Epoch   string `json:"epoch,omitempty"`
}

// Purge removes the messages of a channel: all of them (Latest), or those up to a clock (After). epoch is that of the
// description by which the clock was chosen, or empty. If an answer is lost, the call is repeated: with Latest and
// without an epoch it then also removes what was published meanwhile, and Purged has only what the last try removed.
// Errors: ErrNoChannel, ErrInvalidChannel, ErrInvalidPosition, ErrOtherLife, ErrReserved, ErrUnavailable.
func (c *Client) Purge(ctx context.Context, channel string, through From, epoch string) (Purged, error) {
	var p Purged
	r := request{what: "purge " + channel, method: http.MethodPost, path: []string{"channels", channel, "purge"}}
	err := c.send(ctx, r, purgeRequest{Through: through, Epoch: epoch}, &p)
	return p, err
}

// DeleteChannel removes a channel with its messages and subscribers. It succeeds if the channel doesn't exist. Errors:
// ErrInvalidChannel, ErrReserved, ErrUnavailable.
func (c *Client) DeleteChannel(ctx context.Context, channel string) error {
	r := request{what: "delete " + channel, method: http.MethodDelete, path: []string{"channels", channel}}
	_, err := c.call(ctx, r, nil)
	return err
}

// Seek sets the mark of a subscriber, never before the oldest message alive. Stop the subscriber's consumers to set it
// back: what they acknowledge afterwards moves it on. Errors: ErrNoSubscriber, ErrInvalidChannel, ErrInvalidSubscriber,
// ErrInvalidPosition, ErrReserved, ErrUnavailable.
func (c *Client) Seek(ctx context.Context, channel, subscriber string, to To) (Sought, error) {
	var s Sought
	r := subscriberRequest(fmt.Sprintf("set the mark of %s/%s", channel, subscriber), http.MethodPost, channel, subscriber,
		"seek")
	err := c.send(ctx, r, map[string]To{"to": to}, &s)
	return s, err
}
