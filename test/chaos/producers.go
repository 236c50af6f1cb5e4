package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
	"github.com/tidemark-dev/tidemark/test/launch"
)

const (
	producedChannels = 3
	producersOfEach  = 3
	largestPublish   = 3           // messages
	epochLimit       = time.Second // a producer restarts within
	copyEvery        = 4           // publishes; one of them is sent twice
	copyLimit        = 100 * time.Millisecond
	zombieTries      = 3 // after which a fenced writer ends
)

func producedChannel(n int) string { return fmt.Sprintf("produced-%d", n) }

// killProducers kills a service and Redis in turn.
func killProducers(s *stage) {
	for _, service := range s.services {
		s.restart(service, syscall.SIGKILL, launch.RestartPause)
		s.node.Kill(s)
		s.pause(time.Second)
		s.node.Restart(s)
		s.pause(time.Second)
	}
}

// failProducers kills a service and the primary of a channel in turn.
func failProducers(s *stage) {
	for n, service := range s.services {
		s.restart(service, syscall.SIGKILL, launch.RestartPause)
		s.failPrimary("{" + producedChannel(n) + "}")
	}
}

// StartProducers starts producers and readers of their channels. When publishing is done, producers close them.
func (l *clients) StartProducers(ctx, publishing context.Context, failover bool, pause time.Duration) error {
	for i := range producedChannels {
		r := &historian{clients: l, turn: l.Servers.newTurn(), channel: producedChannel(i)}
		l.Producers.Reader(r.channel, "live", !failover)
		l.Producers.Reader(r.channel, "audit", true)
		if err := l.subscribe(ctx, r.turn, client.Earliest, r.source("live")); err != nil {
			return err
		}
		l.running.Go(func() { r.run(ctx) })
		for j := range producersOfEach {
			l.work(func() { l.produce(ctx, publishing, r.channel, fmt.Sprintf("w%d", j), pause) })
		}
	}
	return nil
}

// produce starts a writer for each epoch of a producer. The writer of the epoch before goes on.
func (l *clients) produce(ctx, publishing context.Context, channel, producer string, pause time.Duration) {
	for epoch := 0; ; epoch++ {
		w := &writer{clients: l, turn: l.Servers.newTurn(), channel: channel, pause: pause,
			next: oracle.Publish{Producer: producer, Epoch: epoch}}
		l.Producers.Begun(channel, producer, epoch)
		l.work(func() { w.run(ctx, publishing) })
		if !pace.Sleep(publishing, rand.N(epochLimit)) { //nolint:gosec // no secret
			return
		}
	}
}

// writer publishes for an epoch of a producer, one publish after the other.
type writer struct {
	*clients
	*turn
	channel string
	pause   time.Duration
	next    oracle.Publish
	closes  bool // with the next publish
}

// run publishes until the writer is fenced, or the channel is closed.
func (w *writer) run(ctx, publishing context.Context) {
	for fenced := 0; fenced < zombieTries; pace.Sleep(publishing, w.pause) {
		if rand.N(copyEvery) == 0 { //nolint:gosec // no secret
			w.copy(ctx, publishing)
		}
		err := w.publish(ctx)
		w.check(publishing, err)
		switch {
		case err == nil && !w.closes:
			w.next.Sequence++
			w.closes = publishing.Err() != nil
		case errors.Is(err, client.ErrProducerFenced):
			fenced++
		default:
			return
		}
	}
}

// copy starts to publish the next publish as well, so that it arrives before the writer's own, at the same time, or
// after later ones.
func (w *writer) copy(ctx, publishing context.Context) {
	same := *w
	same.turn = w.Servers.newTurn()
	w.work(func() {
		pace.Sleep(ctx, rand.N(copyLimit)) //nolint:gosec // no secret
		same.check(publishing, same.publish(ctx))
	})
}

// check records the errors that a producer may not receive.
func (w *writer) check(publishing context.Context, err error) {
	switch {
	case errors.Is(err, client.ErrProducerFenced):
		w.Producers.Fenced(w.channel, w.next)
	case errors.Is(err, client.ErrChannelClosed) && publishing.Err() != nil:
	case errors.Is(err, errRefused):
		w.Producers.Refused(err.Error())
	}
}

