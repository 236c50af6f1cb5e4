package matchmaking

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// What a queue full of tickets that match none may cost, from the project's goals.
const (
	crowdServerLimit = 1500 // bytes per ticket
	crowdRedisLimit  = 1200
	crowdStartLimit  = 5 * time.Second
)

// crowdPairs is how many pairs are timed.
const crowdPairs = 50

// crowd is a queue in which tickets wait that match none.
type crowd struct {
	*target.Target
	frontend *load.Frontend
	waiting  int
	met      int // pairs
}

// Crowds fills a queue with tickets that match none, and lets pairs meet among them.
func Crowds(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return err
	}
	defer u.Stop()
	define := load.Request(http.MethodPut, "/v1/queues/crowd", `{"match": {"function": "criteria", "weights": {"skill": 1}}}`)
	if _, err := load.Once(ctx, u.Server.Admin, define); err != nil {
		return err
	}
	c := &crowd{Target: u}
	if err := c.dial(); err != nil {
		return err
	}
	defer func() { c.frontend.Close() }()
	ctx = load.InQueue(ctx, "crowd")
	r.Printf("\n## Many tickets that wait\n\nTickets that match none wait in a criteria queue. Times are from the creation of the second ticket of a pair\n"+
		"to both assignments, the median of %d. Each waiting ticket takes so much of the server's memory, as its garbage\n"+
		"collector has left it and as it is resident, and of Redis's.\n\n"+
		"| waiting | a new pair has met after | goal | server | goal | resident | Redis | goal | |\n|---:|---:|---:|---:|---:|---:|---:|---:|---|\n", crowdPairs)
	for _, goal := range []struct {
		waiting int
		pair    time.Duration
	}{{50_000, 5 * time.Millisecond}, {200_000, 10 * time.Millisecond}} {
		if err := c.grow(ctx, goal.waiting, goal.pair, r); err != nil {
			return fmt.Errorf("%d waiting tickets: %w", goal.waiting, err)
		}
	}
	took, err := c.restart(ctx)
	if err != nil {
		return fmt.Errorf("a start with %d waiting tickets: %w", c.waiting, err)
	}
	r.Printf("\nA server that is started while %d tickets wait has matched a new pair %.1f s after it was started (goal ≤ %.0f s, %s).\n",
		c.waiting, took.Seconds(), crowdStartLimit.Seconds(), report.Verdict(took <= crowdStartLimit))
	return nil
}

func (c *crowd) dial() (err error) {
	c.frontend, err = load.DialFrontend(c.Server.Frontend)
	return err
}

// grow lets more tickets wait, up to a number, and lets pairs meet among them.
func (c *crowd) grow(ctx context.Context, waiting int, goal time.Duration, r *report.Report) error {
	before, err := c.memory(ctx)
	if err != nil {
		return err
	}
	added := float64(waiting - c.waiting)
	if err := c.fill(ctx, waiting); err != nil {
		return err
	}
	pair, err := c.meetOften(ctx)
	if err != nil {
		return err
	}
	after, err := c.memory(ctx)
	if err != nil {
		return err
	}
	live, resident, redis := (after.live-before.live)/added, (after.resident-before.resident)/added, (after.redis-before.redis)/added
	good := pair <= goal && live <= crowdServerLimit && redis <= crowdRedisLimit
	report.Progress("%d waiting: a pair after %s, %.0f (resident: %.0f) + %.0f bytes", waiting, pair, live, resident, redis)
	r.Printf("| %d | %s | %s | %.2f KB | ≤ %.1f KB | %.2f KB | %.2f KB | ≤ %.1f KB | %s |\n", waiting, report.Millis(pair), report.AtMost(goal),
		live/1000, crowdServerLimit/1000.0, resident/1000, redis/1000, crowdRedisLimit/1000.0, report.Verdict(good))
	return nil
}

// memory is what a server and Redis use, in bytes.
type memory struct{ live, resident, redis float64 }

func (c *crowd) memory(ctx context.Context) (m memory, err error) {
	if m.live, err = c.Live(ctx); err == nil {
		m.resident, m.redis, err = c.Memory(ctx)
	}
	return m, err
}

// fill creates tickets until so many wait.
func (c *crowd) fill(ctx context.Context, waiting int) error {
	var created atomic.Int64
	created.Store(int64(c.waiting))
	group, ctx := errgroup.WithContext(ctx)
	for range 100 {
		group.Go(func() error {
			for n := created.Add(1); n <= int64(waiting); n = created.Add(1) {
				if _, err := c.frontend.Create(ctx, seeker(float64(n), float64(n)+0.5)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	c.waiting = waiting
	return group.Wait()
}

// seeker is a ticket of one skill that seeks an opponent of another.
func seeker(skill, sought float64) *openmatch.Ticket {
	criteria, _ := json.Marshal([]map[string]any{{"name": "skill", "minValue": sought, "maxValue": sought}}) // numbers can be written
	var value structpb.Value
	_ = value.UnmarshalJSON(criteria) // as was just written
	extension, _ := anypb.New(&value) // of a known type
	return &openmatch.Ticket{
		SearchFields: &openmatch.SearchFields{DoubleArgs: map[string]float64{"skill": skill}},
		Extensions:   map[string]*anypb.Any{"tidemark.criteria": extension},
	}
}

// meetOften returns the median of how long pairs take.
func (c *crowd) meetOften(ctx context.Context) (time.Duration, error) {
	var took []time.Duration
	for range crowdPairs {
		d, err := c.meet(ctx)
		if err != nil {
			return 0, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// meet is meet for two tickets that accept nobody but each other.
func (c *crowd) meet(ctx context.Context) (time.Duration, error) {
	c.met++
	skill := -float64(c.met)
	return meet(ctx, c.frontend, seeker(skill, skill))
}

// meet creates a ticket twice, for two players, and returns how long after the second both had their assignments.
func meet(ctx context.Context, frontend *load.Frontend, ticket *openmatch.Ticket) (time.Duration, error) {
	first, err := frontend.Create(ctx, ticket)
	if err != nil {
		return 0, err
	}
	started := time.Now()
	second, err := frontend.Create(ctx, ticket)
	if err != nil {
		return 0, err
	}
	for _, id := range []string{first, second} {
		if _, err := frontend.Await(ctx, id); err != nil {
			return 0, err
		}
	}
	return time.Since(started), nil
}

// restart ends the server and returns how long another one takes to start and to match a pair.
func (c *crowd) restart(ctx context.Context) (time.Duration, error) {
	c.frontend.Close()
	c.Server.End(syscall.SIGTERM)
	started := time.Now()
	var err error
	if c.Server, err = c.AddServer(ctx); err != nil {
		return 0, err
	}
	if err := c.dial(); err != nil {
		return 0, err
	}
	_, err = c.meet(ctx)
	return time.Since(started), err
}
