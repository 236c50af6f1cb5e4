package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	cachestore "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// author is a value that is cached.
type author struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	Bio  string `json:"bio"`
}

// openCache opens a cache of authors in a Redis.
func openCache(ctx context.Context, url string) (*cache.Cache[author], func(), error) {
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
	c := cache.New(store, cache.Options[author]{Kind: records.Author})
	return c, func() { c.Close(); store.Close(); reads.Close(); conn.Close() }, nil
}

// measureHotReads reads one value in this process, on one core.
func measureHotReads(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	c, stop, err := openCache(ctx, "unix://"+u.Redis.Socket)
	if err != nil {
		return err
	}
	defer stop()
	if err := c.Put(ctx, "7", author{ID: 7, Name: "Ann", Bio: strings.Repeat("x", 500)}); err != nil {
		return err
	}
	if _, err := c.Get(ctx, "7"); err != nil {
		return err
	}
	const reads = 5_000_000
	var rates []float64
	got, err := sent(ctx, u, reads*s.Rounds, func() error {
		for range s.Rounds {
			before, err := target.CPU(os.Getpid())
			if err != nil {
				return err
			}
			for range reads {
				if v, err := c.Get(ctx, "7"); err != nil || v.ID != 7 {
					return errors.Join(err, errors.New("another value"))
				}
			}
			after, err := target.CPU(os.Getpid())
			if err != nil {
				return err
			}
			rates = append(rates, reads/(after-before).Seconds())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("hot reads: %w", err)
	}
	rate := report.Median(rates)
	r.Printf("| reads of a cached value a second, in process, for one core | %.0f | ≥ %.0f | %s |\n", rate, hotReads, report.Verdict(rate >= hotReads))
	r.Printf("| commands that Redis gets for one | %.6f | 0 | %s |\n", got.commands+got.scripts, report.Verdict(got.commands+got.scripts < rest))
	return nil
}

// How many load one missing value at once.
const (
	loadCallers   = 1000
	loadProcesses = 3
)

// measureLoads lets many callers in several processes load one value that is missing.
func measureLoads(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	most, took := 0, []float64(nil)
	for range s.Rounds {
		if err := u.Redis.Do(ctx, "DEL", records.Author.Key("missing")).Error(); err != nil {
			return err
		}
		begun, runs, err := loadRound(ctx, "unix://"+u.Redis.Socket)
		if err != nil {
			return fmt.Errorf("loads: %w", err)
		}
		most, took = max(most, runs), append(took, time.Since(begun).Seconds())
	}
	r.Printf("| runs of the loader of one missing value, for %d callers in %d processes (all were answered after %s) | %d | 1 | %s |\n",
		loadCallers, loadProcesses, report.Millis(time.Duration(report.Median(took)*1e9)), most, report.Verdict(most == 1))
	return nil
}

// loader is a process of callers.
type loader struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// loadRound starts the processes, lets all callers begin at the same time, and returns when that was and how often a loader ran.
func loadRound(ctx context.Context, url string) (begun time.Time, runs int, err error) {
	var all []*loader
	defer func() {
		for _, l := range all {
			_ = l.in.Close()
			err = errors.Join(err, l.cmd.Wait())
		}
	}()
	for range loadProcesses {
		l, err := startLoader(ctx, url)
		if err != nil {
			return begun, 0, err
		}
		all = append(all, l)
	}
	begun = time.Now()
	for _, l := range all {
		if _, err := io.WriteString(l.in, "go\n"); err != nil {
			return begun, 0, err
		}
	}
	for _, l := range all {
		line, err := l.out.ReadString('\n')
		if err != nil {
			return begun, 0, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return begun, 0, err
		}
		runs += n
	}
	return begun, runs, nil
}

// startLoader starts a process, and returns when it is ready.
func startLoader(ctx context.Context, url string) (*loader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &loader{cmd: exec.CommandContext(ctx, self, "-loads", url)} //nolint:gosec // this program
	l.cmd.Stderr = os.Stderr
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out = bufio.NewReader(out)
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = l.out.ReadString('\n')
	return l, err
}

// CallAtOnce is one of the processes: when a line arrives on standard input, its callers load one value. It prints how often the
// loader ran.
func CallAtOnce(ctx context.Context, url string) error {
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
			_, err := c.Load(ctx, "missing", func(context.Context) (author, error) {
				runs.Add(1)
				<-time.After(100 * time.Millisecond) // as a database takes
				return author{ID: 1, Name: "Ann"}, nil
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
