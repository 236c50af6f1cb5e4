package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/cli"
	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/server"
)

const (
	optionListen     = "listen"
	optionGRPCListen = "grpc-listen"
)

// listening is how the server listens.
type listening struct {
	addresses map[string]string // by option
	certs     *certs.Keeper     // nil: without TLS
}

// newListening returns how a server with a configuration listens. It reads the certificate.
func newListening(c config.Config, log *slog.Logger) (on listening, err error) {
	on.addresses = map[string]string{optionListen: c.Server.Listen}
	if c.Matchmaking.On && c.GRPC.Listen != "" {
		on.addresses[optionGRPCListen] = c.GRPC.Listen
	}
	if c.TLS.Cert == "" {
		return on, nil
	}
	if on.certs, err = certs.Open(certs.Files(c.TLS), log); err != nil {
		return on, &cli.UsageError{Err: err}
	}
	return on, nil
}

// open opens the listeners.
func (on listening) open(ctx context.Context) (l server.Listeners, err error) {
	if l.HTTP, err = on.listen(ctx, optionListen, "h2", "http/1.1"); err != nil {
		return server.Listeners{}, err
	}
	if on.addresses[optionGRPCListen] != "" {
		if l.GRPC, err = on.listen(ctx, optionGRPCListen, "h2"); err != nil {
			return server.Listeners{}, errors.Join(err, l.HTTP.Close())
		}
	}
	return l, nil
}

// check returns an error if an address can't be listened on. It closes the listeners again, so that a client that connects
// while the service starts is refused, and doesn't wait.
func (on listening) check(ctx context.Context) error {
	for option := range on.addresses {
		l, err := on.listen(ctx, option)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// listen listens on the address of an option, for clients of the protocols.
func (on listening) listen(ctx context.Context, option string, protocols ...string) (net.Listener, error) {
	address := on.addresses[option]
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use by another program: stop it, or set another --%s", address, option)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	case on.certs != nil:
		return tls.NewListener(l, on.certs.Config(protocols...)), nil
	}
	return l, nil
}

// urlOf returns the URL of a listener for programs on this machine.
func (on listening) urlOf(addr net.Addr) string {
	scheme, host := "http", addr.String()
	if on.certs != nil {
		scheme = "https"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return scheme + "://" + host
}
