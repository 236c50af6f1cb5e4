package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/coder/websocket"
)

// socketPublisher is a WebSocket of Tidemark.
type socketPublisher struct {
	conn *websocket.Conn

	mu      sync.Mutex
	ref     int
	waiting map[int]chan answer // by ref
	err     error               // why nothing is read any more
}

// answer is an answer to a publish.
type answer struct {
	Type      string          `json:"type"`
	Ref       int             `json:"ref"`
	Duplicate bool            `json:"duplicate"`
	Problem   json.RawMessage `json:"problem"`
}

// dialSocket opens a WebSocket, and a goroutine that reads it until it is closed.
func dialSocket(ctx context.Context, url string) (*socketPublisher, error) {
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{ //nolint:bodyclose // of no use after the handshake
		Subprotocols: []string{"tidemark.v1"}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	p := &socketPublisher{conn: conn, waiting: map[int]chan answer{}}
	go p.read(ctx)
	return p, nil
}

// read passes answers to the publishes that wait for them.
func (p *socketPublisher) read(ctx context.Context) {
	for {
		_, text, err := p.conn.Read(ctx)
		var a answer
		if err == nil {
			err = json.Unmarshal(text, &a)
		}
		p.mu.Lock()
		if err != nil {
			p.err = err
			for _, waiting := range p.waiting {
				close(waiting)
			}
			p.mu.Unlock()
			return
		}
		waiting := p.waiting[a.Ref]
		delete(p.waiting, a.Ref)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
}

func (p *socketPublisher) publish(ctx context.Context, subject, id string) error {
	answered := make(chan answer, 1)
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return p.err
	}
	p.ref++
	ref := p.ref
	p.waiting[ref] = answered
	p.mu.Unlock()
	frame := fmt.Appendf(nil, `{"type":"publish","ref":%d,"channel":%q,"id":%q,"content":%s}`, ref, subject, id, content)
	if err := p.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		return err
	}
	switch a, ok := <-answered; {
	case !ok:
		return p.err
	case a.Type != "published":
		return fmt.Errorf("publish: %s", a.Problem)
	case a.Duplicate:
		return errRepeat
	}
	return nil
}

func (p *socketPublisher) close() { _ = p.conn.CloseNow() } // all answers have been read
