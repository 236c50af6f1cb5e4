package web

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClient: only trusted proxies can report a client's address, and a client can't forge their header.
func TestClient(t *testing.T) {
	t.Parallel()
	p := trust([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")})
	for _, tt := range []struct {
		remote    string
		forwarded []string
		client    string
	}{
		{"192.0.2.1:99", nil, "192.0.2.1:99"},
		{"192.0.2.1:99", []string{"198.51.100.7"}, "192.0.2.1:99"},
		{"127.0.0.1:99", []string{"198.51.100.7"}, "127.0.0.1:99"},
		{"10.1.2.3:99", nil, "10.1.2.3:99"},
		{"10.1.2.3:99", []string{"198.51.100.7"}, "198.51.100.7"},
		{"[2001:db8::1]:99", []string{"198.51.100.7"}, "198.51.100.7"},
		{"[::ffff:10.1.2.3]:99", []string{"198.51.100.7"}, "198.51.100.7"},
		{"10.1.2.3:99", []string{"203.0.113.9, 198.51.100.7, 10.9.9.9"}, "198.51.100.7"},
		{"10.1.2.3:99", []string{"203.0.113.9", "2001:db9::7"}, "2001:db9::7"},
		{"10.1.2.3:99", []string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		{"10.1.2.3:99", []string{"anything, 198.51.100.7"}, "198.51.100.7"},
		{"10.1.2.3:99", []string{"198.51.100.7, anything"}, "10.1.2.3:99"},
		{"10.1.2.3:99", []string{"203.0.113.9, 198.51.100.7:4711"}, "198.51.100.7"},
		{"10.1.2.3:99", []string{"[2001:db9::7]:4711", "10.9.9.9:80"}, "2001:db9::7"},
		{"@", []string{"198.51.100.7"}, "@"},
	} {
		require.Equal(t, tt.client, p.client(tt.remote, tt.forwarded), "%v", tt)
	}
	require.Equal(t, "10.1.2.3:99", trust(nil).client("10.1.2.3:99", []string{"198.51.100.7"}))
}
