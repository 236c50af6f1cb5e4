package main

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPublisher is a connection to NATS.
type natsPublisher struct {
	conn   *nats.Conn
	stream jetstream.JetStream
}

// dialNATS connects to a server, and makes the stream: in files, with the default time in which repeats are recognized,
// two minutes.
func dialNATS(ctx context.Context, url string) (*natsPublisher, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	stream, err := jetstream.New(conn)
	if err == nil {
		_, err = stream.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "BENCH", Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage,
		})
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("make the stream: %w", err)
	}
	return &natsPublisher{conn: conn, stream: stream}, nil
}

func (p *natsPublisher) publish(ctx context.Context, subject, id string) error {
	ack, err := p.stream.PublishMsg(ctx, &nats.Msg{
		Subject: subject, Header: nats.Header{nats.MsgIdHdr: {id}}, Data: []byte(content),
	})
	if err == nil && ack.Duplicate {
		return errRepeat
	}
	return err
}

func (p *natsPublisher) close() { p.conn.Close() }
