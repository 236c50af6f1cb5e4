package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// member is the state of a node in the view of another, or in its own, from a line of CLUSTER NODES.
type member struct {
	id, addr string
	flags    map[string]bool
	primary  string // ID of a replica's primary, else "-"
	epoch    int64
	slots    []slotRange
}

type slotRange struct{ first, last uint16 }

func (m member) owns(slot uint16) bool {
	return slices.ContainsFunc(m.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

func (m member) failed() bool { return m.flags["fail"] || m.flags["fail?"] }

// view returns the members that node n knows, itself first.
func view(ctx context.Context, n *Node) ([]member, error) {
	text, err := n.do(ctx, "CLUSTER", "NODES").ToString()
	if err != nil {
		return nil, fmt.Errorf("read CLUSTER NODES of %s: %w", n.Addr(), err)
	}
	var members []member
	for line := range strings.Lines(text) {
		m, err := parseMember(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("read CLUSTER NODES of %s: %w", n.Addr(), err)
		}
		members = append(members, m)
		if m.flags["myself"] {
			last := len(members) - 1
			members[0], members[last] = members[last], members[0]
		}
	}
	return members, nil
}

// parseMember parses "id host:port@bus,name flags primary ping pong epoch link slot slot-slot [moving] ...".
func parseMember(f []string) (member, error) {
	if len(f) < 8 {
		return member{}, fmt.Errorf("line of %d fields", len(f))
	}
	addr, _, _ := strings.Cut(f[1], "@")
	m := member{id: f[0], addr: addr, flags: map[string]bool{}, primary: f[3]}
	for flag := range strings.SplitSeq(f[2], ",") {
		m.flags[flag] = true
	}
	var err error
	if m.epoch, err = strconv.ParseInt(f[6], 10, 64); err != nil {
		return member{}, fmt.Errorf("parse an epoch: %w", err)
	}
	for _, s := range f[8:] {
		if strings.HasPrefix(s, "[") {
			continue // a slot that is being moved is still part of its range
		}
		first, last, found := strings.Cut(s, "-")
		if !found {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if err := errors.Join(errA, errB); err != nil {
			return member{}, fmt.Errorf("parse slots %q: %w", s, err)
		}
		m.slots = append(m.slots, slotRange{uint16(a), uint16(b)})
	}
	return m, nil
}

// checkAcquainted checks that every node knows every other.
func (c *ClusterNodes) checkAcquainted(ctx context.Context) error {
	for _, n := range c.nodes {
		members, err := view(ctx, n)
		if err != nil {
			return err
		}
		if len(members) != len(c.nodes) {
			return fmt.Errorf("%s knows %d nodes of %d", n.Addr(), len(members), len(c.nodes))
		}
		for _, m := range members {
			if m.flags["handshake"] {
				return fmt.Errorf("%s is in a handshake with %s", n.Addr(), m.addr)
			}
		}
	}
	return nil
}

// checkOK checks the conditions of AwaitOK.
func (c *ClusterNodes) checkOK(ctx context.Context) error {
	var first map[string]string
	running := map[string]bool{}
	for _, n := range c.running() {
		running[n.Addr()] = true
	}
	for _, n := range c.running() {
		members, err := view(ctx, n)
		if err != nil {
			return err
		}
		roles := map[string]string{}
		for _, m := range members {
			if !running[m.addr] {
				continue
			}
			if m.failed() || m.flags["handshake"] {
				return fmt.Errorf("%s has not met %s", n.Addr(), m.addr)
			}
			roles[m.addr] = fmt.Sprint(m.flags["slave"], m.primary, m.slots)
		}
		if first == nil {
			first = roles
		}
		if !maps.Equal(first, roles) {
			return fmt.Errorf("%s sees the cluster as %v, another as %v", n.Addr(), roles, first)
		}
		if err := n.checkServes(ctx, members[0]); err != nil {
			return err
		}
	}
	return nil
}

// checkServes checks that a node considers the cluster complete and, if it is a replica, is in sync.
func (n *Node) checkServes(ctx context.Context, self member) error {
	info, err := n.do(ctx, "CLUSTER", "INFO").ToString()
	if err != nil {
		return fmt.Errorf("read CLUSTER INFO of %s: %w", n.Addr(), err)
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return fmt.Errorf("%s does not consider the cluster complete", n.Addr())
	}
	if self.flags["slave"] {
		return n.expect(ctx, "replication", "master_link_status", "up")
	}
	return nil
}

// owner asks every node for its own slots, since others learn of a change later. A node that was replaced while it was
// down has the lower epoch.
func (c *ClusterNodes) owner(ctx context.Context, slot uint16) (*Node, error) {
	var owner *Node
	epoch := int64(-1)
	for _, n := range c.running() {
		members, err := view(ctx, n)
		if err != nil {
			return nil, err
		}
		if self := members[0]; self.owns(slot) && self.epoch > epoch {
			owner, epoch = n, self.epoch
		}
	}
	if owner == nil {
		return nil, fmt.Errorf("no node owns slot %d", slot)
	}
	return owner, nil
}

// replica returns a running replica of a slot's owner.
func (c *ClusterNodes) replica(ctx context.Context, slot uint16) (*Node, error) {
	owner, err := c.owner(ctx, slot)
	if err != nil {
		return nil, err
	}
	id, err := owner.do(ctx, "CLUSTER", "MYID").ToString()
	if err != nil {
		return nil, fmt.Errorf("read the ID of %s: %w", owner.Addr(), err)
	}
	for _, n := range c.running() {
		members, err := view(ctx, n)
		if err != nil {
			return nil, err
		}
		if members[0].primary == id {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s has no running replica", owner.Addr())
}
