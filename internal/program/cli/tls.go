package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/certs"
)

// tlsFlags are the files that a command uses for TLS.
type tlsFlags struct {
	ca, cert, key string
}

func (f *tlsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.ca, "ca-file", "",
		"`FILE` PEM file with the authorities that may sign the service's certificate, in place of the system's")
	flags.StringVar(&f.cert, "cert-file", "", "`FILE` PEM file with a certificate to show, for a service that asks for one")
	flags.StringVar(&f.key, "key-file", "", "`FILE` PEM file with the private key of --cert-file")
}

func (f *tlsFlags) set() bool { return *f != tlsFlags{} }

// transport returns how a command connects to a service at a URL, or nil if no flag is set.
func (f *tlsFlags) transport(server string) (*http.Transport, error) {
	if !f.set() {
		return nil, nil
	}
	if !strings.HasPrefix(server, "https://") {
		return nil, Usagef("--ca-file, --cert-file and --key-file are for a service at https://")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		var err error
		if c.RootCAs, err = certs.ReadAuthorities(f.ca); err != nil {
			return nil, Usagef("--ca-file: %w", err)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := f.pair()
		if err != nil {
			return nil, &UsageError{Err: err}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport of net/http was replaced")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = c
	return transport, nil
}

func (f *tlsFlags) pair() (tls.Certificate, error) {
	if f.cert == "" || f.key == "" {
		return tls.Certificate{}, errors.New("--cert-file and --key-file must be set together")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("--cert-file: %w", err)
	}
	return pair, nil
}
