package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

// channelLoad is the number of channels and of their clients.
type channelLoad struct {
	Channels    int
	Publishers  int // of each channel
	Subscribers int // of each channel, besides one of a stream, and those of a stream and a WebSocket of all
	Pause       time.Duration
	// Handling is how long subscribers that poll need for what they have fetched, before they acknowledge it. They fetch
	// all that there is.
	Handling time.Duration
}

// StartChannels creates the subscribers, and starts them and the publishers. When publishing is done, publishers
// publish no new message. All end with ctx.
func (l *clients) StartChannels(ctx, publishing context.Context, c channelLoad) error {
	all := make([]string, c.Channels)
	for i := range all {
		all[i] = fmt.Sprintf("chaos-%d", i)
		if err := l.startStreamer(ctx, "one-stream", false, all[i]); err != nil {
			return err
		}
	}
	for name, socket := range map[string]bool{"all-streams": false, "socket": true} {
		if err := l.startStreamer(ctx, name, socket, all...); err != nil {
			return err
		}
	}
	for _, channel := range all {
		for j := range c.Subscribers {
			s := &subscriber{clients: l, turn: l.Servers.newTurn(), channel: channel, name: fmt.Sprintf("s%d", j),
				separate: j%2 == 1, handling: c.Handling}
			if err := l.subscribe(ctx, s.turn, client.Latest, s.source()); err != nil {
				return err
			}
			l.Messages.Subscribed(channel, s.name)
			l.running.Go(func() { s.run(ctx) })
		}
		for j := range c.Publishers {
			p := &publisher{clients: l, turn: l.Servers.newTurn(), channel: channel, name: fmt.Sprintf("p%d", j), pause: c.Pause}
			l.work(func() { p.run(ctx, publishing) })
		}
	}
	return nil
}

// publisher publishes one message after the other.
type publisher struct {
	*clients
	*turn
	channel, name string
	pause         time.Duration
}

func (p *publisher) run(ctx, publishing context.Context) {
	for seq := 1; publishing.Err() == nil; seq++ {
		message := oracle.Message{Publisher: p.name, Seq: seq}
		published, err := p.publish(ctx, message)
		switch {
		case err == nil:
			p.Messages.Acknowledged(p.channel, message, int64(published.Clock))
		case errors.Is(err, errRefused):
			p.Messages.Refused(err.Error())
		default:
			return // whether it was published is unknown
		}
		pace.Sleep(publishing, p.pause)
	}
}

func (p *publisher) publish(ctx context.Context, message oracle.Message) (published client.Published, err error) {
	draft := client.Draft{ID: messageID(message), Content: fmt.Appendf(nil, `{"publisher":%q,"seq":%d}`,
		message.Publisher, message.Seq)}
	err = p.try(ctx, func(server int) error {
		started := time.Now()
		published, err = p.servers.rest[server].Publish(ctx, p.channel, draft)
		if ctx.Err() == nil {
			p.Requests.Published(time.Since(started), err == nil)
		}
		return err
	})
	return published, err
}

func messageID(m oracle.Message) string { return m.Publisher + "-" + strconv.Itoa(m.Seq) }

// parseMessageID is the inverse of messageID.
func parseMessageID(id string) (oracle.Message, error) {
	publisher, seq, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(seq)
	return oracle.Message{Publisher: publisher, Seq: n}, err
}

// subscriber reads one channel. It acknowledges with next, or with a separate request.
type subscriber struct {
	*clients
	*turn
	channel, name string
	separate      bool
	handling      time.Duration

	receipt string // to be acknowledged
	clock   int64  // of the last message that the receipt covers
}

func (s *subscriber) source() client.Source {
	return client.Source{Channel: s.channel, Subscriber: s.name}
}

func (s *subscriber) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.read(ctx); err != nil && ctx.Err() == nil {
			s.receipt = ""
			s.record(err)
			s.resume(ctx, s.turn, err, s.source())
		}
	}
}

