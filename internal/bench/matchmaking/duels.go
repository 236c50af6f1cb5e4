// Package matchmaking measures how fast tickets are matched, and what they cost.
package matchmaking

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// What matchmaking is to reach, from the project's goals.
var duelGoals = []duels{
	{players: 64, p50: 10 * time.Millisecond, perSecond: 3000, calls: 6},
	{players: 1024, p99: 250 * time.Millisecond, perSecond: 9000, calls: 6},
}

const (
	strangers      = 50_000                // tickets that can't be matched
	strangersLimit = 20 * time.Millisecond // for a pair that can, beside them
)

// duels is the figures of players that look for an opponent again and again.
type duels struct {
	players   int
	p50, p99  time.Duration // from the call that creates a ticket to its assignment
	perSecond float64       // tickets
	calls     float64       // of Redis per ticket
	bare      float64       // tickets per second of handlers that only answer
}

// crowd is the figures of a new pair in a queue in which many tickets cannot be matched.
type crowd struct {
	pair  time.Duration // from the second ticket's creation to both assignments, the median
	bytes float64       // of the server's resident memory per waiting ticket
	redis float64       // of Redis's memory per waiting ticket
}

// Measure measures players that look for opponents again and again, and a pair beside tickets that match none.
func Measure(ctx context.Context, s target.Settings, r *report.Report) error {
	r.Printf("\n## Matchmaking\n\nPlayers look for one opponent on a first-come queue, over gRPC: each creates a ticket, waits on WatchAssignments, and\n" +
		"begins again at once. Times are from the call that creates the ticket to its assignment; calls are all commands that\n" +
		"Redis was sent until then. One more per ticket ends the subscription afterwards. The bare handlers are the same library\n" +
		"on the same HTTP server: they store nothing, match nothing, and answer at once.\n\n" +
		"| players | tickets/s | goal | bare handlers | p50 | goal | p99 | goal | Redis calls per ticket | goal | |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, goal := range duelGoals {
		var rounds []duels
		for range s.Rounds {
			d, err := runDuels(ctx, s, goal.players)
			if err != nil {
				return fmt.Errorf("%d players: %w", goal.players, err)
			}
			rounds = append(rounds, d)
		}
		slices.SortFunc(rounds, func(a, b duels) int { return cmp.Compare(a.perSecond, b.perSecond) })
		d := rounds[len(rounds)/2]
		good := d.perSecond >= goal.perSecond && d.calls <= goal.calls &&
			(goal.p50 == 0 || d.p50 <= goal.p50) && (goal.p99 == 0 || d.p99 <= goal.p99)
		r.Printf("| %d | %.0f | ≥ %.0f | %.0f/s | %s | %s | %s | %s | %.2f | ≤ %.0f | %s |\n", d.players, d.perSecond, goal.perSecond, d.bare,
			report.Millis(d.p50), report.AtMost(goal.p50), report.Millis(d.p99), report.AtMost(goal.p99), d.calls, goal.calls, report.Verdict(good))
	}
	c, err := runCrowd(ctx, s)
	if err != nil {
		return fmt.Errorf("a pair among %d strangers: %w", strangers, err)
	}
	r.Printf("\nBeside %d tickets that match none, in a criteria queue, a new pair has its assignments after %s (goal ≤ %s, %s).\n"+
		"Each of the waiting tickets takes %.1f KB of the server's memory and %.1f KB of Redis's.\n", strangers, report.Millis(c.pair),
		report.Millis(strangersLimit), report.Verdict(c.pair <= strangersLimit), c.bytes/1000, c.redis/1000)
	return nil
}

const (
	createTicket     = "/openmatch.FrontendService/CreateTicket"
	watchAssignments = "/openmatch.FrontendService/WatchAssignments"
)

// createRequest is a CreateTicketRequest with an empty ticket.
var createRequest = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)

// watchRequest is a WatchAssignmentsRequest.
func watchRequest(id string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), id)
}

// firstString is the text in field 1, which is the ID of a Ticket.
func firstString(message []byte) (string, error) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 || number != 1 || kind != protowire.BytesType {
		return "", fmt.Errorf("a ticket without an ID: %x", message)
	}
	id, m := protowire.ConsumeString(message[n:])
	return id, protowire.ParseError(m)
}

// arena is the players of one connection, each with a ticket at any time.
type arena struct {
	*drive.GRPC
	left  int // tickets to create
	alive int // tickets that wait
	took  []time.Duration
}

// play creates a ticket, watches it, and begins again when its assignment has come.
func (a *arena) play() error {
	if a.left == 0 {
		return nil
	}
	a.left--
	a.alive++
	started := time.Now()
	_, err := a.Call(createTicket, createRequest, func(ticket []byte) error {
		id, err := firstString(ticket)
		if err != nil {
			return err
		}
		var watch uint32
		watch, err = a.Call(watchAssignments, watchRequest(id), func([]byte) error {
			a.took = append(a.took, time.Since(started))
			a.alive--
			if err := a.Cancel(watch); err != nil {
				return err
			}
			return a.play()
		})
		return err
	})
	return err
}

// arenaPlayers is how many players share a connection: fewer than the calls that net/http takes on one.
const arenaPlayers = 64

