package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Literal quotes the special characters of a pattern.
func Literal(text string) string { return literal.Replace(text) }

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Member is what a node of a Cluster reports about itself.
type Member struct {
	Node    rueidis.Client
	Primary bool
	Moving  bool   // slots are being moved from it or to it
	Slots   int    // how many it has
	First   int    // the lowest of them
	Text    string // its ID, its epoch and its slots
}

// memberTimeout is how long a node may take to describe itself: an unresponsive one may be a replica, which doesn't
// matter.
const memberTimeout = time.Second

// Primaries asks all nodes of a Cluster, and returns the primaries. Nodes that don't answer are left out. It returns an
// error if the others don't have all slots: after a fail-over, the client learns of the promoted node a little later
// than the others.
func Primaries(ctx context.Context, cluster rueidis.Client) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	var primaries []Member
	var failed error
	served := 0
	for _, node := range cluster.Nodes() {
		asked.Go(func() {
			text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
			m := Member{Node: node}
			if err == nil {
				err = m.parse(text)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = errors.Join(failed, err)
			case m.Primary:
				primaries, served = append(primaries, m), served+m.Slots
			}
		})
	}
	asked.Wait()
	if served != slotCount {
		return nil, errors.Join(
			fmt.Errorf("the nodes that answer have %d of the Cluster's %d slots", served, slotCount), failed)
	}
	return primaries, nil
}

// parse reads the line of the reply to CLUSTER NODES that a node marks as its own: only that line lists moving slots.
func (m *Member) parse(text string) error {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		m.Primary, m.First = strings.Contains(fields[2], "master"), slotCount
		m.Text = fields[0] + " " + fields[6] + " " + strings.Join(fields[8:], " ")
		for _, owned := range fields[8:] {
			if owned[0] == '[' {
				m.Moving = true
				continue
			}
			if err := m.addSlots(owned); err != nil {
				return fmt.Errorf("slots %q: %w", owned, err)
			}
		}
		return nil
	}
	return errors.New("a node doesn't tell its own state")
}

// addSlots adds a slot, or a range of them such as 0-5460.
func (m *Member) addSlots(owned string) error {
	first, last, isRange := strings.Cut(owned, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	to, err := strconv.Atoi(last)
	if err != nil {
		return err
	}
	m.Slots, m.First = m.Slots+to-from+1, min(m.First, from)
	return nil
}
