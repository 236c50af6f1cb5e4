package main

import (
	"context"
	"errors"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

// streamer reads one stream after the other, of one channel or of many, and acknowledges by way of any server. Or it
// reads WebSockets, and acknowledges on them.
type streamer struct {
	*clients
	*turn
	socket bool
	from   []client.Source
	unsure map[client.Source]int // messages of a source since its last acknowledgement
}

// ackEvery is how many messages of a channel a streamer acknowledges together, far fewer than the window.
const ackEvery = 8

// startStreamer starts a streamer of new subscribers.
func (l *clients) startStreamer(ctx context.Context, name string, socket bool, channels ...string) error {
	s := &streamer{clients: l, turn: l.Servers.newTurn(), socket: socket, unsure: map[client.Source]int{}}
	for _, channel := range channels {
		s.from = append(s.from, client.Source{Channel: channel, Subscriber: name})
	}
	if err := l.subscribe(ctx, s.turn, client.Latest, s.from...); err != nil {
		return err
	}
	for _, channel := range channels {
		l.Messages.Subscribed(channel, name)
	}
	l.running.Go(func() { s.run(ctx) })
	return nil
}

func (s *streamer) run(ctx context.Context) {
	for ctx.Err() == nil {
		var failed error // of a message or an acknowledgement
		err := s.try(ctx, func(server int) (err error) {
			clear(s.unsure)
			if s.socket {
				failed, err = s.readSocket(ctx, server)
			} else {
				failed, err = s.read(ctx, s.servers.rest[server])
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.Messages.Refused(err.Error())
			s.resume(ctx, s.turn, err, s.from...)
		case failed != nil:
			s.record(failed)
			pace.Sleep(ctx, emptyPause)
		}
	}
}

// read reads a stream until it ends. failed is of what it has brought, err is why it broke or could not be opened.
func (s *streamer) read(ctx context.Context, from *client.Client) (failed, err error) {
	s.Streams.Add(1)
	for a, err := range from.Stream(ctx, s.from, client.StreamOptions{}) {
		switch {
		case errors.As(err, new(*client.StreamEnd)):
			pace.Sleep(ctx, emptyPause) // a draining server ends it at once
			return nil, nil
		case err != nil:
			s.StreamsBroken.Add(1)
			return nil, err
		}
		if err := s.arrived(ctx, a); err != nil {
			return err, nil
		}
	}
	return nil, nil
}

func (s *streamer) arrived(ctx context.Context, a client.Arrival) error {
	if a.Gap != nil {
		if a.Gap.Reason == client.GapExpired {
			s.Messages.Expired(a.Gap.Count)
		} else {
			s.Messages.ReceiptLost("a stream has lost messages of " + a.Channel)
		}
		return nil
	}
	delivered, err := deliveredMessage(a.Message)
	if err != nil {
		return err
	}
	s.Messages.Delivered(a.Channel, a.Subscriber, []oracle.Delivered{delivered})
	source := client.Source{Channel: a.Channel, Subscriber: a.Subscriber}
	if s.unsure[source]++; s.unsure[source] < ackEvery {
		return nil
	}
	err = s.try(ctx, func(server int) error {
		return s.servers.rest[server].Ack(ctx, a.Channel, a.Subscriber, a.ReceiptHandle)
	})
	if err == nil {
		s.Messages.Confirmed(a.Channel, a.Subscriber, delivered.Clock)
		s.unsure[source] = 0
	}
	return err
}