// runArenas lets players play until so many tickets were assigned.
func runArenas(ctx context.Context, address string, players, tickets int) ([]time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	arenas := make([]*arena, max(1, players/arenaPlayers))
	for i := range arenas {
		c, err := drive.DialGRPC(ctx, address)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		arenas[i] = &arena{GRPC: c, left: tickets / len(arenas)}
	}
	for _, a := range arenas {
		group.Go(func() error {
			for range players / len(arenas) {
				if err := a.play(); err != nil {
					return err
				}
			}
			return a.Run(func() bool { return a.alive == 0 })
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, a := range arenas {
		took = append(took, a.took...)
	}
	slices.Sort(took)
	return took, nil
}

func runDuels(ctx context.Context, s target.Settings, players int) (duels, error) {
	d := duels{players: players}
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return d, err
	}
	defer u.Stop()
	if _, err := runArenas(ctx, u.Server, players, max(players, s.Requests/10)&^127); err != nil { // to warm up
		return d, err
	}
	before, err := topLevelCalls(ctx, u)
	if err != nil {
		return d, err
	}
	started := time.Now()
	took, err := runArenas(ctx, u.Server, players, max(players, s.Requests)&^127)
	if err != nil {
		return d, err
	}
	elapsed := time.Since(started)
	after, err := topLevelCalls(ctx, u)
	if err != nil {
		return d, err
	}
	d.perSecond = float64(len(took)) / elapsed.Seconds()
	d.p50, d.p99 = took[len(took)/2], took[len(took)*99/100]
	d.calls = (after - before) / float64(len(took))

	started = time.Now()
	answered, err := runArenas(ctx, u.Floor, players, max(players, s.Requests)&^127)
	d.bare = float64(len(answered)) / time.Since(started).Seconds()
	return d, err
}

// topLevelCommands are what the service sends until an assignment is delivered. What scripts run is left out: Redis
// counts it in the same place.
var topLevelCommands = []string{"evalsha", "evalsha_ro", "ssubscribe", "xread", "xdel", "xtrim"}

// topLevelCalls returns how many of them Redis was sent.
func topLevelCalls(ctx context.Context, u *target.Target) (float64, error) {
	return u.Calls(ctx, topLevelCommands)
}

// runCrowd fills a queue with tickets that match none, and lets pairs meet among them.
func runCrowd(ctx context.Context, s target.Settings) (crowd, error) {
	var c crowd
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return c, err
	}
	defer u.Stop()
	define := `{"match": {"function": "criteria", "weights": {"skill": 1}}}`
	if _, err := drive.Once(ctx, u.Server, drive.Request(http.MethodPut, "/v1/queues/crowd", define)); err != nil {
		return c, err
	}
	bytes, used, err := u.Memory(ctx)
	if err != nil {
		return c, err
	}
	if _, err := drive.Load(ctx, u.Server, strangers, func(n int) []byte { return soughtTicket("stranger", n, float64(n)) }); err != nil {
		return c, err
	}
	bytesAfter, usedAfter, err := u.Memory(ctx)
	if err != nil {
		return c, err
	}
	c.bytes, c.redis = (bytesAfter-bytes)/strangers, (usedAfter-used)/strangers
	var took []time.Duration
	for n := range 50 {
		d, err := meet(ctx, u, n)
		if err != nil {
			return c, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	c.pair = took[len(took)/2]
	return c, nil
}

// soughtTicket looks for an opponent of a skill that no ticket has, unless it is one of a pair.
func soughtTicket(name string, n int, skill float64) []byte {
	sought := math.Floor(skill) + 0.5 // between strangers
	if name != "stranger" {
		sought = skill
	}
	body := fmt.Sprintf(`{"queue":"crowd","id":"%s-%d","criteria":[{"name":"skill","minValue":%g,"maxValue":%g}],`+
		`"statistics":[{"name":"skill","value":%g}]}`, name, n, sought, sought, skill)
	return drive.Request(http.MethodPost, "/v1/tickets", body)
}

// meet creates two tickets that accept each other, and returns how long after the second both had their assignments.
func meet(ctx context.Context, u *target.Target, n int) (time.Duration, error) {
	skill := -1 - float64(n)
	var polls []*drive.Connection
	for _, name := range []string{"a", "b"} {
		c, err := drive.Dial(ctx, u.Server)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		polls = append(polls, c)
		if name == "a" {
			if _, err := drive.Once(ctx, u.Server, soughtTicket(name, n, skill)); err != nil {
				return 0, err
			}
		}
	}
	started := time.Now()
	if _, err := drive.Once(ctx, u.Server, soughtTicket("b", n, skill)); err != nil {
		return 0, err
	}
	for i, name := range []string{"a", "b"} {
		path := fmt.Sprintf("/v1/channels/ticket.%s-%d/subscribers/player/messages?wait=20s", name, n)
		a, err := polls[i].Do(drive.Request(http.MethodGet, path, ""))
		if err != nil {
			return 0, err
		}
		if !strings.Contains(string(a.Body), "assignment-") {
			return 0, fmt.Errorf("a ticket that has an opponent got %s", a.Body)
		}
	}
	return time.Since(started), nil
}
