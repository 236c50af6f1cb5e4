// Package certs keeps the certificate that a server shows to its clients. It reads the certificate again when its files
// change, so that a renewed one needs no restart.
package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// checkPause is how long after looking at the files they are looked at again.
const checkPause = time.Second

// suites are the cipher suites of TLS 1.2 with authenticated encryption. Those with CBC have none; crypto/tls permits some
// of them by default.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Files are PEM files.
type Files struct {
	Cert     string // the certificate, followed by intermediate certificates
	Key      string // its private key
	ClientCA string // the authorities of clients, which must then show a certificate; "": they need none
}

// Keeper holds the contents of files. Many goroutines may use it.
type Keeper struct {
	files   Files
	log     *slog.Logger
	current atomic.Pointer[tls.Config] // from the last readable files

	looking sync.Mutex // held by the handshake that checks the files; guards the fields below
	looked  time.Time
	seen    states           // of each file, when it was last read
	pending *tls.Certificate // of the files, but not valid now, while an earlier one is; nil: none
}

// Open reads the files.
func Open(files Files, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{files: files, log: log, seen: files.read(), looked: time.Now()}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// Config returns the configuration of a listener for clients of the protocols. Handshakes check the files, at most once
// a second. If changed files can't be read, or don't belong together, the certificate that was read before is kept. It
// is also kept while it is valid and the new one has expired, or isn't valid yet.
func (k *Keeper) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			k.refresh()
			c := k.current.Load().Clone()
			c.NextProtos = protocols
			return c, nil
		},
	}
}

// Shows reports whether a certificate is the one that is shown to clients.
func (k *Keeper) Shows(certificate *x509.Certificate) bool {
	k.refresh()
	return bytes.Equal(k.current.Load().Certificates[0].Certificate[0], certificate.Raw)
}

// NotAfter returns when the certificate expires, or an earlier one of those that are shown with it. It checks the files
// as a handshake does.
func (k *Keeper) NotAfter() time.Time {
	k.refresh()
	shown := k.current.Load().Certificates[0]
	earliest := shown.Leaf.NotAfter
	for _, der := range shown.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil && c.NotAfter.Before(earliest) {
			earliest = c.NotAfter
		}
	}
	return earliest
}

// refresh reads the files if they have changed, unless another handshake is doing it.
func (k *Keeper) refresh() {
	if !k.looking.TryLock() {
		return
	}
	defer k.looking.Unlock()
	if time.Since(k.looked) < checkPause {
		return
	}
	k.looked = time.Now()
	found := k.files.read() // before they are read, so that a change meanwhile is noticed next time
	if found.same(k.seen) {
		k.usePending()
		return
	}
	k.seen = found
	if err := k.read(); err != nil {
		k.log.Warn("the certificate's files have changed and can't be used; the earlier certificate is kept", "error",
			err)
	}
}

// read reads the files, and replaces the current configuration if they can be used.
func (k *Keeper) read() error {
	pair, err := tls.LoadX509KeyPair(k.files.Cert, k.files.Key)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites, Certificates: []tls.Certificate{pair}}
	if k.files.ClientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.SessionTicketsDisabled = true // each connection is checked against the authorities of its time
		if c.ClientCAs, err = ReadAuthorities(k.files.ClientCA); err != nil {
			return fmt.Errorf("read the authorities of clients: %w", err)
		}
	}
	k.use(c)
	return nil
}

// use replaces the current configuration. A certificate that is valid is kept if the new one isn't.
func (k *Keeper) use(c *tls.Config) {
	pair, old, now := c.Certificates[0], k.current.Load(), time.Now()
	about := []any{"file", k.files.Cert, "names", pair.Leaf.DNSNames, "begins", pair.Leaf.NotBefore, "expires",
		pair.Leaf.NotAfter}
	k.pending = nil
	switch {
	case isValid(&pair, now):
		k.log.Info("certificate read", about...)
	case old != nil && isValid(&old.Certificates[0], now):
		k.log.Warn("the new certificate isn't valid now; the earlier certificate is kept", about...)
		k.pending, c.Certificates = &pair, old.Certificates
	default:
		k.log.Warn("the certificate isn't valid now", about...)
	}
	k.current.Store(c)
}

// usePending uses the certificate of the files once it is valid, or the earlier one no longer is.
func (k *Keeper) usePending() {
	c, now := k.current.Load(), time.Now()
	if k.pending == nil || !isValid(k.pending, now) && isValid(&c.Certificates[0], now) {
		return
	}
	c = c.Clone()
	c.Certificates = []tls.Certificate{*k.pending}
	k.use(c)
}

// isValid reports whether a certificate has begun and hasn't expired.
func isValid(pair *tls.Certificate, now time.Time) bool {
	return !now.Before(pair.Leaf.NotBefore) && now.Before(pair.Leaf.NotAfter)
}

// ReadAuthorities reads the certificates of a PEM file.
func ReadAuthorities(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(path + " contains no certificate in PEM form")
	}
	return pool, nil
}

// read returns the states of the files.
func (f Files) read() (found states) {
	for i, path := range []string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			found[i] = info
		}
	}
	return found
}

// states are the states of the files in the file system; nil: missing.
type states [3]os.FileInfo

func (s states) same(others states) bool {
	for i, file := range s {
		other := others[i]
		if file == nil || other == nil {
			if file != other {
				return false
			}
			continue
		}
		if !os.SameFile(file, other) || !file.ModTime().Equal(other.ModTime()) || file.Size() != other.Size() {
			return false
		}
	}
	return true
}
