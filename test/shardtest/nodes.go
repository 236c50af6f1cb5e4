package shardtest

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// Address returns the address at which clients reach the node: that of its proxy.
func (n *Node) Address() string { return n.Proxy.Addr() }

// Start starts processes, and returns when all of them listen. Until then their proxies hold all traffic.
func (all Nodes) Start(t testing.TB) {
	t.Helper()
	printed := make([]int, len(all))
	for i, n := range all {
		if n.Process.PID() != 0 {
			printed[i] = len(n.Process.Log())
		}
		n.Proxy.Hold() // clients may find a node before its own address is known here
		n.must(t, "start", n.Process.Start(t.Context()))
	}
	for i, n := range all {
		await(t, func() error {
			log := n.Process.Log()[printed[i]:]
			if found := n.listening.FindStringSubmatch(log); found != nil {
				n.Listens = found[1]
				n.Proxy.SetTarget(found[1])
				n.Proxy.Pass()
				return nil
			}
			return fmt.Errorf("%s doesn't listen:\n%s", n.Host, log)
		})
	}
}

// Kill ends processes with SIGKILL.
func (all Nodes) Kill(t testing.TB) {
	t.Helper()
	for _, n := range all {
		n.must(t, "kill", n.Process.End(syscall.SIGKILL))
	}
}

// Restart ends processes with SIGTERM, all at the same time, and starts them again.
func (all Nodes) Restart(t testing.TB) {
	t.Helper()
	all.Signal(t, syscall.SIGTERM)
	for _, n := range all {
		n.must(t, "end", n.Process.End(syscall.SIGTERM))
	}
	all.Start(t)
}

// Signal sends a signal to processes. After SIGSTOP a process keeps its connections open, but doesn't answer.
func (all Nodes) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	for _, n := range all {
		n.must(t, "signal", n.Process.Signal(sig))
	}
}

// Hold stops all traffic to and from nodes until Pass: new connections are accepted and open ones stay open, but
// nothing is answered.
func (all Nodes) Hold() {
	for _, n := range all {
		n.Proxy.Hold()
	}
}

// Delay delays the traffic to and from nodes by half of d each.
func (all Nodes) Delay(d time.Duration) {
	for _, n := range all {
		n.Proxy.Slow(d/2, 0)
	}
}

// Cut resets the connections to nodes.
func (all Nodes) Cut() {
	for _, n := range all {
		n.Proxy.Cut()
	}
}

// Pass ends Hold and Delay: delayed traffic is delivered.
func (all Nodes) Pass() {
	for _, n := range all {
		n.Proxy.Slow(0, 0)
		n.Proxy.Pass()
	}
}

func (n *Node) must(t testing.TB, do string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s %s: %v", do, n.Host, err)
	}
}
