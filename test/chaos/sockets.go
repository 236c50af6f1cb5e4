package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

// socketSilence is how long a WebSocket may be silent: the service sends a ping every 15 seconds.
const socketSilence = 35 * time.Second

// frame holds the members of frames in both directions.
type frame struct {
	Type          string `json:"type"`
	Ref           int    `json:"ref"`
	Channel       string `json:"channel"`
	Subscriber    string `json:"subscriber"`
	ReceiptHandle string `json:"receiptHandle,omitempty"`
}

// serverFrame is a frame of the service.
type serverFrame struct {
	frame
	client.Message

	Reason  string
	Count   uint64
	Problem *client.Problem
}

// socket is one WebSocket of a streamer.
type socket struct {
	*streamer
	conn *websocket.Conn
	acks map[int]acknowledged // under way, by ref
	ref  int
}

// acknowledged is the subject of an acknowledgement.
type acknowledged struct {
	channel, subscriber string
	clock               int64
}

// readSocket reads a WebSocket as read does a stream, and acknowledges on it.
func (s *streamer) readSocket(ctx context.Context, server int) (failed, err error) {
	s.Sockets.Add(1)
	dialing, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	conn, _, err := websocket.Dial(dialing, s.servers.urls[server]+"/v1/socket", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: s.servers.transports[server]}, Subprotocols: []string{wire.SocketProtocol}})
	if err != nil {
		s.SocketsBroken.Add(1)
		return nil, fmt.Errorf("%w: %w", client.ErrUnreachable, err)
	}
	defer conn.CloseNow() //nolint:errcheck // it has ended
	conn.SetReadLimit(miB)
	opened := &socket{streamer: s, conn: conn, acks: map[int]acknowledged{}}
	for _, source := range s.from {
		if err := opened.send(ctx, frame{Type: wire.FrameSubscribe, Channel: source.Channel,
			Subscriber: source.Subscriber}); err != nil {
			return nil, err
		}
	}
	for {
		f, err := opened.receive(ctx)
		if err != nil {
			s.SocketsBroken.Add(1)
			return nil, err
		}
		if f.Type == wire.FrameEnd {
			pace.Sleep(ctx, 4*checkEvery) // until a load balancer knows that the server drains, which refuses the next one
			return nil, nil
		}
		if failed, err := opened.handle(ctx, &f); failed != nil || err != nil {
			return failed, err
		}
	}
}

// send writes a frame, with the next ref.
func (o *socket) send(ctx context.Context, f frame) error {
	o.ref++
	f.Ref = o.ref
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	if err := o.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return fmt.Errorf("%w: %w", client.ErrUnreachable, err)
	}
	return nil
}

func (o *socket) receive(ctx context.Context) (f serverFrame, err error) {
	ctx, cancel := context.WithTimeout(ctx, socketSilence)
	defer cancel()
	_, text, err := o.conn.Read(ctx)
	if err != nil {
		return f, fmt.Errorf("%w: %w", client.ErrUnreachable, err)
	}
	return f, json.Unmarshal(text, &f)
}

// handle handles a frame. failed and err are those of read.
func (o *socket) handle(ctx context.Context, f *serverFrame) (failed, err error) {
	switch f.Type {
	case wire.FrameMessage:
		return o.message(ctx, f)
	case wire.FrameGap:
		return o.arrived(ctx, client.Arrival{Source: client.Source{Channel: f.Channel, Subscriber: f.Subscriber},
			Gap: &client.Gap{Reason: f.Reason, Count: f.Count}}), nil
	case wire.FrameAcked:
		of := o.acks[f.Ref]
		delete(o.acks, f.Ref)
		o.Messages.Confirmed(of.channel, of.subscriber, of.clock)
	case wire.FrameError:
		refused := &client.Error{Problem: *f.Problem, Status: f.Problem.Status}
		if _, ack := o.acks[f.Ref]; !ack || retryable(refused) {
			return nil, refused // of a subscription, or it is tried again after the next message
		}
		return refused, nil
	}
	return nil, nil
}

// message handles a message, and acknowledges some of them.
func (o *socket) message(ctx context.Context, f *serverFrame) (failed, err error) {
	delivered, err := deliveredMessage(&f.Message)
	if err != nil {
		return err, nil
	}
	o.Messages.Delivered(f.Channel, f.Subscriber, []oracle.Delivered{delivered})
	source := client.Source{Channel: f.Channel, Subscriber: f.Subscriber}
	if o.unsure[source]++; o.unsure[source] < ackEvery {
		return nil, nil
	}
	o.unsure[source] = 0
	// After an error there is more to read: the frame that ends the WebSocket, or why it broke.
	_ = o.send(ctx, frame{Type: wire.FrameAck, Channel: f.Channel, Subscriber: f.Subscriber,
		ReceiptHandle: f.ReceiptHandle})
	o.acks[o.ref] = acknowledged{f.Channel, f.Subscriber, delivered.Clock}
	return nil, nil
}
