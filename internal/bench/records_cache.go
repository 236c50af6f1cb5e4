package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/report"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	cachestore "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// author is a value that is cached.
type cachedAuthor struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	Bio  string `json:"bio"`
}

// openCache opens a cache of authors in a Redis.
func openCache(ctx context.Context, url string) (*cache.Cache[cachedAuthor], func(), error) {
	conn, err := redis.Connect(ctx, redis.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	reads, err := tracked.Open(ctx, conn, tracked.Options{})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	store := cachestore.New(conn, conn, reads)
	c := cache.New(store, cache.Options[cachedAuthor]{Kind: records.Author})
	return c, func() { c.Close(); store.Close(); reads.Close(); conn.Close() }, nil
}

// measureHotReads reads one value in this process, on one core.
func (u *system) measureHotReads() {
	ctx := u.Context()
	c, stop, err := openCache(ctx, "unix://"+u.redis.socket)
	u.Must(err)
	defer stop()
	u.Must(c.Put(ctx, "7", cachedAuthor{ID: 7, Name: "Ann", Bio: strings.Repeat("x", 500)}))
	_, err = c.Get(ctx, "7")
	u.Must(err)
	const reads = 5_000_000
	var rates []float64
	scripts, commands := u.sent(reads*u.rounds, func() {
		for range u.rounds {
			before := ownCPU()
			for range reads {
				if v, err := c.Get(ctx, "7"); err != nil || v.ID != 7 {
					u.Must(errors.Join(err, errors.New("another value")))
				}
			}
			rates = append(rates, reads/(ownCPU()-before).Seconds())
		}
	})
	rate, sent := median(rates), scripts+commands
	u.printf("| reads of a cached value a second, in process, for one core | %.0f | ≥ %.0f | %s |\n", rate, hotReads,
		report.Verdict(rate >= hotReads))
	u.printf("| commands that Redis gets for one | %.6f | 0 | %s |\n", sent, report.Verdict(sent < noise))
}

// The numbers of processes and callers that load one missing value at once.
const (
	loadCallers   = 1000
	loadProcesses = 3
)

// measureLoads lets many callers in several processes load one value that is missing.
func (u *system) measureLoads() {
	most, took := 0, []float64(nil)
	for range u.rounds {
		u.redis.do("DEL", records.Author.Key("missing"))
		begun, runs, err := loadAtOnce(u.Context(), "unix://"+u.redis.socket)
		u.Must(err)
		most, took = max(most, runs), append(took, time.Since(begun).Seconds())
	}
	u.printf("| runs of the loader of one missing value, for %d callers in %d processes (all were answered after %s) | "+
		"%d | 1 | %s |\n",
		loadCallers, loadProcesses, report.Millis(medianTime(took)), most, report.Verdict(most == 1))
}

// loadAtOnce starts the processes, lets all callers begin at the same time, and returns that time and how often a
// loader ran.
func loadAtOnce(ctx context.Context, url string) (begun time.Time, runs int, err error) {
	var all []*child
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.end())
		}
	}()
	for range loadProcesses {
		c, err := startChild(ctx, "-loads", url)
		if err != nil {
			return begun, 0, err
		}
		all = append(all, c)
		if _, err := c.out.ReadString('\n'); err != nil { // it is ready
			return begun, 0, err
		}
	}
	begun = time.Now()
	for _, c := range all {
		if _, err := io.WriteString(c.in, "go\n"); err != nil {
			return begun, 0, err
		}
	}
	for _, c := range all {
		n := 0
		if _, err := fmt.Fscanln(c.out, &n); err != nil {
			return begun, 0, err
		}
		runs += n
	}
	return begun, runs, nil
}

// callAtOnce is one of the processes: when a line arrives on standard input, its callers load one value. It prints how
// often the loader ran.
func callAtOnce(ctx context.Context, url string) error {
	c, stop, err := openCache(ctx, url)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var runs atomic.Int64
	errs := make(chan error, loadCallers)
	var g sync.WaitGroup
	for range (loadCallers + loadProcesses - 1) / loadProcesses {
		g.Go(func() {
			_, err := c.Load(ctx, "missing", func(context.Context) (cachedAuthor, error) {
				runs.Add(1)
				<-time.After(100 * time.Millisecond) // about as long as a database
				return cachedAuthor{ID: 1, Name: "Ann"}, nil
			})
			errs <- err
		})
	}
	g.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Println(runs.Load())
	return nil
}
