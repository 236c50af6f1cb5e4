package streams

import (
	"context"
	"sync"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// publish begins to publish the message of a frame.
func (s *socket) publish(f *frame, request *wire.ClientFrame) {
	if err := s.allow(access.Publish, access.Resource{Channel: request.Channel}); err != nil {
		s.fail(request.Ref, err)
		return
	}
	cost := s.reserve(len(f.bytes))
	if cost == 0 {
		return
	}
	p := &publish{socket: s, cost: cost, part: f.part, ref: request.Ref, channel: request.Channel}
	f.part = nil
	var ctx context.Context
	ctx, p.span = s.traced(s.who.Load().ctx, "socket publish", request.Channel)
	began := false
	defer func() {
		if !began { // it panicked
			p.release()
		}
	}()
	alone := s.Channels.BeginPublish(ctx, channel.PublishRequest{Channel: request.Channel,
		Drafts: []channel.Draft{request.Draft}, Producer: request.Producer, Order: request.Order, Close: request.Close},
		p.done)
	if began = true; alone != nil {
		go p.alone(alone)
	}
}

// publish is a publish under way.
type publish struct {
	socket    *socket
	cost      int64         // of reserve
	part      *web.BodyPart // nil: it needs none
	span      tracing.Span
	ref       uint64
	channel   string
	published channel.Published
	err       error
	ended     bool
	releasing sync.Once
}

// alone publishes in a goroutine of its own.
func (p *publish) alone(publish func()) {
	defer func() {
		if !p.ended { // it panicked
			p.release()
		}
	}()
	defer p.socket.recovered()
	publish()
}

// done takes the result.
func (p *publish) done(published []channel.Published, err error) {
	if p.ended, p.err = true, err; err == nil {
		p.published = published[0]
	}
	p.socket.answers.add(p)
}

// release ends the publish.
func (p *publish) release() {
	p.releasing.Do(func() {
		p.span.End()
		releasePart(p.part)
		p.socket.release(p.cost)
	})
}

// append appends the answer of a publish that has succeeded.
func (p *publish) append(b []byte) []byte {
	return wire.AppendPublished(b, p.ref, p.channel, &p.published)
}

// answers are the publishes of a socket that have ended and aren't answered yet. A goroutine answers all that end while
// it does, and writes their answers together.
type answers struct {
	mu      sync.Mutex
	waiting []*publish
	written bool // there is the goroutine
}

// add adds a publish.
func (a *answers) add(p *publish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, p)
	if !a.written {
		a.written = true
		go p.socket.writeAnswers()
	}
}

// take takes all publishes. If there are none the goroutine ends.
func (a *answers) take() (all []*publish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, a.waiting = a.waiting, nil
	a.written = len(all) > 0
	return all
}

// writeAnswers answers publishes until none waits.
func (s *socket) writeAnswers() {
	growStack()
	for all := s.answers.take(); len(all) > 0; all = s.answers.take() {
		s.writeEach(all)
	}
}

// writeEach answers publishes, and ends them.
func (s *socket) writeEach(all []*publish) {
	defer s.recovered()
	defer func() {
		for _, p := range all {
			p.release()
		}
	}()
	s.pipe.hold()
	defer s.pipe.release()
	for _, p := range all {
		if p.err == nil {
			s.put(p.append)
			continue
		}
		web.SetError(p.span, web.ProblemOf(p.err).Status, p.err)
		s.fail(p.ref, p.err)
	}
}
