package redistest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// MasterName is the primary's name in the Sentinels of StartSentinel.
const MasterName = "mymaster"

// SentinelNodes is a primary and a replica, watched by three Sentinels that consider a server down after a second
// without an answer.
type SentinelNodes struct {
	nodes     []*Node
	sentinels []*Node
}

// StartSentinel starts private servers with options o, and Sentinels that have TLS if the servers do, but no password.
// All are stopped when the test ends. It returns when all know each other.
func StartSentinel(t testing.TB, o Options) *SentinelNodes {
	t.Helper()
	primary := Start(t, o)
	s := &SentinelNodes{nodes: []*Node{primary, StartReplica(t, primary)}}
	for range 3 {
		s.sentinels = append(s.sentinels, start(t, spec{
			opts:     Options{TLS: o.TLS, Binary: o.Binary},
			certs:    primary.certs,
			sentinel: primary,
		}))
	}
	s.AwaitOK(t)
	return s
}

// sentinelArguments writes the file in which a Sentinel keeps its state, and returns the arguments that name it.
func sentinelArguments(dir string, primary *Node) ([]string, error) {
	conf := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]d 2\n"+
		"sentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", MasterName, loopback, primary.Port())
	if primary.opts.Username != "" {
		conf += fmt.Sprintf("sentinel auth-user %s %q\n", MasterName, primary.opts.Username)
	}
	if primary.opts.Password != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %q\n", MasterName, primary.opts.Password)
	}
	path := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		return nil, fmt.Errorf("write a Sentinel's configuration: %w", err)
	}
	return []string{path, "--sentinel"}, nil
}

// Addrs returns host:port of the Sentinels.
func (s *SentinelNodes) Addrs() []string {
	return addrs(s.sentinels)
}

// Nodes returns the two servers: first the one that was started as the primary.
func (s *SentinelNodes) Nodes() []*Node { return slices.Clone(s.nodes) }

// Sentinels returns the Sentinels.
func (s *SentinelNodes) Sentinels() []*Node { return slices.Clone(s.sentinels) }

// AwaitOK returns when all Sentinels know each other, a primary that is up, and its replica.
func (s *SentinelNodes) AwaitOK(t testing.TB) {
	t.Helper()
	want := map[string]string{"num-slaves": "1", "num-other-sentinels": "2", "flags": "master"}
	await(t, "the Sentinels to know each other", func(ctx context.Context) error {
		for _, n := range s.sentinels {
			master, err := n.do(ctx, "SENTINEL", "MASTER", MasterName).AsStrMap()
			if err != nil {
				return fmt.Errorf("ask Sentinel %s for its master: %w", n.Addr(), err)
			}
			maps.DeleteFunc(master, func(field, _ string) bool { return want[field] == "" })
			if !maps.Equal(master, want) {
				return fmt.Errorf("reply of Sentinel %s: %v", n.Addr(), master)
			}
		}
		return nil
	})
}

// Failover kills the primary with SIGKILL and waits until the replica is promoted and all Sentinels know that.
func (s *SentinelNodes) Failover(t testing.TB) (killed, promoted *Node) {
	t.Helper()
	killed, promoted = s.nodes[0], s.nodes[1]
	if err := killed.expect(t.Context(), "replication", "role", "master"); err != nil {
		killed, promoted = promoted, killed
	}
	killed.Kill(t)
	await(t, "the Sentinels to promote the replica", func(ctx context.Context) error {
		for _, n := range s.sentinels {
			addr, err := n.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).AsStrSlice()
			if err != nil {
				return fmt.Errorf("ask Sentinel %s for the primary: %w", n.Addr(), err)
			}
			if len(addr) != 2 || addr[1] != strconv.Itoa(promoted.Port()) {
				return fmt.Errorf("primary of Sentinel %s is %v", n.Addr(), addr)
			}
		}
		return promoted.expect(ctx, "replication", "role", "master")
	})
	return killed, promoted
}
