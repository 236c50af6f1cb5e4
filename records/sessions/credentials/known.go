package credentials

import (
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records/sessions"
)

// known is what a server knows of a session. It is the Origin of its principal.
type known struct {
	of        sessions.Ref
	by        *Credentials
	principal *access.Principal

	gone     atomic.Bool  // the session was revoked, or has ended
	ends     atomic.Int64 // in milliseconds since 1970
	active   atomic.Int64 // when it was last active, in seconds since 1970
	touching atomic.Bool  // it is being renewed

	// Credentials.mu guards the following.
	waits   int  // requests that wait with it
	changed bool // since it was read
	losses  int  // Credentials.losses when it was read
}

var _ access.Lasting = (*known)(nil)

func (c *Credentials) newKnown(of sessions.Ref, s sessions.Session) *known {
	k := &known{of: of, by: c}
	k.principal = &access.Principal{
		Kind: access.Session, Subject: of.User, Credential: of.ID, Issued: s.Created, Grants: c.o.Grants, Origin: k,
	}
	return k
}

// update takes in what was read.
func (k *known) update(s sessions.Session, ttl time.Duration) {
	ends := s.Expires
	if ends.IsZero() {
		ends = s.LastActivity.Add(ttl)
	}
	k.ends.Store(ends.UnixMilli())
	k.active.Store(s.LastActivity.Unix())
}

// Ends returns when the session ends, unless it is renewed.
func (k *known) Ends() time.Time { return time.UnixMilli(k.ends.Load()) }

// Held keeps a session up to date while requests wait with it.
func (k *known) Held(waits int) {
	c := k.by
	c.mu.Lock()
	defer c.mu.Unlock()
	k.waits += waits
	if k.waits == 0 {
		c.release(k)
		return
	}
	c.held[k.of] = k
	if k.isDoubtful() {
		c.doubt(k)
	}
}

// release forgets that requests wait with a session. There may be another one with its token, if this one is gone.
func (c *Credentials) release(k *known) {
	if c.held[k.of] == k {
		delete(c.held, k.of)
	}
	if c.doubted[k.of] == k {
		delete(c.doubted, k.of)
	}
	if _, ok := c.lru.Peek(k.of); !ok {
		k.changed = true // its changes aren't noted any more
	}
}

// isDoubtful reports whether a session must be read again.
func (k *known) isDoubtful() bool {
	return k.gone.Load() || k.changed || k.losses != k.by.losses
}
