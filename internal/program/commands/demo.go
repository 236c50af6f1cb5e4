package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// The bounds of a demo.
const (
	maxDemoRate     = 10_000
	maxDemoChannels = 1_000
	maxDemoPlayers  = 1_000
	maxDemoMany     = 1_000_000
	demoPause       = time.Second // after a failure
	demoProgress    = 10 * time.Second
)

// demo fills a service with the data of a game community.
type demo struct {
	terminal cli.Terminal
	service  *client.Client
	records  *records.Client

	prefix   string
	rate     float64
	duration time.Duration
	channels int
	players  int
	many     int
	hostile  bool
	remove   bool

	messages, tickets, matches, changes atomic.Int64
}

func newDemo(t cli.Terminal) *cobra.Command {
	d := &demo{terminal: t}
	cmd := &cobra.Command{
		Use:        "demo",
		SuggestFor: []string{"fill", "seed", "generate"},
		Short:      "Fill a service with the data of a game community, to look at",
		Long: `Fill a service with the data of a game community, until it is interrupted or --duration has passed: lobbies
in which people chat and that bots read, a queue whose players wait for an opponent and one for teams of two, sessions,
cached values, views, locks, states, statistics and settings. If the service reads a cache through nodes of shards, they
hold the demo's values: it prints the commands that start nodes if there are none.

It needs the admin listener, since it defines queues, and where credentials are required a key with all actions. The
names of all channels, queues, users and settings begin with --prefix. What it leaves behind expires by itself: channels
after their TTL, sessions after 30 days; --remove removes its channels, queues, sessions, settings and cached values at
once. Other channels and queues that begin with --prefix stay, and a demo doesn't start where one of its queues would
replace another one.

--hostile adds what a page must show without harm: scripts, quotes, text from right to left and messages of up to 1 MiB.
--many adds as many channels with a message each.`,
		Example: `  tidemark demo
  tidemark demo --rate 200 --players 100 --duration 10m
  tidemark demo --remove`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	f := cmd.Flags()
	f.StringVar(&d.prefix, "prefix", "demo", "`TEXT` what the names begin with")
	f.Float64Var(&d.rate, "rate", 20, "messages a second; a fifth as many changes of records")
	f.DurationVar(&d.duration, "duration", 0, "how long it runs; 0: until it is interrupted")
	f.IntVar(&d.channels, "channels", 12, "number of lobbies")
	f.IntVar(&d.players, "players", 20, "number of players; 0: no queues")
	f.IntVar(&d.many, "many", 0, "number of further channels, with a message each")
	f.BoolVar(&d.hostile, "hostile", false, "also add contents that a page must show without harm")
	f.BoolVar(&d.remove, "remove", false, "remove what an earlier demo has left, and end")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		d.service, d.records = c, records.New(c)
		if err := d.check(); err != nil {
			return err
		}
		if d.remove {
			return d.clean(ctx)
		}
		return d.run(ctx)
	})
	return cmd
}

