package load

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Players is a load for any frontend of Open Match: players who create a ticket, watch it until it has its assignment,
// and begin again.
type Players struct {
	Frontends []string      // host:port, without TLS; players are spread over them
	Queues    []string      // of Tidemark, by metadata; players are spread over them; empty: no metadata
	Count     int           // who have a ticket at the same time
	Share     int           // players that share a connection; 0: DefaultShare
	Rate      float64       // tickets a second, by as many players as necessary; 0: each player begins again at once
	Warmup    time.Duration // before the window
	Window    time.Duration // in which tickets are counted
}

// Matched is the result for the tickets whose assignment arrived within the window.
type Matched struct {
	Window time.Duration
	Took   []time.Duration // from the call that creates a ticket until its assignment, sorted
}

// PerSecond returns how many tickets were assigned a second.
func (r Matched) PerSecond() float64 { return float64(len(r.Took)) / r.Window.Seconds() }

// Quantile returns the time within which this share of the tickets was assigned.
func (r Matched) Quantile(share float64) time.Duration { return report.Quantile(r.Took, share) }

// DefaultShare is below the 250 streams that common servers accept on a connection.
const DefaultShare = 128

// patience bounds the wait for tickets that still wait at the end: the last one may have no opponent.
const patience = 2 * time.Second

// Run lets the players play. It calls mark, which may be nil, at the beginning and at the end of the window.
func (l Players) Run(ctx context.Context, mark func() error) (Matched, error) {
	r := &run{Players: l, stop: make(chan struct{})}
	defer r.disconnect()
	if err := r.connect(); err != nil {
		return Matched{}, err
	}
	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	group, calls := errgroup.WithContext(calls)
	r.begin(calls, group)
	result, err := r.window(calls, mark)
	close(r.stop)
	end := time.AfterFunc(patience, cancel)
	defer end.Stop()
	// A player's error ends the calls, and so it is the reason if the window failed.
	if failed := group.Wait(); failed != nil {
		return Matched{}, failed
	}
	return result, err
}

// run is one run of a load.
type run struct {
	Players
	frontends []*Frontend
	stop      chan struct{} // closed when no more tickets are to be created

	mu   sync.Mutex
	from time.Time // begin of the window
	took []time.Duration
}

func (r *run) connect() error {
	for range max(1, r.Count/cmp.Or(r.Share, DefaultShare)/len(r.Frontends)) {
		for _, address := range r.Frontends {
			f, err := DialFrontend(address)
			if err != nil {
				return err
			}
			r.frontends = append(r.frontends, f)
		}
	}
	return nil
}

func (r *run) disconnect() {
	for _, f := range r.frontends {
		f.Close()
	}
}

// begin starts all players.
func (r *run) begin(ctx context.Context, group *errgroup.Group) {
	if r.Rate > 0 {
		group.Go(func() error { r.offer(ctx, group); return nil })
		return
	}
	for i := range r.Count {
		group.Go(func() error {
			for {
				if err := r.play(ctx, i); err != nil {
					return err
				}
				select {
				case <-r.stop:
					return nil
				default:
				}
			}
		})
	}
}

// offer starts a player for each ticket, evenly. If this machine falls behind, it catches up.
func (r *run) offer(ctx context.Context, group *errgroup.Group) {
	started := time.Now()
	for i := 0; ; i++ {
		due := started.Add(time.Duration(float64(i) / r.Rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return
		case <-r.stop:
			return
		case <-time.After(time.Until(due)):
			group.Go(func() error { return r.play(ctx, i) })
		}
	}
}

// play creates a ticket and waits for its assignment. It returns no error for a ticket that waited when the run ended.
func (r *run) play(ctx context.Context, player int) error {
	frontend := r.frontends[player%len(r.frontends)]
	if len(r.Queues) > 0 {
		ctx = InQueue(ctx, r.Queues[player/len(r.frontends)%len(r.Queues)])
	}
	started := time.Now()
	id, err := frontend.Create(ctx, &openmatch.Ticket{})
	if err == nil {
		_, err = frontend.Await(ctx, id)
	}
	if err == nil {
		r.count(started)
		return nil
	}
	select {
	case <-r.stop:
		return nil
	default:
		return err
	}
}

// count counts an assignment that arrived now, if the window is open.
func (r *run) count(started time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.from.IsZero() {
		r.took = append(r.took, now.Sub(started))
	}
}

// errNone means that the load measured nothing.
var errNone = errors.New("no ticket was assigned")

// window opens the window after the warm-up, and closes it.
func (r *run) window(ctx context.Context, mark func() error) (Matched, error) {
	if mark == nil {
		mark = func() error { return nil }
	}
	if !pace.Sleep(ctx, r.Warmup) {
		return Matched{}, ctx.Err()
	}
	r.mu.Lock()
	r.from = time.Now()
	r.took = make([]time.Duration, 0, 1<<17)
	r.mu.Unlock()
	if err := mark(); err != nil {
		return Matched{}, err
	}
	if !pace.Sleep(ctx, r.Window) {
		return Matched{}, ctx.Err()
	}
	r.mu.Lock()
	result := Matched{Window: time.Since(r.from), Took: r.took}
	r.from, r.took = time.Time{}, nil
	r.mu.Unlock()
	if err := mark(); err != nil {
		return Matched{}, err
	}
	if len(result.Took) == 0 {
		return Matched{}, errNone
	}
	slices.Sort(result.Took)
	return result, nil
}
