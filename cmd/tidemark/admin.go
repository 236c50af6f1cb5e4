package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/admin"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/places"
)

// Limits of the admin listener of a node.
const (
	adminConnections = 64
	adminRequestTime = 10 * time.Second
	adminAnswerTime  = 2 * time.Minute // longer than the longest profile
	adminBodyBytes   = 1 << 10
)

// administration serves the probes of a node, its metrics, and the profiles of its process.
type administration struct {
	router *web.Router
	log    *slog.Logger
}

// newAdministration returns the handlers for administrators. With a token they must present it, except for probes.
func newAdministration(ready func() error, n nodeNeeds) (*administration, error) {
	var guard *access.Guard
	if token := n.Config.Token; token != "" {
		var err error
		if guard, err = access.New(
			access.Options{Authenticators: []access.Authenticator{tokenOfNodes(
				sha256.Sum256([]byte(token)))}}); err != nil {
			return nil, err
		}
	}
	a := &administration{log: n.Log, router: web.New(web.Options{
		Logger: n.Log, Metrics: n.Metrics, Guard: guard, MaxBodyBytes: adminBodyBytes,
		BodyMemory:  adminConnections * adminBodyBytes,
		ReadTimeout: adminRequestTime,
		Ready: func(context.Context) error {
			if err := ready(); err != nil {
				return &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, Detail: err.Error()}
			}
			return nil
		},
	})}
	admin.Register(a.router, admin.Options{Metrics: n.Metrics})
	web.RegisterProbes(a.router)
	return a, nil
}

// serve serves on a listener until ctx ends, and finishes the requests in flight.
func (a *administration) serve(ctx context.Context, l net.Listener) error {
	served := &http.Server{
		Handler: a.router.Admin(), BaseContext: web.BaseContext(context.WithoutCancel(ctx)),
		ReadHeaderTimeout: adminRequestTime, ReadTimeout: adminRequestTime,
		WriteTimeout: adminAnswerTime, IdleTimeout: adminAnswerTime,
		MaxHeaderBytes: web.MaxHeaderBytes, DisableGeneralOptionsHandler: true,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if conn.LocalAddr().Network() == "unix" { // anybody who can connect is the administrator
				ctx = access.With(ctx, access.Local())
			}
			return places.With(ctx, conn.(*places.Conn).Place)
		},
	}
	limited := &places.Listener{Listener: l, Limit: places.New(adminConnections, nil, nil)}
	failed := make(chan error, 1)
	go func() { failed <- served.Serve(limited) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminRequestTime)
	defer cancel()
	if err := served.Shutdown(ending); err != nil {
		return errors.Join(err, served.Close())
	}
	return nil
}

// tokenOfNodes is the hash of the token of nodes. It is an access.Authenticator: the token makes its bearer an
// administrator of the node.
type tokenOfNodes [sha256.Size]byte

// Accepts implements access.Authenticator.
func (tokenOfNodes) Accepts(string) bool { return true }

// Authenticate implements access.Authenticator.
func (t tokenOfNodes) Authenticate(_ context.Context, credential string) (*access.Principal, error) {
	if sum := sha256.Sum256([]byte(credential)); subtle.ConstantTimeCompare(sum[:], t[:]) == 0 {
		return nil, access.ErrInvalidCredential
	}
	return access.Local(), nil
}
