// Package certstest makes certificates for tests, of servers and clients on loopback addresses.
package certstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates. It is used by one goroutine.
type Authority struct {
	File   string // the authority's own certificate
	dir    string
	cert   *x509.Certificate
	key    crypto.Signer
	issued int64
}

// Pair is the files of a certificate and its key.
type Pair struct{ Cert, Key string }

// New returns an authority that writes its files into dir.
func New(dir string) (*Authority, error) {
	template := newTemplate(1, "test authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	a := &Authority{File: filepath.Join(dir, "ca.pem"), dir: dir, cert: template, key: key, issued: 1}
	return a, writePEM(a.File, "CERTIFICATE", der)
}

// Issue writes a certificate for 127.0.0.1 and localhost, for servers and clients, and its key. It replaces those of
// the same name. It is valid for a day.
func (a *Authority) Issue(name string) (Pair, error) {
	return a.IssueFor(name, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
}

// IssueFor is Issue for a certificate that is valid from one time to another.
func (a *Authority) IssueFor(name string, from, to time.Time) (Pair, error) {
	a.issued++
	template := newTemplate(a.issued, name)
	template.NotBefore, template.NotAfter = from, to
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("make a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a key: %w", err)
	}
	p := Pair{Cert: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+"-key.pem")}
	if err := writePEM(p.Cert, "CERTIFICATE", cert); err != nil {
		return Pair{}, err
	}
	return p, writePEM(p.Key, "PRIVATE KEY", encoded)
}

// Client returns the configuration of a client that trusts the authority and shows certificates.
func (a *Authority) Client(shown ...Pair) (*tls.Config, error) {
	content, err := os.ReadFile(a.File)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AppendCertsFromPEM(content)
	for _, p := range shown {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = append(c.Certificates, pair)
	}
	return c, nil
}

func newTemplate(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
