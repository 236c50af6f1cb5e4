package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifyStopping tells systemd that the service ends, which its TimeoutStopSec bounds. The watchdog's time limit is
// raised, since the listeners are closed before the last requests are answered.
const notifyStopping = daemon.SdNotifyStopping + "\nWATCHDOG_USEC=3600000000"

// notify tells systemd the state of the process, if systemd has started it as a unit of the type notify.
func notify(ctx context.Context, state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.WarnContext(ctx, "cannot notify systemd", "state", state, "error", err)
	}
}

// startWatchdog starts a part that notifies systemd periodically while the service answers on an address, if the unit
// has WatchdogSec. Without notifications for that long, systemd ends the process with SIGABRT, which prints the stacks
// of all goroutines.
func startWatchdog(ctx context.Context, on listening, addr net.Addr, needs partNeeds) error {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("read the watchdog's environment: %w", err)
	}
	if limit == 0 {
		return nil
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return err
	}
	scheme := "http"
	if on.certs != nil {
		scheme = "https"
	}
	url := scheme + "://" + net.JoinHostPort(reachable(host), port) + "/livez"
	transport := &http.Transport{
		DisableKeepAlives: true, // the listener must accept each time
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // nothing secret is sent, and the port is this process's own
		},
	}
	needs.parts.Run(ctx, "watchdog", func(ctx context.Context) error {
		ticks := time.NewTicker(limit / 3)
		defer ticks.Stop()
		for {
			if err := answers(ctx, transport, url, limit/3); err == nil {
				notify(ctx, daemon.SdNotifyWatchdog, needs.log)
			} else if ctx.Err() == nil {
				needs.log.ErrorContext(ctx, "the service does not answer the watchdog", "url", url, "error", err)
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

// answers returns an error unless a request is answered in time. A refusal of a connection without a certificate is an
// answer, too.
func answers(ctx context.Context, transport http.RoundTripper, url string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	var failed *net.OpError
	switch {
	case errors.As(err, &failed) && failed.Op == "remote error": // crypto/tls has received an alert
		return nil
	case err != nil:
		return err
	}
	return response.Body.Close()
}
