package idle

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/load"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// How the server is abused: so many HTTP/2 connections open long polls and reset them, for so long.
const (
	resetConnections = 8
	resetTime        = 8 * time.Second
	resetLimit       = 150e6 // bytes of the server's memory
)

// abuse is what a server did under abuse.
type abuse struct {
	idle, most float64 // bytes of its resident memory, before and at most
	resets     int
	published  int // messages of another client
}

// Abuse measures the memory of a server whose clients open requests and reset them.
func Abuse(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return err
	}
	defer u.Stop()
	if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPut, "/v1/channels/abuse/subscribers/s", "")); err != nil {
		return err
	}
	a := new(abuse)
	if a.idle, err = u.Server.Metric(ctx, "process_resident_memory_bytes"); err != nil {
		return err
	}
	attack, cancel := context.WithTimeout(ctx, resetTime)
	defer cancel()
	var attackers errgroup.Group
	counts := make([]int, resetConnections)
	for i := range counts {
		attackers.Go(func() error { return resetStreams(attack, u.Server.HTTP, &counts[i]) })
	}
	for attack.Err() == nil {
		if err := a.look(ctx, u.Server); err != nil {
			return err
		}
	}
	if err := attackers.Wait(); err != nil {
		return err
	}
	for _, n := range counts {
		a.resets += n
	}
	r.Printf("\n## Memory under rapid reset\n\n%d HTTP/2 connections open long polls and reset them, for %.0f seconds, while another client publishes.\n\n",
		resetConnections, resetTime.Seconds())
	r.Printf("| resets | memory before | at most | goal | publishes, all answered 201 | |\n|---:|---:|---:|---:|---:|---|\n")
	r.Printf("| %d | %.0f MB | %.0f MB | ≤ %.0f MB | %d | %s |\n",
		a.resets, a.idle/1e6, a.most/1e6, resetLimit/1e6, a.published, report.Verdict(a.most <= resetLimit))
	return nil
}

// resetStreams opens and resets streams until ctx ends, on a new connection whenever the server has closed the last.
func resetStreams(ctx context.Context, address string, resets *int) error {
	for ctx.Err() == nil {
		c, err := load.DialFlood(ctx, address, true)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for err == nil && ctx.Err() == nil {
			if err = c.Resets("/v1/channels/abuse/subscribers/s/messages?wait=1m", 100); err == nil {
				*resets += 100
			}
		}
		c.Close()
	}
	return nil
}

// look publishes a message and reads the server's memory.
func (a *abuse) look(ctx context.Context, p *target.Process) error {
	path := fmt.Sprintf("/v1/channels/bystander/messages/m%d", a.published)
	answered, err := load.Once(ctx, p.HTTP, load.Request(http.MethodPut, path, `"x"`))
	if err != nil {
		return err
	}
	if answered.Status != http.StatusCreated {
		return fmt.Errorf("a publish beside resets was answered %d", answered.Status)
	}
	a.published++
	used, err := p.Metric(ctx, "process_resident_memory_bytes")
	a.most = max(a.most, used)
	return err
}
