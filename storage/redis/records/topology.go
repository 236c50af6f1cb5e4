package records

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// readTopology reads the primaries and their slots. While some slot has no node that answers, it waits for one.
func readTopology(ctx context.Context, conn *redis.Conn) (t topology.Topology, err error) {
	err = conn.Retry(ctx, "look at the nodes", func(ctx context.Context) error {
		t, err = topology.Read(ctx, conn.Client())
		return err
	})
	return t, err
}

// Life returns text that changes when a Redis may have lost its last writes: each primary has a replication ID, and
// gets another one when it is promoted or started. It costs two small commands for each node.
func Life(ctx context.Context, conn *redis.Conn) (string, error) {
	var lives []string
	err := conn.Retry(ctx, "look at the lives of nodes", func(ctx context.Context) error {
		t, err := topology.Read(ctx, conn.Client())
		if err != nil { // not retried: the node has announcements to apply meanwhile, and looks again soon
			return fault.ErrUnavailable.WithCause(err)
		}
		lives = nil
		for _, p := range t.Primaries {
			fields, err := topology.ReadInfo(ctx, p.Client, "replication")
			if err != nil {
				return err
			}
			if fields["role"] == "master" {
				lives = append(lives, fields["master_replid"])
			}
		}
		return nil
	})
	slices.Sort(lives)
	return strings.Join(lives, ","), err
}
