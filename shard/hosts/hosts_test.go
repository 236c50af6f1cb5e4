package hosts_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/hosts"
)

// names is a resolver.
type names map[string][]string

func (n names) LookupHost(_ context.Context, name string) ([]string, error) {
	if n[name] == nil {
		return nil, fmt.Errorf("no such host: %s", name)
	}
	return n[name], nil
}

func TestParse(t *testing.T) {
	t.Parallel()
	dns := names{"b.example": {"fd00::1", "10.0.0.9"}, "c.example": {"10.0.0.8"}}
	list, err := hosts.Parse([]string{"a=10.0.0.7:7100", " nodes:1", "[::1]:65535", "b=dns:b.example:7100",
		"dns:c.example:7200"}, dns)
	require.NoError(t, err)
	all := "[a=10.0.0.7:7100 nodes:1 [::1]:65535 b=10.0.0.9:7100 b=[fd00::1]:7100 10.0.0.8:7200]"
	got, err := list.Hosts(t.Context())
	require.NoError(t, err)
	require.Equal(t, all, fmt.Sprint(got))

	delete(dns, "b.example") // what it was stays
	got, err = list.Hosts(t.Context())
	require.ErrorContains(t, err, "no such host: b.example")
	require.Equal(t, all, fmt.Sprint(got))

	dns["c.example"] = []string{}
	got, err = list.Hosts(t.Context())
	require.Error(t, err)
	require.Len(t, got, 5)
}

func TestBadLists(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":            "an entry is empty",
		"a=":          `"a=" isn't host:port`,
		"host":        `"host" isn't host:port`,
		"a b=host:1":  `data centre "a b" must match`,
		"a=:7100":     `"a=:7100" has the host "", which is neither a name nor an address`,
		"a=host:":     `has the port "", which isn't a number from 1 to 65535`,
		"host:0":      "from 1 to 65535",
		"host:65536":  "from 1 to 65535",
		"host:http":   "from 1 to 65535",
		"a=dns:host":  `"a=dns:host" isn't host:port`,
		"::1:7100":    "too many colons",
		"a=n:1,a=n:2": "isn't host:port",
		"a=my host:1": `the host "my host"`,
		"again:1":     "duplicate address again:1",
	} {
		_, err := hosts.Parse([]string{"b=again:1", text}, nil)
		require.ErrorIs(t, err, hosts.ErrList, text)
		require.ErrorContains(t, err, want)
	}
	for n, want := range map[int]string{0: "it has 0 entries", 65: "it has 65 DNS names, at most 64",
		shard.MaxHosts + 1: "it has 4097 entries, 1 to 4096"} {
		_, err := hosts.Parse(strings.Fields(strings.Repeat("dns:n:1 ", n)), nil)
		require.ErrorIs(t, err, hosts.ErrList)
		require.ErrorContains(t, err, want)
	}
}

// A list is refused as a whole, or each of its entries is a host, which can be dialed.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a=10.0.0.7:7100", "[::1]:65535,nodes:1", "b=dns:b.example:7100", "a=:1", "=h:1",
		"a=b=c:1", "dns:dns:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries := strings.Split(text, ",")
		list, err := hosts.Parse(entries, names{})
		if err != nil {
			require.ErrorIs(t, err, hosts.ErrList)
			return
		}
		found, err := list.Hosts(t.Context())
		require.Equal(t,
			slices.ContainsFunc(entries,
				func(e string) bool {
					return strings.HasPrefix(strings.TrimSpace(e[strings.Index(e, "=")+1:]),
						"dns:")
				}), err != nil)
		require.LessOrEqual(t, len(found), len(entries))
		for _, h := range found {
			host, port, err := net.SplitHostPort(h.Address)
			require.NoError(t, err)
			require.NotEmpty(t, host)
			require.NotEmpty(t, port)
			if h.DC != "" {
				require.NoError(t, shard.CheckName("data centre", h.DC))
			}
		}
	})
}
