package redistest

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
)

// Slot returns the slot of a key, or of its hash tag if it has one.
func (c *ClusterNodes) Slot(key string) uint16 {
	command := rueidis.Completed{}.SetSlot(key)
	return command.Slot()
}

// MoveSlot moves a slot with all its keys, a few keys at a time, while clients use it.
func (c *ClusterNodes) MoveSlot(t testing.TB, slot uint16, from, to *Node) {
	t.Helper()
	m := c.OpenSlot(t, slot, from, to)
	for m.MoveKeys(t, 2) > 0 {
		continue
	}
	m.CloseSlot(t)
}

// SlotMove is a slot that is being moved. Each of two nodes has a part of its keys: the source answers ASK for keys
// that it doesn't have, the target serves only clients that follow ASK, and commands on keys of both parts fail with
// TRYAGAIN.
type SlotMove struct {
	cluster  *ClusterNodes
	slot     uint16
	from, to *Node
}

// OpenSlot starts to move a slot: the target imports and the source migrates, and no key has moved yet.
func (c *ClusterNodes) OpenSlot(t testing.TB, slot uint16, from, to *Node) *SlotMove {
	t.Helper()
	m := &SlotMove{cluster: c, slot: slot, from: from, to: to}
	m.set(t, to, "IMPORTING", from)
	m.set(t, from, "MIGRATING", to)
	return m
}

// MoveKeys moves up to n keys that the source still has, and returns their number.
func (m *SlotMove) MoveKeys(t testing.TB, n int) int {
	t.Helper()
	keys, err := m.from.Do(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(int(m.slot)), strconv.Itoa(n)).AsStrSlice()
	if err != nil {
		t.Fatalf("redistest: list the keys of slot %d: %v", m.slot, err)
	}
	for _, key := range keys {
		m.MoveKey(t, key)
	}
	return len(keys)
}

// MoveKey moves one key. It does nothing if the source doesn't have it.
func (m *SlotMove) MoveKey(t testing.TB, key string) {
	t.Helper()
	args := []string{"MIGRATE", loopback, strconv.Itoa(m.to.Port()), "", "0", "10000"}
	switch o := m.to.opts; {
	case o.Password == "":
	case o.Username == "":
		args = append(args, "AUTH", o.Password)
	default:
		args = append(args, "AUTH2", o.Username, o.Password)
	}
	err := m.from.Do(t, append(args, "KEYS", key)...).Error()
	if err != nil { // maybe a busy machine: the target may have a copy
		err = m.from.Do(t, append(args, "REPLACE", "KEYS", key)...).Error()
	}
	if err != nil {
		t.Fatalf("redistest: move key %q: %v", key, err)
	}
}

// CloseSlot completes the move: it moves the remaining keys and assigns the slot to the target, first at the target,
// then at the source, then at the other primaries. It returns when all nodes know that.
func (m *SlotMove) CloseSlot(t testing.TB) {
	t.Helper()
	for m.MoveKeys(t, 100) > 0 {
		continue
	}
	m.set(t, m.to, "NODE", m.to)
	m.set(t, m.from, "NODE", m.to)
	for _, n := range m.cluster.running() {
		if n != m.to && n != m.from && m.isPrimary(t, n) {
			m.set(t, n, "NODE", m.to)
		}
	}
	await(t, fmt.Sprintf("all nodes to know the owner of slot %d", m.slot), m.checkKnown)
}

func (m *SlotMove) isPrimary(t testing.TB, n *Node) bool {
	t.Helper()
	members, err := view(t.Context(), n)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return members[0].flags["master"]
}

func (m *SlotMove) set(t testing.TB, at *Node, state string, other *Node) {
	t.Helper()
	id, err := other.Do(t, "CLUSTER", "MYID").ToString()
	if err == nil {
		err = at.Do(t, "CLUSTER", "SETSLOT", strconv.Itoa(int(m.slot)), state, id).Error()
	}
	if err != nil {
		t.Fatalf("redistest: set slot %d to %s %s at %s: %v", m.slot, state, other.Addr(), at.Addr(), err)
	}
}

// checkKnown checks that all nodes know the slot's new owner.
func (m *SlotMove) checkKnown(ctx context.Context) error {
	for _, n := range m.cluster.running() {
		members, err := view(ctx, n)
		if err != nil {
			return err
		}
		for _, other := range members {
			if other.owns(m.slot) && other.addr != m.to.Addr() {
				return fmt.Errorf("%s sees slot %d at %s", n.Addr(), m.slot, other.addr)
			}
		}
	}
	return nil
}
