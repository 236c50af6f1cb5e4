package certs_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/certs/certstest"
)

// setting is an authority, a certificate for a server, and one for a client.
type setting struct {
	t              *testing.T
	authority      *certstest.Authority
	server, client certstest.Pair
	log            bytes.Buffer
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	s := &setting{t: t}
	var err error
	s.authority, err = certstest.New(t.TempDir())
	require.NoError(t, err)
	s.server, s.client = s.issue("server"), s.issue("client")
	return s
}

func (s *setting) issue(name string) certstest.Pair {
	s.t.Helper()
	p, err := s.authority.Issue(name)
	require.NoError(s.t, err)
	return p
}

func (s *setting) open(files certs.Files) (*certs.Keeper, error) {
	return certs.Open(files, slog.New(slog.NewTextHandler(&s.log, nil)))
}

// handshake returns the state of a client's connection to a server, or the server's error.
func (s *setting) handshake(k *certs.Keeper, client *tls.Config) (tls.ConnectionState, error) {
	s.t.Helper()
	here, there := net.Pipe()
	server, dialed := tls.Server(there, k.Config("h2", "http/1.1")), tls.Client(here, client)
	var serving sync.WaitGroup
	var err error
	serving.Go(func() {
		err = server.Handshake()
		_ = there.Close()
	})
	failed := dialed.Handshake()
	if failed == nil {
		_, _ = dialed.Read(make([]byte, 1)) // until the server has finished too, in TLS 1.3
	}
	serving.Wait()
	_ = here.Close()
	if err == nil {
		err = failed
	}
	return dialed.ConnectionState(), err
}

func (s *setting) trusting(shown ...certstest.Pair) *tls.Config {
	s.t.Helper()
	c, err := s.authority.Client(shown...)
	require.NoError(s.t, err)
	c.ServerName, c.NextProtos = "localhost", []string{"h2"}
	return c
}

// TestRenewal replaces the certificate: it is used within a second, and an invalid one isn't.
func TestRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		k, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key})
		require.NoError(t, err)
		serial := func() int64 {
			state, err := s.handshake(k, s.trusting())
			require.NoError(t, err)
			require.Equal(t, "h2", state.NegotiatedProtocol)
			return state.PeerCertificates[0].SerialNumber.Int64()
		}
		first := serial()
		pass()
		require.Equal(t, first, serial())

		s.issue("server")
		require.Equal(t, first, serial(), "the files were looked at in this second")
		pass()
		second := serial()
		require.Greater(t, second, first)

		key, err := os.ReadFile(s.server.Key)
		require.NoError(t, err)
		for _, bad := range [][]byte{nil, []byte("nonsense"), readFile(t, s.client.Key)} { // the last one is another's
			require.NoError(t, os.RemoveAll(s.server.Key))
			if bad != nil {
				require.NoError(t, os.WriteFile(s.server.Key, bad, 0o600))
			}
			for range 3 {
				pass()
				require.Equal(t, second, serial())
			}
		}
		require.Equal(t, 3, bytes.Count(s.log.Bytes(), []byte("the earlier certificate is kept")),
			"once for each change: %s", s.log.String())
		require.NotContains(t, s.log.String(), "nonsense")
		require.NoError(t, os.WriteFile(s.server.Key, key, 0o600))
		s.issue("server")
		pass()
		require.Greater(t, serial(), second)
	})
}

// TestCertificatesThatAreNotValid: one that has expired, or isn't valid yet, doesn't replace a valid one while that is
// valid.
func TestCertificatesThatAreNotValid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		k, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key})
		require.NoError(t, err)
		serial := func() int64 {
			pass()
			c := s.trusting()
			c.InsecureSkipVerify = true
			state, err := s.handshake(k, c)
			require.NoError(t, err)
			return state.PeerCertificates[0].SerialNumber.Int64()
		}
		issue := func(from, to time.Duration) {
			_, err := s.authority.IssueFor("server", time.Now().Add(from), time.Now().Add(to))
			require.NoError(t, err)
		}
		warnings := func() int { return bytes.Count(s.log.Bytes(), []byte("level=WARN")) }
		first := serial()

		issue(-48*time.Hour, -24*time.Hour)
		for range 3 {
			require.Equal(t, first, serial())
		}
		require.Contains(t, s.log.String(), "the new certificate isn't valid now; the earlier certificate is kept")
		require.Equal(t, 1, warnings(), "once for each change: %s", s.log.String())

		issue(time.Minute, 25*time.Hour)
		require.Equal(t, first, serial())
		pause(time.Minute)
		third := serial()
		require.Equal(t, first+3, third, "its time has come")

		issue(-48*time.Hour, -24*time.Hour)
		require.Equal(t, third, serial())
		pause(25 * time.Hour)
		require.Equal(t, third+1, serial(), "neither is valid: that of the files is used")
		require.Equal(t, 4, warnings(), s.log.String())

		expired, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key})
		require.NoError(t, err)
		require.NotNil(t, expired)
		require.Equal(t, 5, warnings(), "it is used at the start, as there is no other one")
	})
}

