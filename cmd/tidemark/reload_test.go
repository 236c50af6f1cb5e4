package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestReloadsUnderLoad reloads, by signals and by calls at the same time, while clients publish and players are matched
// in a queue whose definition changes. No publish fails, and each player gets its match.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(n int) {
		text := fmt.Sprintf("maxBatch: %d\nchannels: [{pattern: 'c.*', ttl: %dh}]\nuserLimits: requests=%d/s\n"+
			"queues:\n  duel: {maxTickets: %d}\n", n+1, n+1, n+1, n+1000)
		if n%2 == 0 {
			text += "  other: {}\n"
		}
		whole := filepath.Join(dir, "next.yaml")
		require.NoError(t, os.WriteFile(whole, []byte(text), 0o600))
		require.NoError(t, os.Rename(whole, filepath.Join(dir, "tidemark.yaml")))
	}
	write(0)
	s := startServerIn(t, dir, "--redis", redistest.Start(t, redistest.Options{}).URL(), "--config", "tidemark.yaml")
	admin, err := client.New(s.admin)
	require.NoError(t, err)
	t.Cleanup(admin.Close)

	var target atomic.Pointer[string]
	target.Store(&s.url)
	w := publishers{target: &target, stop: make(chan struct{})}
	var workers, players errgroup.Group
	for i := range 8 {
		workers.Go(func() error {
			err := w.run(i, i%2 == 0)
			w.fail(err)
			return err
		})
	}
	w.await(t, 50)
	ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
	defer cancel()
	for range 3 {
		players.Go(func() error {
			for {
				select {
				case <-w.stop:
					return nil
				default:
				}
				var pair [2]string
				for i := range pair {
					created, err := s.CreateTicket(ctx, client.NewTicket{Queue: "duel"})
					if err != nil {
						return err
					}
					pair[i] = created.ID
				}
				for _, id := range pair {
					if _, err := s.AwaitAssignment(ctx, id); err != nil {
						return err
					}
				}
			}
		})
	}
	for n := 1; n <= 10; n++ {
		write(n)
		var reloads errgroup.Group
		reloads.Go(func() error { return s.Signal(syscall.SIGHUP) })
		for range 2 {
			reloads.Go(func() error {
				_, err := admin.Reload(t.Context())
				return err
			})
		}
		require.NoError(t, reloads.Wait())
		info, err := s.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, n+1, info.Limits.MaxBatch)
		status, _ := s.request(t, http.MethodGet, s.url+"/v1/queues/other", "")
		require.Equal(t, map[bool]int{true: 200, false: 404}[n%2 == 0], status)
		w.await(t, 20)
	}
	close(w.stop)
	require.NoError(t, workers.Wait())
	require.NoError(t, players.Wait())
}

// TestReloadThatHangs: a read that doesn't end neither blocks later reloads, nor the end of the service.
func TestReloadThatHangs(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	hang, entered := make(chan struct{}), make(chan struct{})
	needs := partNeeds{log: slog.New(slog.NewTextHandler(&logged, nil)), metrics: prometheus.NewRegistry()}
	l := newReloader(config.Config{}, reloads{limit: time.Millisecond, level: new(slog.LevelVar),
		read: func(config.Config) (config.Reloaded, error) { <-hang; return config.Reloaded{}, nil }}, needs)
	_, err := l.serve(t.Context())
	require.ErrorContains(t, err, "can't be read in time (1ms)")
	l.limit = time.Hour
	l.read = func(config.Config) (config.Reloaded, error) {
		return config.Reloaded{}, config.Faults{"a.yaml:1: a", "a.yaml:2: b"}
	}
	_, err = l.serve(t.Context())
	require.ErrorContains(t, err, "nothing was changed: a.yaml:1: a; a.yaml:2: b")
	require.Equal(t, 2, strings.Count(logged.String(), "fault=a.yaml")+strings.Count(logged.String(), `fault="a.yaml`))

	l.read = func(config.Config) (config.Reloaded, error) {
		close(entered)
		<-hang
		return config.Reloaded{}, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	failed := make(chan error, 1)
	go func() {
		_, err := l.serve(t.Context())
		failed <- err
	}()
	<-entered
	stop()
	require.NoError(t, <-ended)
	require.ErrorContains(t, <-failed, "the server is shutting down")
	close(hang)
}
