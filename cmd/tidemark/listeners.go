package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/server"
)

const (
	optionListen     = "listen"
	optionGRPCListen = "grpc-listen"
	optionAdmin      = "admin-listen"
	optionOpenMatch  = "openmatch-listen" // followed by a space and the name of a service in listening.addresses
)

// listening is how a server listens.
type listening struct {
	closed    bool                     // clients need credentials
	insecure  bool                     // clients need none, on any address
	remedy    string                   // the option to set if they need none
	named     func(flag string) string // names an option in a message, such as config.InServe
	addresses map[string]string        // by option
	certs     *certs.Keeper            // nil: without TLS
	certFile  string
}

// remedyOpen returns how to fix an open service that other machines can reach.
func remedyOpen() string {
	return fmt.Sprintf("set %s, %s or %s, or a loopback address such as 127.0.0.1; %s lets everybody do everything",
		config.InServe("api-keys"), config.InServe("jwt-keys"), config.InServe("require-credentials"),
		config.InServe("insecure"))
}

// newListening returns how a server with a configuration listens. It reads the certificate.
func newListening(c config.Config, log *slog.Logger) (on listening, err error) {
	on = listening{
		closed: c.Access.Closed(), insecure: c.Access.Insecure,
		addresses: map[string]string{optionListen: c.Server.Listen},
		remedy:    remedyOpen(),
		named:     config.InServe,
	}
	if c.Matchmaking.On && c.GRPC.Listen != "" {
		on.addresses[optionGRPCListen] = c.GRPC.Listen
	}
	if c.Matchmaking.On {
		for service, address := range c.GRPC.OpenMatch.ByService() {
			on.addresses[optionOpenMatch+" "+service] = address
		}
	}
	if c.Server.AdminListen != "" {
		on.addresses[optionAdmin] = c.Server.AdminListen
	}
	return on, on.readCertificate(c.TLS, log)
}

func (on *listening) readCertificate(files config.TLS, log *slog.Logger) (err error) {
	if files.Cert == "" {
		return nil
	}
	if on.certs, err = certs.Open(certs.Files(files), log); err != nil {
		return &cli.UsageError{Err: err}
	}
	on.certFile = files.Cert
	return nil
}

// register registers the metric of the certificate.
func (on *listening) register(r prometheus.Registerer) error {
	if on.certs == nil {
		return nil
	}
	return metrics.RegisterCertificate(r, on.certFile, on.certs.NotAfter)
}

// open opens the listeners.
func (on listening) open(ctx context.Context) (l server.Listeners, err error) {
	var opened []net.Listener
	l.OpenMatch = map[string]net.Listener{}
	for option := range on.addresses {
		protocols := []string{"h2", "http/1.1"}
		if option == optionGRPCListen {
			protocols = protocols[:1]
		}
		listener, err := on.listen(ctx, option, protocols...)
		if err != nil {
			for _, l := range opened {
				err = errors.Join(err, l.Close())
			}
			return server.Listeners{}, err
		}
		opened = append(opened, listener)
		switch option {
		case optionListen:
			l.HTTP = listener
		case optionGRPCListen:
			l.GRPC = listener
		case optionAdmin:
			l.Admin = listener
		default:
			l.OpenMatch[strings.TrimPrefix(option, optionOpenMatch+" ")] = listener
		}
	}
	return l, nil
}

// check returns an error if an address can't be listened on. It closes the listeners again, so that a client that
// connects while the service starts is refused, and doesn't wait.
func (on listening) check(ctx context.Context, log *slog.Logger) error {
	for option := range on.addresses {
		l, err := on.listen(ctx, option)
		if err != nil {
			return err
		}
		if on.closed && on.certs == nil && !isLocal(l.Addr()) {
			log.WarnContext(ctx,
				"credentials and messages cross the network in plain text: set tls-cert, unless a proxy encrypts them",
				"option", option, "address", l.Addr())
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// listen listens on the address of an option, for clients of the protocols.
func (on listening) listen(ctx context.Context, option string, protocols ...string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(on.addresses[option], config.UnixPrefix); ok {
		return listenUnix(ctx, path)
	}
	l, err := on.bind(ctx, option)
	if err == nil && on.certs != nil {
		l = tls.NewListener(l, on.certs.Config(protocols...))
	}
	return l, err
}

// errInUse is the error of an address on which another process listens.
var errInUse = errors.New("the port is in use by another program")

// bind listens on the TCP address of an option, without TLS.
func (on listening) bind(ctx context.Context, option string) (net.Listener, error) {
	address := on.addresses[option]
	option, _, _ = strings.Cut(option, " ")
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: %w: stop it, or set another %s or a %s", address, errInUse,
			on.named(option), on.named("port-offset"))
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	case !isLocal(l.Addr()) && !on.closed && !on.insecure:
		return nil, errors.Join(
			&cli.UsageError{Err: fmt.Errorf("%s: other machines can reach %s, and no credentials are required: %s",
				option, address, on.remedy)}, l.Close())
	}
	return l, nil
}

// isLocal reports whether only programs on this machine can connect to an address.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// urlOf returns the URL of a listener for programs on this machine, or unix: and the path of a socket.
func (on listening) urlOf(addr net.Addr) string {
	scheme, host := "http", addr.String()
	if addr.Network() == "unix" {
		return config.UnixPrefix + host
	}
	if on.certs != nil {
		scheme = "https"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return scheme + "://" + host
}
