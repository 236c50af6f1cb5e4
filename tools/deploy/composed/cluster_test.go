package composed

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodes are the services of the Cluster.
var nodes = []string{"cluster-1", "cluster-2", "cluster-3", "cluster-4", "cluster-5", "cluster-6"}

// TestAddressesStay: containers that are made again have the addresses that are in the nodes' files, and no other
// container takes one meanwhile.
func TestAddressesStay(t *testing.T) {
	t.Parallel()
	project := load(t, "cluster")
	pool := project.Networks["cluster"].Ipam.Config[0]
	subnet, others := netip.MustParsePrefix(pool.Subnet), netip.MustParsePrefix(pool.IPRange)
	require.True(t, subnet.Overlaps(others))
	seen := make(map[netip.Addr]bool)
	for _, name := range nodes {
		address, err := netip.ParseAddr(project.Services[name].Networks["cluster"].Ipv4Address)
		require.NoError(t, err, name)
		require.True(t, subnet.Contains(address) && !others.Contains(address) && !seen[address], "%s: %s", name, address)
		seen[address] = true
	}
	for _, name := range []string{"cluster", "tidemark-cluster"} {
		require.Contains(t, project.Services[name].Networks, "cluster", name)
	}
}

// TestClusterComesBack runs the commands of the containers, in a network of their own: once to make a Cluster, and then
// again on the same data at other addresses, as after a change of CLUSTER_NETWORK. When the container that makes the
// Cluster ends, the Cluster has the data, and all nodes know where the others are now.
func TestClusterComesBack(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	const ask = "redis-cli -c -h cluster-2 "
	require.Contains(t, up(t, data, "127.0.1", ask+"SET lobby kept"), "OK")
	seen := up(t, data, "127.0.2", ask+"GET lobby; "+ask+"CLUSTER NODES")
	require.Contains(t, seen, "kept\n")
	require.Equal(t, len(nodes), strings.Count(seen, " 127.0.2."), seen)
	require.Equal(t, len(nodes), strings.Count(seen, " connected"), seen)
	require.NotContains(t, seen, "fail")
}

// up starts the nodes in directories below data, at addresses that begin with network, and then what makes a Cluster of
// them, and runs commands, whose output it returns. It ends the nodes with their data.
func up(t *testing.T, data, network, commands string) string {
	t.Helper()
	project := load(t, "cluster")
	hosts := filepath.Join(data, "hosts")
	var names, script strings.Builder
	fmt.Fprintf(&script, "exec 3>&1 >&2\nip link set lo up\nmount --bind %s /etc/hosts\n", hosts)
	for i, name := range nodes {
		dir, address := filepath.Join(data, name), fmt.Sprintf("%s.1%d", network, i+1)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		fmt.Fprintf(&names, "%s %s\n", address, name)
		arguments := append([]string{}, project.Services[name].Command...)
		// what is otherwise the image's, and the container's
		arguments = append(arguments, "--protected-mode", "no", "--dir", dir, "--bind", address, "--bind-source-addr", address)
		fmt.Fprintf(&script, "%s &\nuntil redis-cli -h %s ping | grep -q PONG; do sleep 0.1; done\n", quoted(arguments), address)
	}
	require.NoError(t, os.WriteFile(hosts, []byte(names.String()), 0o600))
	fmt.Fprintf(&script, "%s\n{ %s; } >&3\n", quoted(project.Services["cluster"].Command), commands)
	fmt.Fprintf(&script, "for n in %s; do redis-cli -h $n shutdown; done\nwait\n", strings.Join(nodes, " "))

	//nolint:gosec // the commands are those of compose.yaml
	cmd := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork",
		"--kill-child", "bash", "-ec", script.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stderr = &log
	printed, err := cmd.Output()
	require.NoError(t, err, "%s", &log)
	return string(printed)
}

// quoted returns a command as a shell reads it.
func quoted(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
