// Package records serves records: sessions, tokens, settings, caches, views, locks, states and statistics. Each
// resource has a file, with its routes, its handlers, and the interface of its service.
//
// Start at [Register].
package records

import (
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Options holds the service of each resource. A resource without a service has no routes.
type Options struct {
	Kinds         *records.Table // of the service and of cached values; needed
	Locks         Locks
	Verifications Verifications
	OAuth         OAuth
	Settings      Settings
	Sessions      Sessions
	Views         Views
	States        States
	Stats         Stats
	Cache         Cache
	Followers     Followers
}

// Resume lets calls wait again after Drain.
func (o *Options) Resume() {
	if o.Locks != nil {
		o.Locks.Resume()
	}
}

// Drain ends waits, now and later.
func (o *Options) Drain() {
	if o.Locks != nil {
		o.Locks.Drain()
	}
}

// Register adds the routes.
func Register(r *web.Router, o Options) {
	a := web.API{Router: r, Fail: web.Fail}
	addKinds(a, o.Kinds)
	if o.Sessions != nil {
		addSessions(a, o.Sessions)
	}
	if o.Locks != nil {
		addLocks(a, o.Locks)
	}
	if o.Verifications != nil {
		addVerifications(a, o.Verifications)
	}
	if o.OAuth != nil {
		addOAuth(a, o.OAuth)
	}
	if o.Settings != nil {
		addSettings(a, o.Settings)
	}
	if o.Views != nil {
		addViews(a, o.Views)
	}
	if o.States != nil {
		addStates(a, o.States)
	}
	if o.Stats != nil {
		addStats(a, o.Stats)
	}
	if o.Cache != nil {
		addCache(a, o.Kinds, o.Cache)
	}
	if o.Followers != nil {
		addFollowers(a, o.Followers)
	}
}

// of returns the record in a path: a resource, and the path's first parameters.
func of(resource string, parameters int) func(*web.Call) access.Resource {
	return func(c *web.Call) access.Resource {
		ids := make([]string, parameters)
		for i := range ids {
			ids[i] = c.Param(i)
		}
		return access.Record(resource, ids...)
	}
}
