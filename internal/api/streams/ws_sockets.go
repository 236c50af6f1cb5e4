package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/frames"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// SocketChannels are the operations of sockets on channels.
type SocketChannels interface {
	// Wait counts one of the client's waits until done is called.
	Wait(ctx context.Context) (done func(), err error)
	// OpenCounted opens a stream that Wait has counted.
	OpenCounted(ctx context.Context, q channel.StreamQuery) (Stream, error)
	// BeginPublish begins to publish one message, as channel.Log's. If it returns a function, that must be called in a
	// goroutine, and calls done.
	BeginPublish(ctx context.Context, r channel.PublishRequest, done func([]channel.Published, error)) (alone func())
	Ack(ctx context.Context, name, subscriber, handle string) error
}

// SocketOptions configures sockets. All fields but Age and Patience are required.
type SocketOptions struct {
	Channels SocketChannels
	Age      time.Duration // as Options.Age
	Patience time.Duration // for the first credential; 0: DefaultPatience
	Logger   *slog.Logger
	Metrics  *prometheus.Registry
}

// DefaultPatience is the default of SocketOptions.Patience.
const DefaultPatience = 10 * time.Second

// The bounds of one socket.
const (
	maxSubscriptions = 256
	perWait          = 8  // subscriptions that are one of the client's waits
	underWay         = 64 // publishes and acknowledgements at a time; fewer if they are large
	// maxRefusals is how many frames in a row may be refused because of the client's limit of requests.
	maxRefusals = 256
	// maxUnauthenticated is how many sockets of one address may be open whose clients have no credential yet.
	// unauthenticatedPrice is the price of a frame of these, which may be refused.
	maxUnauthenticated   = 256
	unauthenticatedPrice = 20
	// firstFrame is the largest frame before the first credential, in bytes: a credential and its frame.
	firstFrame = access.MaxCredentialBytes + 1<<10

	silentAfter = 30 * time.Second // a client that sends nothing for so long is sent a ping of the protocol
	deadAfter   = 75 * time.Second // a client that sends nothing for so long has gone
)

// Sockets serves WebSockets. All methods may be called by several goroutines.
type Sockets struct {
	SocketOptions
	scheduler *scheduler
	router    *web.Router
	counts    socketCounts

	mu              sync.Mutex
	open            map[*socket]struct{}
	empty           sync.Cond      // signals that open has become empty
	unauthenticated map[string]int // sockets without a credential, by their address; without entries of 0
}

// RegisterSockets adds the route of sockets. It registers its metrics, so it must be called once per registry.
func RegisterSockets(r *web.Router, o SocketOptions) *Sockets {
	if o.Age == 0 {
		o.Age = DefaultAge
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	ss := &Sockets{SocketOptions: o, scheduler: newScheduler(), router: r, open: map[*socket]struct{}{}, unauthenticated: map[string]int{}}
	ss.empty.L = &ss.mu
	ss.counts = newSocketCounts(o.Metrics)
	if guard := r.Guard(); guard != nil {
		guard.OnRules(ss.recheck)
	}
	a := web.API{Router: r, Fail: web.Fail}
	a.Add(web.Route{Method: http.MethodGet, Path: "/v1/socket", Action: access.Any, Socket: true, Handle: ss.accept})
	return ss
}

// errHandshake is the error of a request that isn't the handshake of a WebSocket.
var errHandshake = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidRequest,
	Detail: "this path is for WebSockets with the subprotocol " + wire.SocketProtocol}

// accept is GET /v1/socket. The socket outlives the request, so that it needs less memory. It is one of the client's
// waits.
func (ss *Sockets) accept(c *web.Call) error {
	if ss.router.IsDraining() {
		return ss.router.DrainError()
	}
	r := c.Request()
	if r.ProtoMajor > 1 || !offers(r.Header) {
		return errHandshake
	}
	s := &socket{
		Sockets: ss, id: c.ID(), address: r.RemoteAddr, inQuery: c.InQuery(), opened: time.Now(), place: c.Place(),
		age:  ss.Age - rand.N(ss.Age/4+1), //nolint:gosec // chance to spread load, not to keep a secret
		work: semaphore.NewWeighted(ss.router.MaxBodyBytes()),
	}
	// Not the context of the request, which keeps what net/http and the listener need for requests.
	s.ctx, s.cancel = context.WithCancelCause(context.Background()) //nolint:forbidigo // it outlives the request
	s.pipe.part, s.pipe.slow = ss.router.Answers().Part(s.client), ss.counts.cut.Inc
	s.pipe.largest = int(min(firstRead, ss.router.MaxBodyBytes()))
	s.pipe.budget, s.pipe.price = frames.NewBudget(0, s.exceeded), s.price
	done, err := ss.Channels.Wait(c.Context())
	if err != nil {
		return err
	}
	s.waits = []func(){done}
	if p := c.Principal(); p != nil && p.Kind == access.Nobody {
		if err := ss.addUnauthenticated(s); err != nil {
			s.leave()
			return err
		}
	}
	c.SetHeaders()
	h := &handshake{ResponseWriter: c.Response(), pipe: &s.pipe, detacher: c.Detacher()}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols: []string{wire.SocketProtocol}, InsecureSkipVerify: true, // the route has checked it
	})
	if err != nil {
		s.leave()
		ss.removeUnauthenticated(s)
		if h.refused == nil {
			return err
		}
		refusal := *errHandshake
		refusal.Detail += ": " + strings.TrimSpace(string(h.refused))
		return refusal.WithCause(err)
	}
	c.SetOutcome(http.StatusSwitchingProtocols, nil)
	_ = conn.CloseNow() // see handshake.Hijack
	// Not before, since it may end the socket at once. The limits may have changed since the request was counted.
	s.become(c.Principal(), limits.From(c.Context()), nil)
	ss.add(s)
	s.start()
	go s.serve()
	return nil
}

