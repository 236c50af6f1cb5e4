package records

import (
	"context"
	"net/http"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Sessions are the operations for the handlers of sessions, implemented by *sessions.Service.
type Sessions interface {
	SessionIssuer
	SessionRevoker
	List(ctx context.Context, user string) ([]sessions.Session, error)
}

// SessionIssuer issues and checks tokens of sessions.
type SessionIssuer interface {
	Create(ctx context.Context, user string, n sessions.New) (sessions.Issued, error)
	Check(ctx context.Context, token string) (sessions.Session, error)
	Rotate(ctx context.Context, token, key string) (sessions.Issued, error)
}

// SessionRevoker ends sessions.
type SessionRevoker interface {
	Revoke(ctx context.Context, user, id string) error
	RevokeAll(ctx context.Context, user string) (int, error)
}

type sessionCalls struct{ service Sessions }

func addSessions(a web.API, service Sessions) {
	const ofUser = "/v1/users/:user/sessions"
	h, user, whole := &sessionCalls{service}, of("sessions", 1), of("sessions", 0)
	for _, r := range []web.Route{
		{Method: http.MethodPost, Path: ofUser, Action: access.Write, Of: user, Handle: h.create},
		{Method: http.MethodDelete, Path: ofUser, Action: access.Write, Of: user, Handle: h.revokeAll},
		{Method: http.MethodDelete, Path: ofUser + "/:id", Action: access.Write, Of: user, Handle: h.revoke},
		{Method: http.MethodPost, Path: "/v1/sessions/check", Action: access.Read, Of: whole, Handle: h.check},
		{Method: http.MethodPost, Path: "/v1/sessions/rotate", Action: access.Write, Of: whole, Handle: h.rotate},
	} {
		a.Add(r)
	}
	a.AddGet(web.Route{Path: ofUser, Action: access.Read, Of: user, Handle: h.list})
	a.NothingBelow(ofUser + "/:id")
}

// create is POST /v1/users/{user}/sessions.
func (h *sessionCalls) create(c *web.Call) error {
	return answer(c, http.StatusCreated, func(asked clientrecords.NewSession) (clientrecords.IssuedSession, error) {
		issued, err := h.service.Create(c.Context(), c.Param(0), sessions.New(asked))
		return issuedSession(issued), err
	}, "user")
}

func issuedSession(i sessions.Issued) clientrecords.IssuedSession {
	return clientrecords.IssuedSession{Token: i.Token, User: i.User, Expires: i.Expires}
}

// check is POST /v1/sessions/check.
func (h *sessionCalls) check(c *web.Call) error {
	return answer(c, http.StatusOK, func(asked wire.SessionToken) (clientrecords.Session, error) {
		s, err := h.service.Check(c.Context(), asked.Token)
		return clientrecords.Session(s), err
	})
}

// rotate is POST /v1/sessions/rotate.
func (h *sessionCalls) rotate(c *web.Call) error {
	return answer(c, http.StatusOK, func(asked wire.SessionRotation) (clientrecords.IssuedSession, error) {
		issued, err := h.service.Rotate(c.Context(), asked.Token, asked.IdempotencyKey)
		return issuedSession(issued), err
	}, "user")
}

// listedBytes is about how many bytes a session in a list has besides its name and its device.
const listedBytes = 200

// list is GET /v1/users/{user}/sessions.
func (h *sessionCalls) list(c *web.Call) error {
	all, err := h.service.List(c.Context(), c.Param(0))
	if err != nil {
		return err
	}
	answer, size := wire.Sessions{Sessions: make([]clientrecords.ListedSession, 0, len(all))}, 0
	for _, s := range all {
		size += listedBytes + len(s.Username) + len(s.Device)
		answer.Sessions = append(answer.Sessions, clientrecords.ListedSession{
			ID: s.ID, Username: s.Username, Created: s.Created, LastActivity: s.LastActivity, Device: s.Device,
		})
	}
	if err := c.Encode(size); err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}

// revoke is DELETE /v1/users/{user}/sessions/{id}.
func (h *sessionCalls) revoke(c *web.Call) error {
	return done(c, h.service.Revoke(c.Context(), c.Param(0), c.Param(1)))
}

// revokeAll is DELETE /v1/users/{user}/sessions.
func (h *sessionCalls) revokeAll(c *web.Call) error {
	_, err := h.service.RevokeAll(c.Context(), c.Param(0))
	return done(c, err)
}
