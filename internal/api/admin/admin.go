package admin

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
)

// Options configures the routes.
type Options struct {
	Metrics *prometheus.Registry // the content of /metrics
	Keys    Registry             // nil: no calls for API keys and revocations
	// Channels are the calls of operators on channels, which are logged; nil: there are none.
	Channels Channels
	Logger   *slog.Logger
	Reload   Reload   // nil: no call to reload the configuration
	Drain    Drain    // nil: no calls to drain the server
	SlowLogs SlowLogs // nil: no call for the slow logs of Redis
	// Configuration is the call that shows the configuration; nil: there is none.
	Configuration Configuration
	Status        Status          // nil: no calls for the state of servers and of Redis
	Shards        Shards          // nil: no call for the shards of caches
	Limiter       *limits.Limiter // nil: clients have no limits
	Survey        *keyspace.Job   // nil: no calls for a survey of keys
	Recent        bool            // there is a call for the clients that were refused recently
	Console       bool            // whether there is the console
}

// Register adds the routes.
func Register(r *web.Router, o Options) {
	a := web.API{Router: r, Fail: web.Fail, Always: true}
	a.AddGet(web.Route{Path: "/metrics", Query: web.QueryIgnored, Action: access.Metrics, Admin: true,
		Handle: newMetrics(o.Metrics).show})

	p := newProfiles(r.Stopping())
	add(a, "/debug/pprof/", p.list)
	add(a, "/debug/pprof/profile", p.record(cpuProfile))
	add(a, "/debug/pprof/trace", p.record(executionTrace))
	add(a, "/debug/pprof/:profile", p.show)
	a.NothingBelow("/debug/pprof/:profile")
	if o.Survey != nil {
		addSurvey(r, o.Survey)
	}
	if o.Recent {
		addRefusals(r, o.Limiter)
	}
	if o.Keys != nil {
		addAccess(r, o.Keys)
	}
	if o.Channels != nil {
		addChannels(r, o.Channels, o.Logger)
	}
	if o.Status != nil {
		addStatus(r, o.Status)
	}
	if o.Shards != nil {
		addShards(r, o.Shards)
	}
	if o.SlowLogs != nil {
		addSlowLogs(r, o.SlowLogs)
	}
	if o.Console {
		addConsole(r)
	}
	if o.Reload != nil {
		addReload(r, o.Reload)
	}
	if o.Drain != nil {
		addDrain(r, o.Drain, o.Logger)
	}
	if o.Configuration != nil {
		addConfiguration(r, o.Configuration)
	}
}

// add adds a GET of a profile.
func add(a web.API, path string, handle web.Handler) {
	a.AddGet(web.Route{Path: path, Query: web.QueryIgnored, Action: access.Admin, Admin: true, Handle: handle})
}
