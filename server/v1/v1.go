package v1

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/matchmaking/insight"
	"github.com/tidemark-dev/tidemark/server/web"
)

// Channels is what the handlers of channels call. *channel.Service implements it.
type Channels interface {
	Messages
	Subscribers
	Deliveries
	Describer
}

// Matchmaking is what the handlers of tickets, matches and queues call.
type Matchmaking interface {
	Tickets
	Matches
	Queues
}

// Options configures the API.
type Options struct {
	Channels    Channels
	Matchmaking Matchmaking // nil: there are no routes of tickets, matches and queues
	Info        Info
	Write       web.Wrapper // wraps the handlers that write to a channel, the path's first parameter
}

// Register adds the routes of the API.
func Register(r *web.Router, o Options) {
	a := web.API{Router: r, Fail: web.Fail}
	registerChannels(a, o)
	var queues Queues
	if o.Matchmaking != nil {
		queues = o.Matchmaking
		registerMatchmaking(a, o.Matchmaking)
	}
	a.AddGet("/v1/info", web.QueryRefused, (&info{about: o.Info, queues: queues, maxBody: r.MaxBodyBytes()}).show)
}

func registerChannels(a web.API, o Options) {
	const at, subscriber = "/v1/channels/:channel", "/v1/channels/:channel/subscribers/:subscriber"
	m, s := &messages{o.Channels}, &subscribers{o.Channels}
	d, c := &deliveries{o.Channels}, &channels{o.Channels}
	a.Add(http.MethodPost, at+"/messages", web.QueryRefused, o.Write(m.publish))
	a.Add(http.MethodPut, at+"/messages/:id", web.QueryRefused, o.Write(m.put))
	a.Add(http.MethodPut, subscriber, web.QueryRefused, o.Write(s.subscribe))
	a.Add(http.MethodDelete, subscriber, web.QueryRefused, o.Write(s.unsubscribe))
	a.Add(http.MethodGet, subscriber+"/messages", web.QueryRead, d.fetch)
	a.Add(http.MethodPost, subscriber+"/ack", web.QueryRefused, d.ack)
	a.Add(http.MethodPost, subscriber+"/next", web.QueryRefused, d.next)
	a.AddGet(at, web.QueryRead, c.describe)
	a.NothingBelow(at + "/messages/:id")
}

func registerMatchmaking(a web.API, m Matchmaking) {
	t, q, one := &tickets{m}, &queues{m, insight.NewReader(m)}, &matches{m}
	a.Add(http.MethodPost, "/v1/tickets", web.QueryRefused, t.create)
	a.AddGet("/v1/tickets/:id", web.QueryRefused, t.show)
	a.Add(http.MethodDelete, "/v1/tickets/:id", web.QueryRefused, t.cancel)
	a.AddGet("/v1/matches/:id", web.QueryRead, one.show)
	a.AddGet("/v1/queues", web.QueryRefused, q.list)
	a.AddGet("/v1/queues/:queue", web.QueryRead, q.describe)
	a.Add(http.MethodPut, "/v1/queues/:queue", web.QueryRefused, q.put)
	a.Add(http.MethodDelete, "/v1/queues/:queue", web.QueryRefused, q.delete)
	a.NothingBelow("/v1/tickets/:id")
	a.NothingBelow("/v1/matches/:id")
	a.NothingBelow("/v1/queues/:queue")
}

// createdStatus returns the status of a request that creates something, or finds that it exists.
func createdStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}
