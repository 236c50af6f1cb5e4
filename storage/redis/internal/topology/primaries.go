package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Topology is the primaries of a Redis and, in a Cluster, their slots.
type Topology struct {
	Primaries []Primary // by their lowest slots
	Moving    bool      // slots are being moved
	Version   string    // changes when slots change hands
}

// Primary is a primary.
type Primary struct {
	Client    rueidis.Client
	FirstSlot int // the lowest of its slots; SlotCount if it has none

	slots   int // how many it has
	moving  bool
	version string // its ID, its epoch and its slots
}

// nodeTimeout is how long a node may take to describe itself. One that doesn't answer may be a replica, which doesn't
// matter.
const nodeTimeout = time.Second

// Read asks all nodes of a Cluster; those that don't answer are left out. It returns an error if the others don't have
// all slots: after a fail-over, the client learns of the promoted node a little later than the others. Without a
// Cluster the primary is the client, which follows it.
func Read(ctx context.Context, client rueidis.Client) (t Topology, err error) {
	if client.Mode() != rueidis.ClientModeCluster {
		return Topology{Primaries: []Primary{{Client: client}}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	var failed error
	for _, node := range client.Nodes() {
		asking.Go(func() {
			text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
			p, isPrimary := Primary{Client: node}, false
			if err == nil {
				isPrimary, err = p.parse(text)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = errors.Join(failed, err)
			case isPrimary:
				t.Primaries = append(t.Primaries, p)
			}
		})
	}
	asking.Wait()
	if served := t.summarize(); served != SlotCount {
		return Topology{}, errors.Join(
			fmt.Errorf("the nodes that answer have %d of the Cluster's %d slots", served, SlotCount), failed)
	}
	return t, nil
}

// summarize sorts the primaries, sets the other fields, and returns how many slots the primaries have.
func (t *Topology) summarize() (slots int) {
	slices.SortFunc(t.Primaries, func(a, b Primary) int { return cmp.Compare(a.FirstSlot, b.FirstSlot) })
	versions := make([]string, len(t.Primaries))
	for i, p := range t.Primaries {
		versions[i], slots, t.Moving = p.version, slots+p.slots, t.Moving || p.moving
	}
	slices.Sort(versions)
	t.Version = strings.Join(versions, "\n")
	return slots
}

// parse reads the line of the reply to CLUSTER NODES that a node marks as its own. It reports whether the node is a
// primary.
func (p *Primary) parse(text string) (isPrimary bool, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		p.FirstSlot = SlotCount
		p.version = fields[0] + " " + fields[6] + " " + strings.Join(fields[8:], " ")
		for _, owned := range fields[8:] {
			if owned[0] == '[' {
				p.moving = true
				continue
			}
			r, err := parseRange(owned)
			if err != nil {
				return false, fmt.Errorf("slots %q: %w", owned, err)
			}
			p.slots, p.FirstSlot = p.slots+r.Last-r.First+1, min(p.FirstSlot, r.First)
		}
		return strings.Contains(fields[2], "master"), nil
	}
	return false, errors.New("a node's reply to CLUSTER NODES lacks the node itself")
}
