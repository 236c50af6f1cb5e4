package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// Examination describes what an operator should know of a Redis. Its texts are as Redis sent them.
type Examination struct {
	Storage   storage.Description
	Primaries []Primary
	Uncovered string // slots of a Cluster without a primary, such as "0-5460,5462"
}

// Primary is the state of a primary.
type Primary struct {
	Address     string
	UsedBytes   int64
	Replicas    int
	Lacks       []Lack        // abilities that it, or the user, lacks
	Latency     time.Duration // median of some PINGs
	ClockOffset time.Duration // its clock less that of this machine, to half of a round trip
	Err         error         // why it could not be examined
}

// pings is how many PINGs the latency is measured with.
const pings = 11

// Examine examines all primaries. It changes nothing. Errors: ErrUnavailable.
func Examine(ctx context.Context, c *redis.Conn) (found Examination, err error) {
	if found.Storage, err = c.Inspect(ctx); err != nil {
		return found, err
	}
	nodes, err := topology.Reachable(ctx, c.Client(), c.Timeout()/2)
	if err != nil {
		return found, c.Failure(ctx, "examine", err)
	}
	found.Primaries = make([]Primary, len(nodes))
	var examining sync.WaitGroup
	for i, n := range nodes {
		examining.Go(func() { found.Primaries[i] = examine(ctx, c, n) })
	}
	examining.Wait()
	if c.Client().Mode() != rueidis.ClientModeCluster {
		return found, nil
	}
	ranges, err := topology.ReadSlots(ctx, c.Client())
	if err != nil {
		return found, c.Failure(ctx, "examine", err)
	}
	found.Uncovered = topology.Uncovered(ranges)
	return found, nil
}

func examine(ctx context.Context, c *redis.Conn, n topology.Node) Primary {
	p := Primary{Address: n.Address, UsedBytes: n.Info.Number("used_memory"),
		Replicas: int(n.Info.Number("connected_slaves"))}
	var failures [3]error
	p.Latency, failures[0] = latency(ctx, n.Client)
	p.ClockOffset, failures[1] = clockOffset(ctx, n.Client)
	p.Lacks, failures[2] = findLacks(ctx, c, n)
	for i, err := range failures {
		if cause, _ := refusal.Of(err); cause.NoCommand || cause.Code == refusal.NoPermission { // one of Lacks
			failures[i] = nil
		}
	}
	p.Err = c.Explain(errors.Join(failures[:]...))
	return p
}

func latency(ctx context.Context, client rueidis.Client) (time.Duration, error) {
	var took []time.Duration
	for range pings {
		began := time.Now()
		if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[pings/2], nil
}

// clockOffset returns by how much the clock of a server is ahead of that of this machine.
func clockOffset(ctx context.Context, client rueidis.Client) (time.Duration, error) {
	began := time.Now()
	reply, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if len(reply) != 2 {
		return 0, fmt.Errorf("%w: TIME", redis.ErrReply)
	}
	return time.Unix(reply[0], reply[1]*int64(time.Microsecond)).Sub(began.Add(took / 2)), nil
}
