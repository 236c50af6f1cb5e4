package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/recent"
	"github.com/tidemark-dev/tidemark/internal/redact"
)

// Procedure counts and logs the calls of a procedure that another server than net/http's serves, as a route does for
// its requests. Its methods may be called by several goroutines.
type Procedure struct {
	log     *requestLog
	metrics *routeMetrics
}

// Outcome is how a call of a Procedure ended.
type Outcome struct {
	Path    string
	Status  int
	Err     error // the error, for the log
	Elapsed time.Duration
	// Principal is the client; nil: unknown, or the service is open.
	Principal *access.Principal
	// About returns the request's ID and the client's address. It is called only if the call is logged.
	About func() (id, client string)
}

// Procedure returns the recorder that counts and logs the calls of a path.
func (r *Router) Procedure(path string) *Procedure {
	return &Procedure{log: r.log, metrics: r.metrics.route(path, http.MethodPost)}
}

// Stray returns the recorder that counts and logs the calls of unknown paths.
func (r *Router) Stray() *Procedure { return &Procedure{log: r.log, metrics: r.stray.metrics} }

// Done counts a call that has ended, and logs it.
func (p *Procedure) Done(ctx context.Context, o Outcome) {
	p.metrics.observe(ctx, o.Status, o.Elapsed)
	l := logged{method: http.MethodPost, path: o.Path, principal: o.Principal, status: o.Status, elapsed: o.Elapsed,
		err: o.Err}
	if isRefusal(o.Status, o.Err) {
		l.id, l.client = o.About()
		p.log.remember(l)
	}
	level := p.log.level(o.Status, o.Err, false)
	if !p.log.Enabled(ctx, level) {
		return
	}
	l.id, l.client = o.About()
	l.write(ctx, p.log.Logger, level)
}

// LogPanic logs a panic with the stack of the calling goroutine.
func (p *Procedure) LogPanic(id string, value any) { logPanic(p.log.Logger, id, value) }

// logged is a request for the log.
type logged struct {
	id, method, path, client string
	principal                *access.Principal // nil: unknown, or the service is open
	status                   int
	elapsed                  time.Duration
	err                      error // the error; may be nil
}

// Refused credentials in a second, after a burst, that are logged at level info; others are logged at level debug.
const (
	refusalRate  = 1
	refusalBurst = 20
)

// requestLog is the log of requests. Its methods may be called by several goroutines.
type requestLog struct {
	*slog.Logger

	refusals *rate.Limiter
	recent   recent.LRU[refused, Refusal]
}

func newRequestLog(log *slog.Logger) *requestLog {
	return &requestLog{Logger: log, refusals: rate.NewLimiter(refusalRate, refusalBurst)}
}

// level returns the level at which a request is logged. reserved is set if its connection is beyond the limit, which is
// logged once.
func (l *requestLog) level(status int, err error, reserved bool) slog.Level {
	switch {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status == http.StatusNotImplemented: // the client's mistake
		return slog.LevelDebug
	case status > http.StatusInternalServerError && !reserved:
		return slog.LevelWarn
	case status == http.StatusUnauthorized && !errors.Is(err, access.ErrNoCredential) && l.refusals.Allow():
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (l logged) write(ctx context.Context, log *slog.Logger, level slog.Level) {
	attrs := []slog.Attr{
		slog.String("requestId", redact.Credentials(l.id)), slog.String("method", l.method),
		slog.String("path", redact.Credentials(l.path)),
		slog.Int("status", l.status), slog.Duration("elapsed", l.elapsed), slog.String("client", l.client),
	}
	if l.principal != nil {
		attrs = append(attrs, slog.String("principal", l.principal.Name()))
	}
	if l.err != nil {
		attrs = append(attrs, slog.Any("error", l.err))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}
