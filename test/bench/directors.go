package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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
	b.printf("\n## Queues directed by their users\n\nA director and a match function of Open Match run in the " +
		"process of the load. The director fetches matches of two\nagain and again, and assigns those of one " +
		"fetch during the next one.\n\n")
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
	type round struct{ own, user, share float64 }
	var rounds []round
	for range duelRounds {
		r := round{own: d.rate("own")}
		stop := d.direct("user")
		r.user = d.rate("user")
		stop()
		r.share = r.user / r.own
		progress("%.0f tickets/s by the service, %.0f by a user's director", r.own, r.user)
		rounds = append(rounds, r)
	}
	share := median(rounds, func(r round) float64 { return r.share })
	d.printf("| players | tickets/s, directed by the service | directed by the user | share | goal | |\n"+
		"|---:|---:|---:|---:|---:|---|\n| %d | %.0f | %.0f | %.2f | %s | %s |\n", directedPlayers,
		median(rounds, func(r round) float64 { return r.own }), median(rounds, func(r round) float64 { return r.user }),
		share, goal("≥", directedShare), report.Verdict(share >= directedShare))
}

// rate returns how many tickets of a queue are matched a second.
func (d *directed) rate(queue string) float64 {
	return d.play(load.Players{
		Frontends: []string{d.server.GRPC}, Queues: []string{queue}, Count: directedPlayers, Warmup: warmup, Window: window,
	}, func() {}).PerSecond()
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
	redis, server, began := d.redis.cpu(), d.server.cpu(), time.Now()
	d.each(int(backfillsWindow/backfillsEvery)*backfillsCount, func(ctx context.Context, n int) error {
		due := began.Add(time.Duration(n) * backfillsEvery / backfillsCount)
		pace.Sleep(ctx, time.Until(due))
		return d.director.Acknowledge(ctx, ids[n%backfillsCount], "127.0.0.1:7777")
	})
	took := time.Since(began).Seconds()
	redisShare := (d.redis.cpu() - redis).Seconds() / took
	serverShare := (d.server.cpu() - server).Seconds() / took
	progress("backfills: %.0f bytes, Redis %.1f %% of a core, server %.1f %%, in %.1f s", memory, 100*redisShare,
		100*serverShare, took)
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
	progress("first of %d after %s", fetchedWaiting, first)
	d.printf("\nWhile %d tickets wait, a fetch whose function proposes a match of the first tickets of its query "+
		"streams it after\n%s, the median of %d (goal ≤ %s, %s).\n", fetchedWaiting, report.Millis(first), fetchedOften,
		report.Millis(fetchedLimit), report.Verdict(first <= fetchedLimit && slices.Min(took) > 0))
}
