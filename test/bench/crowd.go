package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Limits of the cost of a queue full of tickets that never match, from the project's goals.
const (
	crowdServerLimit = 1500 // bytes per ticket
	crowdRedisLimit  = 1200
	crowdStartLimit  = 5 * time.Second
)

// crowdPairs is the number of timed pairs.
const crowdPairs = 50

// crowd is a queue of waiting tickets that never match.
type crowd struct {
	*system
	frontend *load.Frontend
	waiting  int
	met      int // pairs
}

// crowds fills a queue with tickets that never match, and measures how fast pairs are matched among them.
func crowds(b *bench) {
	c := &crowd{system: b.start()}
	defer c.stop()
	c.admin(http.MethodPut, "/v1/queues/crowd",
		`{"maxTickets": 0, "match": {"function": "criteria", "weights": {"skill": 1}}}`)
	c.frontend = c.dialFrontend(c.server)
	defer func() { c.frontend.Close() }()
	b.printf("Tickets that never match wait in a criteria queue. Times are from the creation of the second ticket of a "+
		"pair to\nboth assignments, the median of %d. The other columns are the memory per waiting ticket: of the server "+
		"after a\ngarbage collection, resident, and of Redis.\n\n", crowdPairs)
	b.table("waiting: | a new pair is matched after: | goal: | server: | goal: | resident: | Redis: | goal: | ")
	c.grow(50_000, 5*time.Millisecond)
	c.grow(200_000, 10*time.Millisecond)
	took := c.restart()
	b.printf("\nA server that is started while %d tickets wait matches a new pair %.1f s after its start (goal ≤ "+
		"%.0f s, %s).\n",
		c.waiting, took.Seconds(), crowdStartLimit.Seconds(), report.Verdict(took <= crowdStartLimit))
}

func (b *bench) dialFrontend(server *service) *load.Frontend {
	frontend, err := load.DialFrontend(server.GRPC)
	b.Must(err)
	return frontend
}

// grow adds tickets up to a number, and measures how fast pairs are matched among them.
func (c *crowd) grow(waiting int, goal time.Duration) {
	added := float64(waiting - c.waiting)
	memory := func() [3]float64 { return [3]float64{c.server.live(), c.server.resident(), c.redis.memory()} }
	before := memory()
	c.fill(waiting)
	var took []time.Duration
	for range crowdPairs {
		took = append(took, c.matchPair())
	}
	pair := report.Quantile(took, 0.5)
	after := memory()
	live, resident, redis := (after[0]-before[0])/added, (after[1]-before[1])/added, (after[2]-before[2])/added
	kb := func(bytes float64) string { return fmt.Sprintf("%.2f KB", bytes/1000) }
	limit := func(bytes float64) string { return fmt.Sprintf("≤ %.1f KB", bytes/1000) }
	c.row(waiting, pair, atMost(goal, report.Millis), kb(live), limit(crowdServerLimit), kb(resident), kb(redis),
		limit(crowdRedisLimit), pair <= goal && live <= crowdServerLimit && redis <= crowdRedisLimit)
}

// fill creates tickets until the given number waits.
func (c *crowd) fill(waiting int) {
	first := c.waiting + 1
	c.each(waiting-c.waiting, func(ctx context.Context, i int) error {
		skill := float64(first + i)
		_, err := c.frontend.Create(load.InQueue(ctx, "crowd"), seeker(skill, skill+0.5))
		return err
	})
	c.waiting = waiting
}

// seeker is a ticket of one skill that seeks an opponent of another.
func seeker(skill, sought float64) *openmatch.Ticket {
	criteria, _ := json.Marshal([]map[string]any{{"name": "skill", "minValue": sought, "maxValue": sought}}) // never fails
	var value structpb.Value
	_ = value.UnmarshalJSON(criteria) // as was just written
	extension, _ := anypb.New(&value) // of a known type
	return &openmatch.Ticket{
		SearchFields: &openmatch.SearchFields{DoubleArgs: map[string]float64{"skill": skill}},
		Extensions:   map[string]*anypb.Any{"tidemark.criteria": extension},
	}
}

// matchPair is match for two tickets that accept only each other.
func (c *crowd) matchPair() time.Duration {
	c.met++
	skill := -float64(c.met)
	return c.match(c.frontend, seeker(skill, skill), "crowd")
}

// match creates a ticket twice, for two players, and returns how long after the second both had their assignments. It
// names the queue, unless that is empty.
func (b *bench) match(frontend *load.Frontend, ticket *openmatch.Ticket, queue string) time.Duration {
	ctx := b.Context()
	if queue != "" {
		ctx = load.InQueue(ctx, queue)
	}
	first, err := frontend.Create(ctx, ticket)
	b.Must(err)
	started := time.Now()
	second, err := frontend.Create(ctx, ticket)
	b.Must(err)
	for _, id := range []string{first, second} {
		_, err := frontend.Await(ctx, id)
		b.Must(err)
	}
	return time.Since(started)
}

// restart ends the server and returns how long another one takes to start and to match a pair.
func (c *crowd) restart() time.Duration {
	c.frontend.Close()
	c.server.end(syscall.SIGTERM)
	started := time.Now()
	c.server = c.addServer()
	c.frontend = c.dialFrontend(c.server)
	c.matchPair()
	return time.Since(started)
}
