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

// Primary is the report of a primary of a Cluster about itself.
type Primary struct {
	Node   rueidis.Client
	Moving bool   // slots are being moved from it or to it
	Slots  int    // how many it has
	First  int    // the lowest of them
	Text   string // its ID, its epoch and its slots
}

// nodeTimeout is how long a node may take to describe itself: an unresponsive one may be a replica, which doesn't
// matter.
const nodeTimeout = time.Second

// Primaries asks all nodes of a Cluster, and returns the primaries. Nodes that don't answer are left out. It returns an
// error if the others don't have all slots: after a fail-over, the client learns of the promoted node a little later
// than the others.
func Primaries(ctx context.Context, cluster rueidis.Client) ([]Primary, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	var primaries []Primary
	var failed error
	served := 0
	for _, node := range cluster.Nodes() {
		asked.Go(func() {
			text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
			p, isPrimary := Primary{Node: node}, false
			if err == nil {
				isPrimary, err = p.parse(text)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = errors.Join(failed, err)
			case isPrimary:
				primaries, served = append(primaries, p), served+p.Slots
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

// parse reads the line of the reply to CLUSTER NODES that a node marks as its own: only that line lists moving slots. It
// reports whether the node is a primary.
func (p *Primary) parse(text string) (isPrimary bool, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		p.First = slotCount
		p.Text = fields[0] + " " + fields[6] + " " + strings.Join(fields[8:], " ")
		for _, owned := range fields[8:] {
			if owned[0] == '[' {
				p.Moving = true
				continue
			}
			if err := p.addSlots(owned); err != nil {
				return false, fmt.Errorf("slots %q: %w", owned, err)
			}
		}
		return strings.Contains(fields[2], "master"), nil
	}
	return false, errors.New("a node doesn't tell its own state")
}

// addSlots adds a slot, or a range of them such as 0-5460.
func (p *Primary) addSlots(owned string) error {
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
	p.Slots, p.First = p.Slots+to-from+1, min(p.First, from)
	return nil
}