// read acknowledges the last delivery and fetches the next.
func (s *subscriber) read(ctx context.Context) error {
	fetched := client.FetchOptions{Wait: pollWait}
	if s.handling > 0 {
		fetched.Max = 1000
	}
	if s.receipt != "" {
		pace.Sleep(ctx, s.handling)
	}
	if s.separate && s.receipt != "" {
		err := s.try(ctx, func(server int) error {
			return s.servers.rest[server].Ack(ctx, s.channel, s.name, s.receipt)
		})
		if err != nil {
			return err
		}
		s.confirmed()
	}
	var d client.Delivery
	asked := time.Now()
	err := s.try(ctx, func(server int) (err error) {
		d, err = s.servers.rest[server].Next(ctx, s.channel, s.name, s.receipt, fetched)
		return err
	})
	if err != nil {
		return err
	}
	s.confirmed()
	if len(d.Messages) == 0 && time.Since(asked) < emptyPause {
		pace.Sleep(ctx, emptyPause) // a draining server returns at once
	}
	return s.delivered(d)
}

// emptyPause limits the rate of empty fetches.
const emptyPause = 20 * time.Millisecond

func (s *subscriber) confirmed() {
	if s.receipt != "" {
		s.Messages.Confirmed(s.channel, s.name, s.clock)
		s.receipt = ""
	}
}

func (s *subscriber) delivered(d client.Delivery) error {
	messages := make([]oracle.Delivered, len(d.Messages))
	for i := range d.Messages {
		var err error
		if messages[i], err = deliveredMessage(&d.Messages[i]); err != nil {
			return err
		}
		s.clock = messages[i].Clock
	}
	s.Messages.Delivered(s.channel, s.name, messages)
	s.Messages.Expired(d.Expired + d.Damaged)
	s.receipt = d.ReceiptHandle
	return nil
}

// deliveredMessage returns what a message is, which its ID and its content say.
func deliveredMessage(m *client.Message) (oracle.Delivered, error) {
	message, err := parseMessageID(m.ID)
	if err != nil {
		return oracle.Delivered{}, fmt.Errorf("message %s: %w", m.ID, err)
	}
	var content struct {
		Publisher string
		Seq       int
	}
	if err := json.Unmarshal(m.Content, &content); err != nil || oracle.Message(content) != message {
		return oracle.Delivered{}, fmt.Errorf("message %s has the content %s", m.ID, m.Content)
	}
	return oracle.Delivered{Message: message, Clock: int64(m.Clock)}, nil
}

// subscribe creates subscribers.
func (l *clients) subscribe(ctx context.Context, t *turn, from client.From, sources ...client.Source) error {
	for _, source := range sources {
		err := t.try(ctx, func(server int) error {
			_, err := t.servers.rest[server].Subscribe(ctx, source.Channel, source.Subscriber, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resume waits after an error that cannot be retried, or creates the subscribers again if they don't exist.
func (l *clients) resume(ctx context.Context, t *turn, err error, sources ...client.Source) {
	switch {
	case errors.Is(err, client.ErrNoSubscriber), errors.Is(err, client.ErrNoChannel):
		_ = l.subscribe(ctx, t, client.Earliest, sources...) // the next read shows whether it succeeded
	case lostReceipt(err):
	case errors.Is(err, client.ErrReceiptForged):
		pace.Sleep(ctx, emptyPause)
	default:
		pace.Sleep(ctx, maxPause)
	}
}

// record records a refused receipt, another error that cannot be retried, or a message that differs from the published
// one.
func (l *clients) record(err error) {
	switch {
	case lostReceipt(err):
		l.Messages.ReceiptLost(err.Error())
	case errors.Is(err, client.ErrReceiptForged):
		l.Messages.ReceiptForged(err.Error())
	default:
		l.Messages.Refused(err.Error())
	}
}

// lostReceipt reports whether the receipt is refused for a reason that a new fetch resolves.
func lostReceipt(err error) bool {
	return errors.Is(err, client.ErrReceiptEpoch) || errors.Is(err, client.ErrReceiptAhead) ||
		errors.Is(err, client.ErrReceiptSuperseded)
}