// publish publishes until there is an answer.
func (w *writer) publish(ctx context.Context) error {
	var published []client.Published
	err := w.try(ctx, func(server int) (err error) {
		published, err = w.send(ctx, w.servers.rest[server])
		return err
	})
	if err != nil {
		return err
	}
	clocks := make([]int64, len(published))
	for i := range published {
		clocks[i] = int64(published[i].Clock)
	}
	if w.closes {
		w.Producers.Closed(w.channel, w.next, clocks[len(clocks)-1])
	}
	w.Producers.Acknowledged(w.channel, w.next, clocks[:w.size()])
	return nil
}

// size returns the number of messages of the next publish, which is the same in a repeat. A channel may be closed
// without a message.
func (w *writer) size() int {
	n := (w.next.Epoch + w.next.Sequence) % largestPublish
	if w.closes {
		return n
	}
	return n + 1
}

// send sends a message, a batch, or the end of the channel. The end is answered with its clock.
func (w *writer) send(ctx context.Context, to *client.Client) ([]client.Published, error) {
	parts := make([]map[string]oracle.Part, w.size())
	for i := range parts {
		parts[i] = map[string]oracle.Part{"content": {Publish: w.next, Number: i + 1, Of: len(parts)}}
	}
	published := make([]client.Published, max(len(parts), 1))
	call := client.Call{What: "publish to " + w.channel, Method: http.MethodPost,
		Path: []string{"channels", w.channel, "messages"},
		Query: url.Values{"producer": {w.next.Producer}, "epoch": {strconv.Itoa(w.next.Epoch)},
			"sequence": {strconv.Itoa(w.next.Sequence)}}}
	var out any = &published[0]
	switch len(parts) {
	case 0:
		call.Path[2] = "close"
	case 1:
		call.Body = parts[0]
	default:
		call.Body, out = parts, &published
	}
	if w.closes && len(parts) > 0 {
		call.Query.Set("close", "true")
	}
	_, err := to.Do(ctx, call, out)
	return published, err
}

// historian reads a channel of producers.
type historian struct {
	*clients
	*turn
	channel string
}

// run reads the channel while it is published to, and then again: what was published before a failover may be lost.
func (h *historian) run(ctx context.Context) {
	h.read(ctx, h.source("live"))
	if h.subscribe(ctx, h.turn, client.Earliest, h.source("audit")) == nil {
		h.read(ctx, h.source("audit"))
	}
}

func (h *historian) source(subscriber string) client.Source {
	return client.Source{Channel: h.channel, Subscriber: subscriber}
}

// read reads to the end.
func (h *historian) read(ctx context.Context, source client.Source) {
	receipt, last := "", clock.Clock(0)
	for ctx.Err() == nil {
		d, err := h.fetch(ctx, source, receipt)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			receipt = ""
			h.record(err)
			h.resume(ctx, h.turn, err, source)
			continue
		case len(d.Messages) == 0 && h.atEnd(ctx, last):
			h.Producers.Ended(h.channel, source.Subscriber)
			return
		case len(d.Messages) == 0:
			pace.Sleep(ctx, emptyPause)
		default:
			last = d.Messages[len(d.Messages)-1].Clock
		}
		receipt = d.ReceiptHandle
	}
}

// atEnd reports whether the channel is closed after a clock. To close it again changes nothing.
func (h *historian) atEnd(ctx context.Context, last clock.Clock) bool {
	var closed client.Closed
	return h.Producers.HasEnd(h.channel) && h.try(ctx, func(server int) error {
		call := client.Call{What: "close " + h.channel, Method: http.MethodPost,
			Path: []string{"channels", h.channel, "close"}}
		_, err := h.servers.rest[server].Do(ctx, call, &closed)
		return err
	}) == nil && closed.Clock == last
}

// fetch fetches and records messages.
func (h *historian) fetch(ctx context.Context, source client.Source, receipt string) (d client.Delivery, err error) {
	err = h.try(ctx, func(server int) (err error) {
		d, err = h.servers.rest[server].Next(ctx, source.Channel, source.Subscriber, receipt,
			client.FetchOptions{Wait: pollWait})
		return err
	})
	if err != nil {
		return d, err
	}
	parts := make([]oracle.Part, len(d.Messages))
	for i, m := range d.Messages {
		if err := json.Unmarshal(m.Content, &parts[i]); err != nil {
			return d, fmt.Errorf("message %s has the content %s: %w", m.ID, m.Content, err)
		}
		parts[i].Clock = int64(m.Clock)
	}
	h.Producers.Read(source.Channel, source.Subscriber, parts)
	h.Messages.Expired(d.Expired + d.Damaged)
	return d, nil
}
