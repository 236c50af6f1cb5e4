// Package hosts finds the nodes of shards for clients: in lists, and by DNS.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
)

// ErrList is wrapped by the errors of lists of hosts that can't be parsed.
var ErrList = errors.New("invalid list of shard hosts")

var hostPattern = regexp.MustCompile(`^[-0-9A-Za-z_.:%]{1,253}$`)

// Resolver looks up the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, name string) (addresses []string, err error)
}

// Bounds of lookups of DNS names.
const (
	maxNames      = 64
	lookupTimeout = 2 * time.Second
)

// Parse parses a list of hosts. An entry is host:port, or a=host:port with the data centre a in front. a=dns:name:port
// means all addresses of a DNS name, 64 at most. They are looked up with each call of Hosts, for 2 s at most. If a
// lookup fails, the last known addresses of the name are used, and the error of Hosts, which still returns all hosts,
// names it.
//
// Errors wrap ErrList.
func Parse(entries []string, r Resolver) (shard.Hosts, error) {
	if len(entries) == 0 || len(entries) > shard.MaxHosts {
		return nil, fmt.Errorf("%w: it has %d entries, 1 to %d are allowed", ErrList, len(entries), shard.MaxHosts)
	}
	h := &list{resolver: r}
	for _, text := range entries {
		if err := h.parse(strings.TrimSpace(text)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrList, err)
		}
	}
	if len(h.names) > maxNames {
		return nil, fmt.Errorf("%w: it has %d DNS names, at most %d are allowed", ErrList, len(h.names), maxNames)
	}
	return h, nil
}

// list is a list of hosts, and of names of hosts.
type list struct {
	resolver Resolver
	static   []shard.Host
	names    []name

	mu   sync.Mutex
	last map[name][]shard.Host
}

// name is a DNS name.
type name struct{ dc, name, port string }

func (h *list) parse(text string) error {
	if text == "" {
		return errors.New("an entry is empty")
	}
	dc, address, ok := strings.Cut(text, "=")
	if !ok {
		dc, address = "", text
	} else if err := shard.CheckName("data centre", dc); err != nil {
		return err
	}
	address, dns := strings.CutPrefix(address, "dns:")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q isn't host:port: %w", text, err)
	}
	if !hostPattern.MatchString(host) {
		return fmt.Errorf("%q has the host %q, which is neither a name nor an address", text, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has the port %q, which isn't a number from 1 to 65535", text, port)
	}
	if dns {
		h.names = append(h.names, name{dc, host, port})
		return nil
	}
	if slices.ContainsFunc(h.static, func(s shard.Host) bool { return s.Address == address }) {
		return fmt.Errorf("duplicate address %s", address)
	}
	h.static = append(h.static, shard.Host{Address: address, DC: dc})
	return nil
}

// Hosts implements Hosts.
func (h *list) Hosts(ctx context.Context) ([]shard.Host, error) {
	found := make([][]shard.Host, len(h.names))
	errs := make([]error, len(h.names))
	var lookups sync.WaitGroup
	for i, n := range h.names {
		lookups.Go(func() { found[i], errs[i] = h.lookUp(ctx, n) })
	}
	lookups.Wait()
	return append(slices.Clone(h.static), slices.Concat(found...)...), errors.Join(errs...)
}

func (h *list) lookUp(ctx context.Context, n name) ([]shard.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := h.resolver.LookupHost(ctx, n.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		return h.last[n], err
	}
	slices.Sort(addresses)
	hosts := make([]shard.Host, len(addresses))
	for i, a := range addresses {
		hosts[i] = shard.Host{Address: net.JoinHostPort(a, n.port), DC: n.dc}
	}
	if h.last == nil {
		h.last = map[name][]shard.Host{}
	}
	h.last[n] = hosts
	return hosts, nil
}
