package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/tidemark-dev/tidemark/internal/program/config"
)

// notifyStopping tells systemd that the service ends, which its TimeoutStopSec bounds. The watchdog's time limit is
// raised, since the listeners are closed before the last requests are answered.
const notifyStopping = daemon.SdNotifyStopping + "\nWATCHDOG_USEC=3600000000"

// notifyReloading tells systemd that a reload begins. READY=1 ends it. Units of the type notify-reload need the time.
func notifyReloading() string {
	return daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec()
}

// notify tells systemd the state of the process, if systemd has started it as a unit of the type notify.
func notify(ctx context.Context, state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.WarnContext(ctx, "cannot notify systemd", "state", state, "error", err)
	}
}

// startWatchdog starts a part that notifies systemd periodically while a listener of the service answers, if the unit
// has WatchdogSec. Without notifications for that long, systemd ends the process with SIGABRT, which prints the stacks
// of all goroutines.
func startWatchdog(ctx context.Context, l livez, needs partNeeds) error {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("read the watchdog's environment: %w", err)
	}
	if limit == 0 {
		return nil
	}
	needs.parts.Run(ctx, "watchdog", func(ctx context.Context) error {
		ticks := time.NewTicker(limit / 3)
		defer ticks.Stop()
		for {
			if err := answers(ctx, l, limit/3); err == nil {
				notify(ctx, daemon.SdNotifyWatchdog, needs.log)
			} else if ctx.Err() == nil {
				needs.log.ErrorContext(ctx, "the service does not answer the watchdog", "url", l.url, "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticks.C:
			}
		}
	})
	return nil
}

// watched returns the request that the watchdog makes: of the admin listener, if there is one, which the connections of
// clients can't exhaust.
func watched(on listening, clients, admin net.Listener) livez {
	at := clients
	if admin != nil {
		at = admin
	}
	address := at.Addr().String()
	if at.Addr().Network() == "unix" {
		return newLivez(config.UnixPrefix+address, false)
	}
	if host, port, err := net.SplitHostPort(address); err == nil {
		address = net.JoinHostPort(reachable(host), port)
	}
	return newLivez(address, on.certs != nil)
}

// answers returns an error unless a request is answered in time. A refusal of a connection without a certificate is an
// answer, too.
func answers(ctx context.Context, l livez, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	response, err := l.request(ctx)
	switch {
	case isAlert(err):
		return nil
	case err != nil:
		return err
	}
	return response.Body.Close()
}