// TestNotAfter: the earliest end of the certificates that are shown, without a handshake after the files have changed.
func TestNotAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		issue := func(name string, life time.Duration) []byte {
			pair, err := s.authority.IssueFor(name, time.Now(), time.Now().Add(life))
			require.NoError(t, err)
			return readFile(t, pair.Cert)
		}
		requireLeft := func(want time.Duration, k *certs.Keeper) {
			t.Helper()
			require.InDelta(t, want, time.Until(k.NotAfter()), float64(time.Minute))
		}
		issue("server", 10*time.Hour)
		k, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key})
		require.NoError(t, err)
		requireLeft(10*time.Hour, k)
		leaf := issue("server", 20*time.Hour)
		pass()
		requireLeft(20*time.Hour, k)
		require.NoError(t, os.WriteFile(s.server.Cert, append(leaf, issue("other", 5*time.Hour)...), 0o600))
		pass()
		requireLeft(5*time.Hour, k)
	})
}

// pause advances time.
func pause(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the time of synctest

// pass advances time until files are checked again.
func pass() { time.Sleep(time.Second) } //nolint:forbidigo // the time of synctest

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// TestClients: without authorities clients need no certificate; with authorities, they need a certificate signed by a
// current one.
func TestClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, other := newSetting(t), newSetting(t)
		k, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key, ClientCA: s.authority.File})
		require.NoError(t, err)
		cached := s.trusting(s.client)
		cached.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for _, client := range []*tls.Config{cached, cached, s.trusting(s.client)} {
			state, err := s.handshake(k, client)
			require.NoError(t, err)
			require.False(t, state.DidResume)
		}
		_, err = s.handshake(k, s.trusting())
		require.ErrorContains(t, err, "client didn't provide a certificate")
		_, err = s.handshake(k, s.trusting(other.client))
		require.ErrorContains(t, err, "unknown authority")

		require.NoError(t, os.WriteFile(s.authority.File, readFile(t, other.authority.File), 0o600))
		pass()
		_, err = s.handshake(k, cached)
		require.Error(t, err, "the authority isn't trusted any more")
	})
}

func TestOldVersions(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	k, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key})
	require.NoError(t, err)
	old := s.trusting()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err = s.handshake(k, old)
	require.ErrorContains(t, err, "unsupported versions")
}

// TestSuites: a client of TLS 1.2 needs a suite with authenticated encryption.
func TestSuites(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	k, err := s.open(certs.Files{Cert: s.server.Cert, Key: s.server.Key})
	require.NoError(t, err)
	for _, suite := range tls.CipherSuites() {
		if !strings.HasPrefix(suite.Name, "TLS_ECDHE_ECDSA_") { // for the certificate's key
			continue
		}
		client := s.trusting()
		client.MaxVersion, client.CipherSuites = tls.VersionTLS12, []uint16{suite.ID}
		state, err := s.handshake(k, client)
		if strings.Contains(suite.Name, "_CBC_") {
			require.ErrorContains(t, err, "no cipher suite supported by both client and server", suite.Name)
			continue
		}
		require.NoError(t, err, suite.Name)
		require.Equal(t, suite.ID, state.CipherSuite)
	}
}

func TestFilesThatCantBeUsed(t *testing.T) {
	t.Parallel()
	s := newSetting(t)
	good := certs.Files{Cert: s.server.Cert, Key: s.server.Key, ClientCA: s.authority.File}
	missing := filepath.Join(t.TempDir(), "missing")
	for want, bad := range map[string]func(*certs.Files){
		"read the certificate: open " + missing:            func(f *certs.Files) { f.Cert = missing },
		"read the certificate: tls: private key does not":  func(f *certs.Files) { f.Key = s.client.Key },
		"read the authorities of clients: open " + missing: func(f *certs.Files) { f.ClientCA = missing },
		"contains no certificate in PEM form":              func(f *certs.Files) { f.ClientCA = s.server.Key },
	} {
		files := good
		bad(&files)
		_, err := s.open(files)
		require.ErrorContains(t, err, want)
	}
}