// demoPrefix matches the valid prefixes: short beginnings of channel names.
var demoPrefix = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,31}$`)

func (d *demo) check() error {
	switch {
	case !demoPrefix.MatchString(d.prefix):
		return cli.Usagef("--prefix: %q must match %s", d.prefix, demoPrefix)
	case !(d.rate > 0 && d.rate <= maxDemoRate):
		return cli.Usagef("--rate: %v must be more than 0 and at most %d", d.rate, maxDemoRate)
	case d.duration < 0:
		return cli.Usagef("--duration: must not be negative")
	case d.channels < 1 || d.channels > maxDemoChannels:
		return cli.Usagef("--channels: %d must be from 1 to %d", d.channels, maxDemoChannels)
	case d.players < 0 || d.players > maxDemoPlayers:
		return cli.Usagef("--players: %d must be from 0 to %d", d.players, maxDemoPlayers)
	case d.many < 0 || d.many > maxDemoMany:
		return cli.Usagef("--many: %d must be from 0 to %d", d.many, maxDemoMany)
	}
	return nil
}

// run fills the service until ctx ends or the duration has passed.
func (d *demo) run(ctx context.Context) error {
	if _, err := d.service.Info(ctx); err != nil {
		return err // that it cannot be reached, or the key
	}
	if d.players > 0 {
		switch _, others, err := d.queues(ctx); {
		case err != nil:
			return err
		case len(others) > 0:
			return fmt.Errorf("the queue %s exists, and isn't a demo's: give another --prefix, or --players 0", others[0])
		}
	}
	d.tellShards(ctx)
	if d.duration > 0 {
		limited, cancel := context.WithTimeout(ctx, d.duration)
		defer cancel()
		ctx = limited
	}
	d.terminal.Report("filling %d lobbies, with %v messages a second, and %d players; interrupt it to stop, and then "+
		"tidemark demo --remove removes it", d.channels, d.rate, d.players)
	var parts sync.WaitGroup
	for name, do := range map[string]func(context.Context) error{
		"chat": d.chat, "readers": d.readers, "records": d.changeRecords, "queues": d.play, "many channels": d.fillMany,
		"hostile contents": d.fillHostile,
	} {
		parts.Go(func() { d.keepOn(ctx, name, do) })
	}
	for parted := time.NewTicker(demoProgress); ; {
		select {
		case <-parted.C:
			d.report()
			continue
		case <-ctx.Done():
		}
		parted.Stop()
		break
	}
	parts.Wait()
	d.report()
	return nil
}

// tellShards reports what starts the nodes of the caches that the service reads through nodes, and that have none: nodes
// are processes of their own, and layouts are written to Redis, which a demo doesn't know.
func (d *demo) tellShards(ctx context.Context) {
	var found wire.ShardedCaches
	_, err := d.service.Do(ctx, client.Call{What: "list the shards", Method: http.MethodGet,
		Path: []string{"shards"}}, &found)
	if err != nil {
		return // of a service without it, or whose Redis fails, which the parts report
	}
	for _, cache := range found.Caches {
		if len(cache.DCs) == 0 {
			d.terminal.Report("no data centre holds shards of %[1]s yet: start tidemark shards layout --cache %[1]s --dc a "+
				"--shards 2, and twice tidemark shard serve --cache %[1]s --dc a --listen 127.0.0.1:0 --admin-listen off",
				cache.Cache)
		}
	}
}

func (d *demo) report() {
	d.terminal.Report("%d messages, %d tickets, %d matches, %d changes of records", d.messages.Load(), d.tickets.Load(),
		d.matches.Load(), d.changes.Load())
}

// keepOn repeats a part that fails, such as while the service is restarted, until ctx ends. A part that the service
// doesn't have is given up.
func (d *demo) keepOn(ctx context.Context, name string, do func(context.Context) error) {
	last := ""
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		var clientErr *client.Error
		if errors.As(err, &clientErr) && clientErr.Status < 500 && clientErr.Status != 429 && clientErr.Status != 409 {
			d.terminal.Report("%s: %v; going on without", name, err)
			return
		}
		if text := err.Error(); text != last {
			d.terminal.Report("%s: %v; trying again", name, err)
			last = text
		}
		wait(ctx, demoPause)
	}
}

// wait waits, and reports whether ctx is alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// each calls do at a rate, with a number that rises, until it fails or ctx ends.
func each(ctx context.Context, rate float64, do func(n int) error) error {
	started := time.Now()
	for n := 0; ; n++ {
		if due := started.Add(time.Duration(float64(n) / rate * float64(time.Second))); !wait(ctx, time.Until(due)) {
			return nil
		}
		if err := do(n); err != nil {
			return err
		}
	}
}

func (d *demo) name(parts ...string) string { return d.prefix + "." + strings.Join(parts, ".") }

func (d *demo) lobby(n int) string { return d.name("lobby", fmt.Sprint(n%d.channels)) }

// longName is the longest name of a channel that a demo makes.
func (d *demo) longName(limit int) string {
	long := d.prefix + "." + strings.Repeat("long-name.", 12)
	return strings.TrimSuffix(long[:min(len(long), limit)], ".")
}

// tag is the tag of the cached values of a demo.
func (d *demo) tag() string { return "tidemark-demo-" + d.prefix }

// clean removes what a demo has left, but for what expires soon by itself.
func (d *demo) clean(ctx context.Context) error {
	about, err := d.service.Info(ctx)
	if err != nil {
		return err
	}
	own := regexp.MustCompile(`^` + d.prefix + `\.(lobby\.\d{1,3}|many\.\d{1,6}|hostile|large)$`)
	removed := 0
	for channel, err := range d.service.Channels(ctx, d.prefix+".") {
		if err != nil {
			return err
		}
		if !own.MatchString(channel.Channel) && channel.Channel != d.longName(about.Limits.MaxNameBytes) {
			continue
		}
		if err := d.service.DeleteChannel(ctx, channel.Channel); err != nil {
			return err
		}
		removed++
	}
	d.terminal.Report("removed %d channels", removed)
	if err := d.cleanQueues(ctx); err != nil {
		return err
	}
	for user := range demoUsers + len(hostileTexts) {
		if err := d.records.RevokeSessions(ctx, d.user(user)); err != nil && !isMissing(err) {
			return err
		}
	}
	for setting := range demoSettings(d.prefix) {
		if err := d.records.DeleteSetting(ctx, setting); err != nil && !isMissing(err) {
			return err
		}
	}
	if _, err := d.records.InvalidateTags(ctx, d.tag()); err != nil && !isMissing(err) {
		return err
	}
	d.terminal.Report("removed the queues, sessions, settings and cached values; the rest expires by itself")
	return nil
}

// cleanQueues deletes the queues of a demo.
func (d *demo) cleanQueues(ctx context.Context) error {
	own, others, err := d.queues(ctx)
	if err != nil {
		return err
	}
	for _, queue := range others {
		d.terminal.Report("the queue %s isn't a demo's: it stays", queue)
	}
	for _, queue := range own {
		switch err := d.service.DeleteQueue(ctx, queue); {
		case errors.Is(err, client.ErrQueueInUse):
			d.terminal.Report("the queue %s still has tickets, which wait for 2 minutes at most: run this command again after that", queue)
		case err != nil:
			return err
		}
	}
	return nil
}

// queues returns the queues that have the names of a demo's: those that a demo has put, and others.
func (d *demo) queues(ctx context.Context) (own, others []string, err error) {
	all, err := d.service.Queues(ctx)
	if isMissing(err) {
		return nil, nil, nil
	}
	for _, queue := range all {
		name, isPrefixed := strings.CutPrefix(queue.Name, d.prefix+".")
		connection, isNamed := demoConnections[name]
		if !isPrefixed || !isNamed {
			continue
		}
		var is struct{ Assigner struct{ Connection string } }
		if err := json.Unmarshal(queue.Definition, &is); err != nil {
			return nil, nil, fmt.Errorf("read the definition of the queue %s: %w", queue.Name, err)
		}
		if is.Assigner.Connection == connection {
			own = append(own, queue.Name)
		} else {
			others = append(others, queue.Name)
		}
	}
	return own, others, err
}

// isMissing reports whether there is nothing to remove.
func isMissing(err error) bool {
	var clientErr *client.Error
	return errors.As(err, &clientErr) && (clientErr.Status == 404 || clientErr.Status == 405)
}
