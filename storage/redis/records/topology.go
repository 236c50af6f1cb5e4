package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// slots is how many slots a Cluster has.
const slots = 16384

// topology is the set of primaries and, in a Cluster, their slots.
type topology struct {
	primaries []rueidis.Client
	epochs    string // changes when slots change hands
	moving    bool   // slots are being moved
}

// member is what a node of a Cluster reports about itself.
type member struct {
	node            rueidis.Client
	primary, moving bool
	slots           int
	text            string // its ID, its epoch and its slots
}

// topologyOf asks all nodes; unresponsive replicas are left out. While some slot has no responding node, it waits for
// one: after a fail-over, the client learns of the promoted node a little later than the others.
func topologyOf(ctx context.Context, conn *redis.Conn) (t topology, err error) {
	err = conn.Retry(ctx, "look at the nodes", func(ctx context.Context) error {
		t, err = tryTopology(ctx, conn.Client())
		return err
	})
	return t, err
}

func tryTopology(ctx context.Context, client rueidis.Client) (t topology, err error) {
	if client.Mode() != rueidis.ClientModeCluster {
		return topology{primaries: []rueidis.Client{client}}, nil // it follows the primary
	}
	var texts []string
	served := 0
	members, failed := membersOf(ctx, client)
	for _, m := range members {
		if !m.primary {
			continue
		}
		t.primaries, texts = append(t.primaries, m.node), append(texts, m.text)
		t.moving, served = t.moving || m.moving, served+m.slots
	}
	if served != slots {
		return topology{}, errors.Join(
			fmt.Errorf("the nodes that answer have %d of the Cluster's %d slots", served, slots), failed)
	}
	slices.Sort(texts)
	t.epochs = strings.Join(texts, "\n")
	return t, nil
}

// memberTimeout is how long a node may take to describe itself: an unresponsive one may be a replica, which doesn't
// matter.
const memberTimeout = time.Second

// membersOf returns the nodes that answer, and the errors of the others.
func membersOf(ctx context.Context, client rueidis.Client) (members []member, failed error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range client.Nodes() {
		asked.Go(func() {
			text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
			var m member
			if err == nil {
				m, err = myself(text)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = errors.Join(failed, err)
				return
			}
			m.node = node
			members = append(members, m)
		})
	}
	asked.Wait()
	return members, failed
}

// myself parses the line of the reply to CLUSTER NODES that a node marks as its own: only that line lists moving slots.
func myself(text string) (m member, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		m = member{primary: strings.Contains(fields[2], "master"), text: fields[0] + " " + fields[6] + " " +
			strings.Join(fields[8:], " ")}
		for _, owned := range fields[8:] {
			if m.moving = m.moving || owned[0] == '['; owned[0] == '[' {
				continue
			}
			first, last, isRange := strings.Cut(owned, "-")
			if !isRange {
				last = first
			}
			from, err := strconv.Atoi(first)
			if err != nil {
				return m, fmt.Errorf("slots %q: %w", owned, err)
			}
			to, err := strconv.Atoi(last)
			if err != nil {
				return m, fmt.Errorf("slots %q: %w", owned, err)
			}
			m.slots += to - from + 1
		}
		return m, nil
	}
	return m, errors.New("a node doesn't tell its own state")
}

// Life returns text that changes when a Redis may have lost its last writes: each primary has a replication ID, and
// gets another one when it is promoted or started. It costs two small commands for each node.
func Life(ctx context.Context, conn *redis.Conn) (string, error) {
	var lives []string
	err := conn.Retry(ctx, "look at the lives of nodes", func(ctx context.Context) error {
		t, err := tryTopology(ctx, conn.Client())
		if err != nil { // not retried: the node has announcements to apply meanwhile, and looks again soon
			return fault.ErrUnavailable.WithCause(err)
		}
		lives = nil
		for _, node := range t.primaries {
			text, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToString()
			if err != nil {
				return err
			}
			_, life, _ := strings.Cut(text, "master_replid:")
			life, _, _ = strings.Cut(life, "\r")
			if strings.Contains(text, "role:master\r") {
				lives = append(lives, life)
			}
		}
		return nil
	})
	slices.Sort(lives)
	return strings.Join(lives, ","), err
}
