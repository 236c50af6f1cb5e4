package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/server"
)

const (
	// loadLimit is how long the configuration may take to read at the start, from a pipe for example.
	loadLimit = time.Minute
	// reloadLimit is the same for a reload.
	reloadLimit = 10 * time.Second
)

// notifyReload returns a channel of SIGHUPs, until stop is called. A process that was started with SIGHUP ignored, as
// by nohup, goes on ignoring it. One that arrives before the service is ready is handled then.
func notifyReload() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1) // several at once mean one reload
	if signal.Ignored(syscall.SIGHUP) {
		return c, func() {}
	}
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reloads holds the trigger of reloads, and how the configuration is read.
type reloads struct {
	read    func(running config.Config) (config.Reloaded, error)
	signals <-chan os.Signal
	level   *slog.LevelVar // of the log
	limit   time.Duration  // for read
}

// readAgain returns how tidemark serve reads its configuration again.
func readAgain(flags *pflag.FlagSet, environ []string) func(config.Config) (config.Reloaded, error) {
	return func(running config.Config) (config.Reloaded, error) {
		next, err := config.LoadAgain(flags, environ)
		if err != nil {
			return config.Reloaded{}, err
		}
		return running.Reload(next)
	}
}

// reloader changes the configuration of a service that runs. Its methods may be called by many goroutines once apply is
// set.
type reloader struct {
	reloads
	log     *slog.Logger
	results *prometheus.CounterVec
	success prometheus.Gauge
	apply   func(before, now config.Config) error // changes the service, or nothing; nil: only the log's level changes

	turn    chan struct{} // buffered (capacity 1): held during a reload
	running config.Config // guarded by turn
	ended   chan struct{} // closed when the service stops: reloads are abandoned
}

// reloadable is the parts of a service that a reload changes. Each replaces what it has by one atomic step.
type reloadable struct {
	channels *channel.Service
	guard    *access.Guard       // nil: the service is open
	matches  *startedMatchmaking // nil: matchmaking is off
	compared *comparison
	examined *examiner
	server   *server.Server
}

func newReloader(c config.Config, r reloads, needs partNeeds) *reloader {
	l := &reloader{
		reloads: r, log: needs.log, running: c, turn: make(chan struct{}, 1), ended: make(chan struct{}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_reloads_total", Help: "Reloads of the configuration, by their result.",
		}, []string{"result"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_reload_last_success_timestamp_seconds",
			Help: "When the configuration was last read without a fault: at the start, or by a reload.",
		}),
	}
	for _, result := range []string{"applied", "refused"} {
		l.results.WithLabelValues(result) // 0, so that alerts see the first one
	}
	l.success.SetToCurrentTime()
	needs.metrics.MustRegister(l.results, l.success)
	return l
}

// run reloads on each signal until ctx ends.
func (l *reloader) run(ctx context.Context) error {
	defer close(l.ended)
	for {
		select {
		case <-l.signals:
			notify(ctx, notifyReloading(), l.log)
			_, _ = l.reload(ctx) // it is logged
			notify(ctx, daemon.SdNotifyReady, l.log)
		case <-ctx.Done():
			return nil
		}
	}
}

// serve is an admin.Reload.
func (l *reloader) serve(ctx context.Context) (client.Reloaded, error) {
	done, err := l.reload(ctx)
	var clientErr *fault.Error
	switch {
	case errors.As(err, &clientErr):
		return client.Reloaded{}, err
	case err != nil && ctx.Err() == nil:
		return client.Reloaded{}, &fault.Error{Kind: fault.Conflict, Slug: fault.SlugConfiguration,
			Detail: "nothing was changed: " + strings.Join(faultsOf(err), "; ")}
	case err != nil:
		return client.Reloaded{}, err
	}
	answer := client.Reloaded{Changes: []client.OptionChange{}, Restart: append([]string{}, done.Restart...)}
	for _, c := range done.Changes {
		answer.Changes = append(answer.Changes, client.OptionChange(c))
	}
	return answer, nil
}

// configuration is an admin.Configuration.
func (l *reloader) configuration(ctx context.Context) (wire.Configuration, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
		return wire.Configuration{Options: l.running.InForce()}, nil
	case <-ctx.Done():
		return wire.Configuration{}, context.Cause(ctx)
	}
}

// reload reads the configuration and changes the service, or changes nothing if that has a fault. One reload happens at
// a time. It is abandoned when ctx ends or the service stops.
func (l *reloader) reload(ctx context.Context) (config.Reloaded, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-l.ended:
			cancel(web.ErrDraining)
		case <-ctx.Done():
		}
	}()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return config.Reloaded{}, context.Cause(ctx)
	}
	read, running := l.read, l.running
	done, err := config.Within(ctx, l.limit, func() (config.Reloaded, error) { return read(running) })
	if ctx.Err() != nil {
		l.log.InfoContext(ctx, "reload abandoned")
		return config.Reloaded{}, context.Cause(ctx)
	}
	if err == nil && l.apply != nil {
		err = l.apply(running, done.Config)
	}
	if err == nil {
		l.running = done.Config
	}
	l.report(ctx, done, err)
	return done, err
}

// apply changes the service, or nothing.
func (p reloadable) apply(before, c config.Config) error {
	policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
	if err != nil {
		return err
	}
	rules, err := access.CompileRules(c.Access.Rules)
	if err != nil {
		return err
	}
	compare, err := newAnnounced(c)
	if err != nil {
		return err
	}
	redefine := func() {}
	if p.matches != nil {
		if redefine, err = p.matches.Redefine(c.Matchmaking.Queues, c.Matchmaking.MaxQueues); err != nil {
			return err
		}
	}
	if err := p.channels.Configure(policies, c.Limits); err != nil {
		return err
	}
	// nothing fails from here on
	p.examined.configure(c)
	if p.guard != nil {
		p.guard.SetRules(rules)
	}
	if before := before.Access; before.UserLimits != c.Access.UserLimits ||
		before.AddressLimits != c.Access.AddressLimits || before.Quotas != c.Access.Quotas {
		p.server.SetLimits(limits.Limits{Users: c.Access.UserLimits, Addresses: c.Access.AddressLimits,
			Quotas: c.Access.Quotas})
	}
	redefine()
	p.compared.own.Store(compare)
	return nil
}

// report logs and counts a reload. It logs at the lower one of the levels before and after.
func (l *reloader) report(ctx context.Context, done config.Reloaded, err error) {
	if err != nil {
		l.results.WithLabelValues("refused").Inc()
		for _, text := range faultsOf(err) {
			l.log.ErrorContext(ctx, "configuration not reloaded", "fault", text)
		}
		return
	}
	l.level.Set(min(l.level.Level(), done.Log.Level))
	defer l.level.Set(done.Log.Level)
	l.success.SetToCurrentTime()
	l.results.WithLabelValues("applied").Inc()
	l.log.InfoContext(ctx, "configuration reloaded", "changes", len(done.Changes))
	for _, c := range done.Changes {
		l.log.InfoContext(ctx, "option changed", "option", c.Option, "from", c.From, "to", c.To)
	}
	if len(done.Restart) > 0 {
		l.log.WarnContext(ctx, "options need a restart to change", "options", done.Restart)
	}
}

// faultsOf returns the faults of a configuration, or an error as the only one.
func faultsOf(err error) []string {
	var all config.Faults
	if errors.As(err, &all) {
		return all
	}
	return []string{err.Error()}
}
