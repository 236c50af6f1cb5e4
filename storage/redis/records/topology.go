package records

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// topology is the set of primaries and, in a Cluster, their slots.
type topology struct {
	primaries []rueidis.Client
	epochs    string // changes when slots change hands
	moving    bool   // slots are being moved
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
	primaries, err := redis.Primaries(ctx, client)
	if err != nil {
		return topology{}, err
	}
	texts := make([]string, len(primaries))
	for i, p := range primaries {
		t.primaries, texts[i] = append(t.primaries, p.Node), p.Text
		t.moving = t.moving || p.Moving
	}
	slices.Sort(texts)
	t.epochs = strings.Join(texts, "\n")
	return t, nil
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
