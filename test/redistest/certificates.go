package redistest

import (
	"crypto/tls"

	"github.com/tidemark-dev/tidemark/internal/certs/certstest"
)

// certificates is a CA and its server certificate for loopback, as files and as a client's configuration.
type certificates struct {
	caFile string
	server certstest.Pair
	client *tls.Config
}

// makeCertificates makes a CA and a certificate, and writes them into dir.
func makeCertificates(dir string) (*certificates, error) {
	ca, err := certstest.New(dir)
	if err != nil {
		return nil, err
	}
	c := &certificates{caFile: ca.File}
	if c.server, err = ca.Issue("server"); err != nil {
		return nil, err
	}
	c.client, err = ca.Client()
	return c, err
}

// arguments returns the server's arguments for TLS with clients, replicas and its cluster.
func (c *certificates) arguments() []string {
	return []string{
		"--tls-cert-file", c.server.Cert, "--tls-key-file", c.server.Key, "--tls-ca-cert-file", c.caFile,
		"--tls-auth-clients", "no", "--tls-replication", "yes", "--tls-cluster", "yes",
	}
}
