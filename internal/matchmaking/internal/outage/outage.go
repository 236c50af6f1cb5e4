// Package outage logs that something fails, and that it works again, once each.
package outage

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Outage is something that can fail for a while. It may be used by many goroutines.
type Outage struct {
	log  *slog.Logger
	what string
	down atomic.Bool
}

// New returns an outage that hasn't begun. what is the log message at its beginning.
func New(log *slog.Logger, what string) *Outage { return &Outage{log: log, what: what} }

// Report records the outcome of a try: the first failure and the first success after it are logged. A failure because
// ctx ended is none.
func (o *Outage) Report(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil:
		if o.down.CompareAndSwap(false, true) {
			o.log.WarnContext(ctx, o.what, "error", err)
		}
	case err == nil && o.down.Load():
		if o.down.CompareAndSwap(true, false) {
			o.log.InfoContext(ctx, "recovered: "+o.what)
		}
	}
}
