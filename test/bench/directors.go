package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Loads and goals of queues that their users direct.
const (
	directedPlayers = 1024
	directedShare   = 0.8 // of the rate of the service's own director
	fetchedWaiting  = 100_000
	fetchedLimit    = 50 * time.Millisecond
	fetchedOften    = 20
	backfillsCount  = 10_000
	backfillsEvery  = 5 * time.Second
	backfillsWindow = 2 * backfillsEvery
	backfillsLimit  = 0.05 // of a core, of Redis
)

// directed is a queue that its user directs: this process runs a director and a match function.
type directed struct {
	*system
	director *load.Director
}

// directors measures queues that are directed by their users, by Open Match's Backend API.
func directors(b *bench) {
	b.printf("A director and a match function of Open Match run in the process of the load. The director fetches matches " +
		"of two\nagain and again, and assigns those of one fetch during the next one.\n\n")
	d := b.startDirected()
	defer d.stop()
	d.rates()
	d.backfills()
	d.firstMatch()
}

// startDirected starts a server with a queue of each kind.
func (b *bench) startDirected() *directed {
	d := &directed{system: b.start("--callout-allow", "127.0.0.1")}
	d.admin(http.MethodPut, "/v1/queues/own", `{}`)
	for _, queue := range []string{"user", "backfills", "crowd"} {
		d.admin(http.MethodPut, "/v1/queues/"+queue, `{"director": "user", "maxTickets": 0, "maxBackfills": 20000}`)
	}
	var err error
	d.director, err = load.DialDirector(d.server.GRPC)
	d.Must(err)
	return d
}

// pairs starts a match function.
func (d *directed) pairs(limit int) *load.Pairs {
	p, err := load.ServePairs(d.Context(), []*load.Director{d.director}, limit)
	d.Must(err)
	return p
}

// rates compares the rate of a director of the user with that of the service.
func (d *directed) rates() {
	rates := turns(duelRounds, []string{"own", "user"}, func(_ int, queue string) float64 {
		if queue == "user" {
			defer d.direct(queue)()
		}
		return d.play(load.Players{
			Frontends: []string{d.server.GRPC}, Queues: []string{queue}, Count: directedPlayers, Warmup: warmup, Window: window,
		}, &meter{system: d.system}).PerSecond()
	})
	shares := make([]float64, duelRounds)
	for round := range shares {
		shares[round] = rates[1][round] / rates[0][round]
	}
	middle := func(all []float64) float64 { return median(all, func(n float64) float64 { return n }) }
	share := middle(shares)
	d.table("players: | tickets/s, directed by the service: | directed by the user: | share: | goal: | ")
	d.row(directedPlayers, middle(rates[0]), middle(rates[1]), fmt.Sprintf("%.2f", share), goal("≥", directedShare),
		share >= directedShare)
}

// direct directs a queue until stop is called.
func (d *directed) direct(queue string) (stop func()) {
	ctx, cancel := context.WithCancel(d.Context())
	pairs := d.pairs(0)
	var work errgroup.Group
	work.Go(func() error {
		defer pairs.Close()
		var assigning errgroup.Group
		for ctx.Err() == nil {
			var matches []*openmatch.Match
			err := d.director.Fetch(ctx, queue, pairs, func(m *openmatch.Match) error {
				matches = append(matches, m)
				return nil
			})
			if failed := assigning.Wait(); failed != nil {
				return failed
			}
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			case len(matches) > 0:
				assigning.Go(func() error { return d.director.Assign(d.Context(), queue, matches) })
			default:
				pace.Sleep(ctx, time.Millisecond)
			}
		}
		return assigning.Wait()
	})
	return func() {
		cancel()
		d.Must(work.Wait())
	}
}

