package records

import (
	"context"
	"net/http"
	"time"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/lease"
)

// Locks are the locks of applications.
type Locks interface {
	Acquire(ctx context.Context, r locks.Request) (locks.Lock, error)
	Renew(ctx context.Context, r locks.Request) (locks.Lock, error)
	Release(ctx context.Context, n locks.Name, token string) error
	Show(ctx context.Context, n locks.Name) (lease.Holding, error)
	Drain() // ends waits, now and later
	Resume()
}

func addLocks(a web.API, service Locks) {
	const path = "/v1/locks/:op/:id"
	h, of := &lockCalls{service}, of("locks", 2)
	a.Add(web.Route{Method: http.MethodPut, Path: path, Action: access.Write, Of: of, Waits: true, Handle: h.put})
	a.Add(web.Route{Method: http.MethodDelete, Path: path, Action: access.Write, Of: of, Handle: h.release})
	a.AddGet(web.Route{Path: path, Action: access.Read, Of: of, Handle: h.show})
	a.NothingBelow(path)
}

type lockCalls struct{ service Locks }

func lockName(c *web.Call) locks.Name { return locks.Name{Op: c.Param(0), ID: c.Param(1)} }

// put is PUT /v1/locks/{op}/{id}.
func (h *lockCalls) put(c *web.Call) error {
	asked, err := decodeLock(c)
	if err != nil {
		return err
	}
	r := locks.Request{Name: lockName(c), Token: asked.NewToken, TTL: time.Duration(asked.TTL),
		Wait: time.Duration(asked.Wait)}
	call := h.service.Acquire
	if asked.Token != "" {
		r.Token, call = asked.Token, h.service.Renew
	}
	if r.Wait > 0 {
		done, err := limits.From(c.Context()).Wait(1)
		if err != nil {
			return err
		}
		defer done()
	}
	lock, err := call(c.Context(), r)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, clientrecords.Lock{Token: lock.Token, Fence: lock.Fence, ExpiresAt: lock.Until})
}

// decodeLock decodes the body, which may be empty.
func decodeLock(c *web.Call) (wire.LockRequest, error) {
	asked, err := decodeOptional(c, wire.LockRequest{})
	if err == nil && asked.Token != "" && (asked.NewToken != "" || asked.Wait > 0) {
		err = badLock("a renewal has neither newToken nor wait")
	}
	return asked, err
}

func badLock(detail string) error {
	return &wire.InputError{Slug: fault.SlugInvalidLock, Field: "/token", Detail: detail, Offset: -1}
}

// release is DELETE /v1/locks/{op}/{id}.
func (h *lockCalls) release(c *web.Call) error {
	asked, err := decode[wire.LockRelease](c)
	if err != nil {
		return err
	}
	if asked.Token == "" {
		return badLock("the token is missing")
	}
	if err := h.service.Release(c.Context(), lockName(c), asked.Token); err != nil {
		return err
	}
	return c.NoContent()
}

// show is GET /v1/locks/{op}/{id}.
func (h *lockCalls) show(c *web.Call) error {
	held, err := h.service.Show(c.Context(), lockName(c))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, clientrecords.LockState{Held: !held.Until.IsZero(), Fence: held.Fence,
		ExpiresAt: held.Until})
}
