package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// What one page of the list of channels costs Redis, at most.
const (
	listScans = 16  // calls of SCAN
	listKeys  = 500 // keys that one of them examines, about
	listNames = 200 // from so many channels on, a page ends
)

// scanned is a primary whose keys are listed.
type scanned struct {
	node  rueidis.Client
	first int    // the lowest of its slots
	run   string // identifies the process: a cursor of another one has no meaning
}

// listCursor is where a page begins.
type listCursor struct {
	first int
	run   string
	at    uint64
}

func parseCursor(text string) (c listCursor, err error) {
	if text == "" {
		return c, nil
	}
	first, rest, _ := strings.Cut(text, "-")
	run, at, _ := strings.Cut(rest, "-")
	c.run = run
	if c.first, err = strconv.Atoi(first); err == nil {
		c.at, err = strconv.ParseUint(at, 10, 64)
	}
	if err != nil || c.first < 0 {
		return c, channel.ErrCursor
	}
	return c, nil
}

func (c listCursor) String() string { return fmt.Sprintf("%d-%s-%d", c.first, c.run, c.at) }

// Channels scans the keys of the primaries, in the order of their slots. Redis serves others between the scans. Where a
// primary was restarted, or another node promoted, since the page before, its keys are scanned from the beginning.
func (s *Store) Channels(ctx context.Context, prefix, cursor string) (page channel.SummaryPage, err error) {
	from, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	nodes, err := s.primaries(ctx)
	if err != nil {
		return page, err
	}
	names := map[string]bool{}
	scans := 0
	for _, n := range nodes {
		if n.first < from.first {
			continue
		}
		at := uint64(0)
		if n.first == from.first && n.run == from.run {
			at = from.at
		}
		for started := false; !started || at != 0; started = true {
			if scans == listScans || len(names) >= listNames {
				page.Next = listCursor{first: n.first, run: n.run, at: at}.String()
				page.Channels, err = s.summaries(ctx, names)
				return page, err
			}
			scans++
			if at, err = s.scan(ctx, n.node, at, prefix, names); err != nil {
				return page, err
			}
		}
	}
	page.Channels, err = s.summaries(ctx, names)
	return page, err
}

// scan adds the names of the channels whose clocks are among the next keys of a node.
func (s *Store) scan(ctx context.Context, node rueidis.Client, at uint64, prefix string, names map[string]bool) (uint64,
	error) {
	before := s.conn.Prefix() + beforeChannel
	pattern := redis.Literal(before+prefix) + "*" + afterChannel + clockSuffix
	var found rueidis.ScanEntry
	err := s.conn.Retry(ctx, "scan", func(ctx context.Context) (err error) {
		found, err = node.Do(ctx, node.B().Scan().Cursor(at).Match(pattern).Count(listKeys).Build()).AsScanEntry()
		return err
	})
	for _, key := range found.Elements {
		// subscribers and message IDs may end like the key of a clock
		name, rest, _ := strings.Cut(strings.TrimPrefix(key, before), afterChannel)
		if rest == clockSuffix {
			names[name] = true
		}
	}
	return found.Cursor, err
}

// primaries returns the primaries by the lowest of their slots.
func (s *Store) primaries(ctx context.Context) (nodes []scanned, err error) {
	err = s.conn.Retry(ctx, "look at the nodes", func(ctx context.Context) error {
		t, err := topology.Read(ctx, s.conn.Client())
		if err != nil {
			return err
		}
		nodes = make([]scanned, len(t.Primaries))
		for i, p := range t.Primaries {
			fields, err := topology.ReadInfo(ctx, p.Client, "server")
			if err != nil {
				return err
			}
			nodes[i] = scanned{node: p.Client, first: p.FirstSlot, run: fields["run_id"]}
		}
		return nil
	})
	return nodes, err
}

// summaryReads is how many channels are read together.
const summaryReads = 100

// summaries reads the channels that still exist, and returns them by name.
func (s *Store) summaries(ctx context.Context, names map[string]bool) ([]channel.Summary, error) {
	all := make([]channel.Summary, 0, len(names))
	for name := range names {
		all = append(all, channel.Summary{Name: name})
	}
	slices.SortFunc(all, func(a, b channel.Summary) int { return cmp.Compare(a.Name, b.Name) })
	for some := range slices.Chunk(all, summaryReads) {
		errs := s.conn.RetryEach(ctx, "read channels", len(some), func(ctx context.Context, pending []int) []error {
			return s.trySummaries(ctx, some, pending)
		})
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(all, func(c channel.Summary) bool { return c.TTL < 0 }), nil
}

// deleted is the TTL of a channel that doesn't exist any more.
const deleted = -1

// trySummaries reads the clocks, the TTLs and the numbers of subscribers of the channels that are left.
func (s *Store) trySummaries(ctx context.Context, all []channel.Summary, pending []int) []error {
	const each = 3
	client, errs := s.conn.Client(), make([]error, len(pending))
	commands := make(rueidis.Commands, 0, each*len(pending))
	for _, i := range pending {
		ch := s.keys(all[i].Name)
		commands = append(commands, client.B().Get().Key(ch.Clock()).Build(), client.B().Pttl().Key(ch.Clock()).Build(),
			client.B().Scard().Key(ch.Subscribers()).Build())
	}
	read := client.DoMulti(ctx, commands...)
	for n, i := range pending {
		errs[n] = decodeSummary(&all[i], read[each*n:each*(n+1)])
		// the list of the others is needed to find a damaged one
		if errors.Is(errs[n], redis.ErrReply) || refusal.Is(errs[n], refusal.WrongType) {
			s.conn.Logger().ErrorContext(ctx, "a channel is damaged, leaving it out of the list", "channel", all[i].Name,
				"error", errs[n])
			all[i].TTL, errs[n] = deleted, nil
		}
	}
	return errs
}

func decodeSummary(c *channel.Summary, read []rueidis.RedisResult) error {
	text, err := read[0].ToString()
	if rueidis.IsRedisNil(err) {
		c.TTL = deleted
		return nil
	}
	if err != nil {
		return err
	}
	if c.Clock, err = clock.Parse(text); err != nil {
		return fmt.Errorf("%w: clock of %s: %w", redis.ErrReply, c.Name, err)
	}
	ttl, err := read[1].AsInt64()
	if err != nil {
		return err
	}
	c.TTL = time.Duration(max(0, ttl)) * time.Millisecond // the predecessor's channels have none
	subscribers, err := read[2].AsInt64()
	c.Subscribers = uint64(subscribers)
	return err
}