// backfills measures what backfills cost that are acknowledged in time.
func (d *directed) backfills() {
	before := d.redis.memory()
	ids := make([]string, backfillsCount)
	d.each(backfillsCount, func(ctx context.Context, n int) (err error) {
		ids[n], err = d.director.CreateBackfill(ctx, "backfills", &openmatch.Backfill{
			SearchFields: &openmatch.SearchFields{StringArgs: map[string]string{"map": fmt.Sprint(n % 10)}},
		})
		return err
	})
	memory := (d.redis.memory() - before) / backfillsCount
	started := time.Now()
	m := meter{system: d.system, servers: []*service{d.server}}
	used := m.during(1, func() {
		d.each(int(backfillsWindow/backfillsEvery)*backfillsCount, func(ctx context.Context, n int) error {
			due := started.Add(time.Duration(n) * backfillsEvery / backfillsCount)
			pace.Sleep(ctx, time.Until(due))
			return d.director.Acknowledge(ctx, ids[n%backfillsCount], "127.0.0.1:7777")
		})
	})
	took := time.Since(started)
	redisShare, serverShare := float64(used.redis)/float64(took), float64(used.server)/float64(took)
	d.printf("\n%d backfills that are acknowledged every %s use %.1f %% of a core in Redis (goal ≤ %.0f %%, %s), "+
		"%.1f %% in the server,\nand %.2f KB of Redis's memory each.\n", backfillsCount, backfillsEvery, 100*redisShare,
		100*backfillsLimit, report.Verdict(redisShare <= backfillsLimit), 100*serverShare, memory/1000)
}

// firstMatch measures how soon a fetch streams its first match while many tickets wait.
func (d *directed) firstMatch() {
	frontend := d.dialFrontend(d.server)
	defer frontend.Close()
	d.each(fetchedWaiting, func(ctx context.Context, _ int) error {
		_, err := frontend.Create(load.InQueue(ctx, "crowd"), &openmatch.Ticket{})
		return err
	})
	pairs := d.pairs(1)
	defer pairs.Close()
	var took []time.Duration
	for range fetchedOften {
		started := time.Now()
		var first time.Duration
		d.Must(d.director.Fetch(d.Context(), "crowd", pairs, func(*openmatch.Match) error {
			first = time.Since(started)
			return nil
		}))
		took = append(took, first)
	}
	first := report.Quantile(took, 0.5)
	d.printf("\nWhile %d tickets wait, a fetch whose function proposes a match of the first tickets of its query "+
		"streams it after\n%s, the median of %d (goal ≤ %s, %s).\n", fetchedWaiting, report.Millis(first), fetchedOften,
		report.Millis(fetchedLimit), report.Verdict(first <= fetchedLimit && slices.Min(took) > 0))
}

// takeovers ends the server that directs a queue while another server matches pairs.
func takeovers(b *bench) {
	b.printf("One of two servers directs the queue and is stopped. Pairs of tickets are created on the other one, one "+
		"pair after\nthe other. The time is the longest until a pair was matched, of %d runs.\n\n", duelRounds)
	b.table("the director is stopped | longest time: | goal: | ")
	for _, end := range []struct {
		name   string
		signal syscall.Signal
		goal   time.Duration
	}{{"by SIGTERM", syscall.SIGTERM, 200 * time.Millisecond}, {"by SIGKILL", syscall.SIGKILL, 5 * time.Second}} {
		longest := time.Duration(0)
		for range duelRounds {
			longest = max(longest, b.takeOver(end.signal))
		}
		b.row(end.name, longest, atMost(end.goal, report.Millis), longest <= end.goal)
	}
}

// takeOver returns the longest time that a pair took after a signal to the director.
func (b *bench) takeOver(signal syscall.Signal) (longest time.Duration) {
	u := b.start()
	defer u.stop()
	servers := []*service{u.server, u.addServer()}
	b.matchPairsAt(servers[1], 0)
	directs := slices.IndexFunc(servers, func(s *service) bool {
		return s.labelled("tidemark_director", "queue")["default"] == 1
	})
	if directs < 0 {
		b.Fatalf("no server directs the queue")
	}
	go servers[directs].end(signal)
	return b.matchPairsAt(servers[1-directs], time.Second) // a director that stops may still match the first pairs
}

// matchPairsAt creates pairs of tickets, one after the other, for some time, but at least one pair. It returns the
// longest time until a pair was matched.
func (b *bench) matchPairsAt(server *service, length time.Duration) (longest time.Duration) {
	frontend := b.dialFrontend(server)
	defer frontend.Close()
	for started, first := time.Now(), true; first || time.Since(started) < length; first = false {
		pair := time.Now()
		b.match(frontend, &openmatch.Ticket{}, "")
		longest = max(longest, time.Since(pair))
	}
	return longest
}
