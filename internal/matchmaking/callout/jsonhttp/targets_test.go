package jsonhttp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func targetsOf(t *testing.T, patterns ...string) *Targets {
	t.Helper()
	targets, err := ParseTargets(patterns)
	require.NoError(t, err)
	return targets
}

func TestTargetsCheck(t *testing.T) {
	t.Parallel()
	names := targetsOf(t, "fn.example.com", "FN2.example.com:9000", "*.Pool.example.com:70", "https://a.example/match/")
	addresses := targetsOf(t, "10.1.0.0/16", "192.0.2.7:80", "fd00::7", "[fd00::8]:90")
	check := func(targets *Targets, cases map[string]bool) {
		t.Helper()
		for url, allowed := range cases {
			err := targets.Check(url)
			require.Equal(t, allowed, err == nil, "%s: %v", url, err)
			if err != nil {
				require.NotContains(t, err.Error(), "secret")
			}
		}
	}
	check(names, map[string]bool{
		"http://fn.example.com":             true,
		"https://FN.example.com.:8443/x":    true,
		"http://xfn.example.com":            false,
		"http://fn.example.com.evil.test":   false,
		"http://fn2.example.com:9000/":      true,
		"http://fn2.example.com/":           false,
		"http://a.pool.example.com:70":      true,
		"http://a.b.pool.example.com:70":    true,
		"http://a.pool.example.com":         false,
		"http://pool.example.com:70":        false,
		"http://xpool.example.com:70":       false,
		"https://a.example/match":           true,
		"https://a.example/match/now":       true,
		"https://a.example/matches":         false,
		"https://a.example/match/../admin":  false,
		"https://a.example/match/%2e%2e/x":  false,
		"http://a.example/match":            false,
		"https://a.example:444/match":       false,
		"http://127.0.0.1":                  false,
		"http://127.1":                      false,
		"http://2130706433":                 false,
		"http://localhost":                  false,
		"http://169.254.169.254/latest":     false,
		"http://user:secret@fn.example.com": false,
		"http://fn.example.com@evil.test":   false,
	})
	check(addresses, map[string]bool{
		"http://10.1.255.1:1":           true,
		"http://10.2.0.1":               false,
		"http://[::ffff:10.1.0.1]":      true,
		"http://192.0.2.7":              true,
		"https://192.0.2.7":             false,
		"http://[fd00::7]:70":           true,
		"http://[fd00:0::8]:90":         true,
		"http://[fd00::8]":              false,
		"http://127.0.0.1":              false,
		"http://169.254.169.254/latest": false,
		"http://fn.example.com":         true, // if its address is one of these
		"http://u:secret@10.1.0.1":      false,
	})
	require.ErrorContains(t, targetsOf(t).Check("http://fn.example.com:9000/x?token=1"),
		"fn.example.com:9000 is not allowed for a queue created at run time: see the option callout-allow")
	require.ErrorContains(t, names.Check("http://u@fn.example.com"), "credentials")
	require.NoError(t, (*Targets)(nil).Check("http://user:secret@127.0.0.1"), "a queue of the configuration")
	for _, wrong := range []string{"", "a b", "*", "*.", "a.*.example.com", "*example.com", "10.0.0.0/33", "ftp://a",
		"http://", "http://u@a", "http://a?x=1", "a/b", ":80", "10.0.0.1:99999", "http://a:0x50", ".example.com"} {
		_, err := ParseTargets([]string{wrong})
		require.Error(t, err, wrong)
	}
	_, err := ParseTargets([]string{".example.com"})
	require.EqualError(t, err, `".example.com" begins with a dot: *.example.com stands for all names that end with it`)
}

// TestTargetsDial tests the check after names were resolved.
func TestTargetsDial(t *testing.T) {
	t.Parallel()
	targets := targetsOf(t, "fn.example.com", "10.1.0.0/16", "[fd00::8]:90", "127.0.0.1:23195",
		"http://127.0.0.2:8000/match", "https://[fd00::9]", "127.0.0.3")
	for address, allowed := range map[string]bool{
		"93.184.215.14:80": true, "10.1.2.3:9000": true, "10.2.2.3:9000": false, "127.0.0.1:80": false,
		"127.8.8.8:80": false,
		"0.0.0.0:80":   false, "169.254.169.254:80": false, "192.168.0.1:80": false, "172.16.0.1:80": false,
		"100.64.0.1:80": false,
		"224.0.0.1:80":  false, "255.255.255.255:80": false, "[::1]:80": false, "[::]:80": false, "[fe80::1]:80": false,
		"[fd00:ec2::254]:80": false, "[fd00::8]:90": true, "[ff02::1]:80": false, "[::ffff:127.0.0.1]:80": false,
		"127.0.0.1:23195": true, "127.0.0.1:6379": false, "[::ffff:127.0.0.1]:23195": true, "127.0.0.2:8000": true,
		"127.0.0.2:80": false, "127.0.0.3:6379": true, "[fd00::8]:91": false, "[fd00::9]:443": true,
		"[fd00::9]:80":            false,
		"[64:ff9b::a9fe:a9fe]:80": false, "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443": true,
	} {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		err := targets.control(network, address, nil)
		require.Equal(t, allowed, err == nil, "%s: %v", address, err)
	}
}

// TestTargetsCalls uses actual listeners on a loopback address.
func TestTargetsCalls(t *testing.T) {
	t.Parallel()
	called := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- r.URL.Path
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	post := func(targets *Targets, url string) error {
		c := New(targets, time.Minute, 100)
		defer c.CloseIdle()
		_, err := c.Post(context.WithoutCancel(t.Context()), url, nil, []byte("{}"))
		return err
	}
	// The name is allowed but resolves to a forbidden address.
	rebound := "http://localhost:" + port
	named := targetsOf(t, "localhost")
	require.NoError(t, named.Check(rebound))
	require.ErrorContains(t, post(named, rebound),
		"is not allowed for a queue created at run time (option callout-allow)")
	require.ErrorContains(t, post(targetsOf(t), server.URL), "is not allowed")
	require.Empty(t, called)

	require.NoError(t, post(targetsOf(t, host), server.URL))
	require.NoError(t, post(nil, server.URL))
	require.Len(t, called, 2)
	require.Error(t, post(targetsOf(t, "127.0.0.0/8"), server.URL+"/away"), "redirects aren't followed")
	require.Len(t, called, 3)

	// A name that isn't listed is called if it resolves to an address that is, and a public one doesn't suffice.
	require.NoError(t, post(targetsOf(t, "127.0.0.0/8"), rebound))
	require.Len(t, called, 4)
	require.ErrorContains(t, post(targetsOf(t, "10.0.0.0/8"), rebound), "neither the name nor this address")
	require.Error(t, targetsOf(t, "10.0.0.0/8").controlListed("tcp4", "93.184.215.14:80", nil))
	require.Len(t, called, 4)

	// The name resolves to an address of which another port is allowed.
	require.ErrorContains(t, post(targetsOf(t, "localhost", "127.0.0.1:1", "[::1]:1"), rebound), "is not allowed")
	require.NoError(t, post(targetsOf(t, "localhost", net.JoinHostPort(host, port)), rebound))
	require.NoError(t, post(targetsOf(t, net.JoinHostPort(host, port)), rebound))
	require.Len(t, called, 6)
}