// offers reports whether a client offers the subprotocol.
func offers(h http.Header) bool {
	for _, line := range h["Sec-Websocket-Protocol"] {
		for protocol := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(protocol) == wire.SocketProtocol {
				return true
			}
		}
	}
	return false
}

func (ss *Sockets) add(s *socket) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.open[s] = struct{}{}
	ss.counts.open.Inc()
	if ss.router.IsDraining() { // since accept has asked
		go s.end(endDrain, websocket.StatusGoingAway)
	}
}

// addUnauthenticated counts a socket whose client has no credential yet.
func (ss *Sockets) addUnauthenticated(s *socket) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	name := web.Client(nil, s.address)
	if ss.unauthenticated[name] == maxUnauthenticated {
		return errUnauthenticated
	}
	ss.unauthenticated[name]++
	s.countedAs = name
	return nil
}

// removeUnauthenticated ends what addUnauthenticated has counted, if it has.
func (ss *Sockets) removeUnauthenticated(s *socket) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.countedAs == "" {
		return
	}
	if ss.unauthenticated[s.countedAs]--; ss.unauthenticated[s.countedAs] == 0 {
		delete(ss.unauthenticated, s.countedAs)
	}
	s.countedAs = ""
}

func (ss *Sockets) remove(s *socket) {
	ss.removeUnauthenticated(s)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.open, s)
	ss.counts.open.Dec()
	if len(ss.open) == 0 {
		ss.empty.Broadcast()
	}
}

// recheck ends the subscriptions that a change of the rules no longer allows.
func (ss *Sockets) recheck() {
	ss.mu.Lock()
	all := slices.Collect(maps.Keys(ss.open))
	ss.mu.Unlock()
	for _, s := range all {
		for _, sub := range s.all() {
			s.recheckRules(sub)
		}
	}
}

// Drain begins to end all sockets. The router must be draining, so that no later ones are opened.
func (ss *Sockets) Drain() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for s := range ss.open {
		go s.end(endDrain, websocket.StatusGoingAway)
	}
}

// Wait waits until all sockets have ended. When ctx ends it closes their connections. The error is that of ctx.
func (ss *Sockets) Wait(ctx context.Context) (err error) {
	stop := context.AfterFunc(ctx, func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		for s := range ss.open {
			err = ctx.Err()
			s.cancel(err)
			s.pipe.abort()
		}
	})
	defer stop()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for len(ss.open) > 0 {
		ss.empty.Wait()
	}
	return err
}

// socketCounts are the metrics of sockets.
type socketCounts struct {
	counts
	subscriptions prometheus.Gauge
	frames        map[string]prometheus.Counter // by the types of frames
	invalid       prometheus.Counter
	refused       prometheus.Counter
}

func newSocketCounts(registry *prometheus.Registry) socketCounts {
	frames := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_socket_frames_total",
		Help: "Frames of WebSockets from clients, by their type. Those that aren't valid are of the type invalid, and " +
			"those beyond their client's limit of requests of the type limited.",
	}, []string{"type"})
	c := socketCounts{
		counts: newCounts(registry, "websocket"),
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_socket_subscriptions", Help: "Subscriptions of open WebSockets.",
		}),
		frames: map[string]prometheus.Counter{}, invalid: frames.WithLabelValues("invalid"),
		refused: frames.WithLabelValues("limited"),
	}
	for _, name := range wire.ClientFrames() {
		c.frames[name] = frames.WithLabelValues(name)
	}
	registry.MustRegister(c.subscriptions, frames)
	return c
}

// ofFrame changes the field of an error to a pointer into a frame.
func ofFrame(p *client.Problem) *client.Problem {
	switch {
	case p.Field == "" || strings.HasPrefix(p.Field, "/"):
	case p.Field == idParameter:
		p.Field = "/resume"
	case slices.Contains([]string{"channel", "subscriber", "id", fromParameter, windowParameter}, p.Field):
		p.Field = "/" + p.Field
	}
	return p
}

// isLimited reports whether an error is of a limit of the client.
func isLimited(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.Limited
}

// errTooMany and errTwice are the errors of a subscribe on one socket.
var (
	errTooMany = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidSources,
		Detail: fmt.Sprintf("the socket has %d subscriptions, which is the most", maxSubscriptions)}
	errTwice = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidSources,
		Detail: "the socket has this subscription already"}
	errUnauthenticated = &fault.Error{Kind: fault.Limited, Slug: fault.SlugTooManyWaits, RetryAfter: time.Second,
		Detail: fmt.Sprintf("%d WebSockets of this address have no credential yet, which is the most", maxUnauthenticated)}
	errNotSubscribed = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidSources,
		Detail: "the socket doesn't have this subscription"}
	errOther = &fault.Error{Kind: fault.Forbidden, Slug: fault.SlugNotGranted, Field: "/token",
		Detail: "the credential isn't of the principal of the socket; open another one"}
)
