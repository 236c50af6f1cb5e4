package v1

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/insight"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
)

// Channels are the operations for the handlers of channels, implemented by *channel.Service.
type Channels interface {
	Messages
	Subscribers
	Deliveries
	Describer
}

// Options configures the API.
type Options struct {
	Channels Channels
	// Tickets is nil, and so is Queues, if there are no routes of matchmaking.
	Tickets  Tickets
	Queues   Queues
	Recorder *simulation.Recorder // of created tickets; required if there are Queues
	Info     Info
	Console  func() string // returns the URL of the console, for people who use this machine; "": it isn't known
}

// Register adds the routes of the API.
func Register(r *web.Router, o Options) {
	a := web.API{Router: r, Fail: web.Fail}
	registerAbout(a, o.Console)
	registerChannels(a, o)
	if o.Queues != nil {
		registerMatchmaking(a, o)
	}
	a.AddGet(web.Route{
		Path: "/v1/info", Action: access.Any,
		Handle: (&info{about: o.Info, queues: o.Queues, maxBody: r.MaxBodyBytes()}).show,
	})
	a.AddGet(web.Route{Path: "/v1/whoami", Action: access.Any, Handle: whoami})
}

func registerChannels(a web.API, o Options) {
	const at, subscriber = "/v1/channels/:channel", "/v1/channels/:channel/subscribers/:subscriber"
	m, s := &messages{o.Channels}, &subscribers{o.Channels}
	d, c := &deliveries{o.Channels}, &channels{o.Channels}
	for _, r := range []web.Route{
		{Method: http.MethodPut, Path: at, Action: access.Publish, Of: web.Channel, Handle: c.create},
		{Method: http.MethodPost, Path: at + "/messages", Query: web.QueryRead, Action: access.Publish, Of: web.Channel,
			Handle: m.publish},
		{Method: http.MethodPut, Path: at + "/messages/:id", Query: web.QueryRead, Action: access.Publish, Of: web.Channel,
			Handle: m.put},
		{Method: http.MethodPost, Path: at + "/close", Query: web.QueryRead, Action: access.Publish, Of: web.Channel,
			Handle: m.close},
		{Method: http.MethodPut, Path: subscriber, Action: access.Subscribe, Of: web.Subscriber,
			Handle: s.subscribe},
		{Method: http.MethodDelete, Path: subscriber, Action: access.Subscribe, Of: web.Subscriber,
			Handle: s.unsubscribe},
		{
			Method: http.MethodGet, Path: subscriber + "/messages", Query: web.QueryRead,
			Action: access.Subscribe, Of: web.Subscriber, Waits: true, Handle: d.fetch,
		},
		{Method: http.MethodPost, Path: subscriber + "/ack", Action: access.Subscribe, Of: web.Subscriber,
			Handle: d.ack},
		{Method: http.MethodPost, Path: "/v1/fetch", Action: access.Subscribe, InBody: true, Waits: true,
			Handle: d.fetchMany},
		{Method: http.MethodPost, Path: subscriber + "/next", Action: access.Subscribe, Of: web.Subscriber, Waits: true,
			Handle: d.next},
	} {
		a.Add(r)
	}
	a.AddGet(web.Route{Path: at, Query: web.QueryRead, Action: access.Describe, Of: web.Channel, Handle: c.describe})
	a.NothingBelow(at + "/messages/:id")
}

func registerMatchmaking(a web.API, o Options) {
	t, q, m := &tickets{o.Tickets}, &queues{o.Queues, insight.NewReader(o.Queues)}, &matches{o.Queues}
	ofTicket := func(c *web.Call) access.Resource { return access.Resource{Ticket: c.Param(0)} }
	ofQueue := func(c *web.Call) access.Resource { return access.Resource{Queue: c.Param(0)} }
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/tickets", Action: access.Ticket, Handle: t.create})
	a.AddGet(web.Route{Path: "/v1/tickets/:id", Action: access.Ticket, Of: ofTicket, Handle: t.show})
	a.Add(web.Route{Method: http.MethodDelete, Path: "/v1/tickets/:id", Action: access.Ticket, Of: ofTicket,
		Handle: t.cancel})
	a.AddGet(web.Route{Path: "/v1/matches/:id", Query: web.QueryRead, Action: access.Queue, Of: m.of,
		Handle: m.show})
	a.AddGet(web.Route{Path: "/v1/queues", Action: access.Queue, Handle: q.list})
	a.AddGet(web.Route{Path: "/v1/queues/:queue", Query: web.QueryRead, Action: access.Queue, Of: ofQueue,
		Handle: q.describe})
	a.AddGet(web.Route{Path: "/v1/queues/:queue/matches", Query: web.QueryRead, Action: access.Queue, Of: ofQueue,
		Handle: q.matches})
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/queues/:queue/check", Action: access.Admin, Admin: true,
		Handle: q.check})
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/queues/:queue/simulate", Action: access.Admin, Admin: true,
		Handle: (&simulator{queues: o.Queues, recorder: o.Recorder}).run})
	a.Add(web.Route{Method: http.MethodPut, Path: "/v1/queues/:queue", Action: access.Admin, Admin: true,
		Handle: q.put})
	a.Add(web.Route{Method: http.MethodDelete, Path: "/v1/queues/:queue", Action: access.Admin, Admin: true,
		Handle: q.delete})
	a.NothingBelow("/v1/tickets/:id")
	a.NothingBelow("/v1/matches/:id")
	a.NothingBelow("/v1/queues/:queue")
}

// createdStatus returns the status of a request that creates an object, or finds an existing one.
func createdStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}
