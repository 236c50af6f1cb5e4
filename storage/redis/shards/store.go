package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// The scripts of shards.
var (
	claimScript  = lua.Must("shards/claim")
	pingScript   = lua.Must("shards/ping")
	leaveScript  = lua.Must("shards/leave")
	setScript    = lua.Must("shards/set")
	removeScript = lua.Must("shards/remove")
	statusScript = lua.Must("shards/status")
	hostsScript  = lua.Must("shards/hosts")
)

// The statuses of the scripts of shards, besides those that all scripts have.
const (
	statusHeld     redis.Status = "HELD"
	statusSameHost redis.Status = "SAME_HOST"
	statusUnsure   redis.Status = "UNSURE"
	statusSame     redis.Status = "SAME"
)

// whyHeld is the detailed reason for a temporary refusal of a claim.
var whyHeld = map[redis.Status]error{statusSameHost: shard.ErrSameHost, statusUnsure: shard.ErrUnsure}

var refusals = redis.Refusals{
	"NO_LAYOUT": shard.ErrNoLayout, "LOST": lease.ErrLost, "MOVED": shard.ErrMoved,
	"CHANGED": shard.ErrChanged, "IN_USE": shard.ErrInUse, "FULL": shard.ErrTooManyDCs,
}

// Store keeps layouts and claims in Redis. Its methods may be called by many goroutines.
type Store struct{ conn *redis.Conn }

var (
	_ shard.Claims  = (*Store)(nil)
	_ shard.Layouts = (*Store)(nil)
)

// New returns the shards in the Redis of a connection.
func New(conn *redis.Conn) *Store { return &Store{conn: conn} }

func (s *Store) keys(cache string) keys { return keys{s.conn.Prefix(), cache} }

// maxTTL is the longest time for which a shard can be claimed.
const maxTTL = 24 * time.Hour

// printable is the pattern of tokens and addresses: they are parts of a text that is divided by spaces.
var printable = regexp.MustCompile(`^[!-~]{1,320}$`)

// check returns an error unless a claim can be written. Names are checked before they become keys.
func check(m shard.Member, token string, ttl time.Duration) error {
	for _, name := range []struct{ what, name string }{{"cache", m.Cache}, {"data centre", m.DC}, {"host", m.Host}} {
		if err := shard.CheckName(name.what, name.name); err != nil {
			return err
		}
	}
	for _, field := range []struct{ what, text string }{{"address", m.Address}, {"token", token}} {
		if !printable.MatchString(field.text) {
			return fmt.Errorf("%w: %s %q must match %s", shard.ErrName, field.what, field.text, printable)
		}
	}
	if ttl < time.Millisecond || ttl > maxTTL {
		return fmt.Errorf("a claim for %v isn't from 1ms to %v", ttl, maxTTL)
	}
	return nil
}

// Claim implements shard.Claims. A token gets one shard: after the end of that claim the error is lease.ErrLost.
func (s *Store) Claim(ctx context.Context, m shard.Member, token string, ttl time.Duration, last shard.Claimed) (
	shard.Claimed, error) {
	if err := check(m, token, ttl); err != nil {
		return shard.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	k := s.keys(m.Cache)
	args := []string{m.DC, m.Host, token, redis.Milliseconds(ttl), m.Address, strconv.FormatUint(last.Generation, 10),
		strconv.Itoa(last.Shard), textOf(last.Starts)}
	reply, err := s.conn.Run(ctx, claimScript, []string{k.dcs(), k.layout(m.DC), k.shards(m.DC)}, args)
	if err != nil {
		return shard.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	return claimed(reply)
}

func claimed(reply redis.Reply) (c shard.Claimed, err error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		c.Generation, c.Shard, c.Incarnation = uint64(d.Int64()), int(d.Int64()), uint64(d.Int64())
		c.Starts = starts(d)
		if c.Shard >= len(c.Starts) {
			d.Fail(fmt.Errorf("there is no shard %d of %d", c.Shard, len(c.Starts)))
			return shard.Claimed{}, d.End()
		}
		c.Interval = shard.Layout{Starts: c.Starts}.Interval(c.Shard)
		return c, d.End()
	case statusHeld, statusSameHost, statusUnsure:
		err = errors.Join(whyHeld[reply.Status], &lease.HeldError{For: time.Duration(d.Int64()) * time.Millisecond})
		return c, cmp.Or(d.End(), err)
	default:
		return c, refusals.Error(reply)
	}
}

// starts decodes the first sharding keys of the shards of a layout.
func starts(d *redis.Decoder) (all []uint64) {
	for _, text := range strings.Fields(d.Text()) {
		start, err := parseStart(text)
		d.Fail(err)
		all = append(all, start)
	}
	return all
}

func parseStart(text string) (uint64, error) { return strconv.ParseUint(text, 16, 64) }

// Ping implements shard.Claims.
func (s *Store) Ping(ctx context.Context, m shard.Member, token string, ttl time.Duration, loaded bool) error {
	if err := check(m, token, ttl); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	k, args := s.keys(m.Cache), []string{m.Host, token, redis.Milliseconds(ttl), "0"}
	if loaded {
		args[3] = "1"
	}
	reply, err := s.conn.Run(ctx, pingScript, []string{k.layout(m.DC), k.shards(m.DC)}, args)
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return refusals.Check(reply, redis.OK)
}

// Leave implements shard.Claims.
func (s *Store) Leave(ctx context.Context, m shard.Member, token string) error {
	if err := check(m, token, maxTTL); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	k := s.keys(m.Cache)
	reply, err := s.conn.Run(ctx, leaveScript, []string{k.layout(m.DC), k.shards(m.DC)},
		[]string{m.Host, token, k.topic(m.DC)})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return refusals.Check(reply, redis.OK)
}

// Watch implements shard.Claims.
func (s *Store) Watch(cache, dc string, freed func()) (stop func()) {
	return s.conn.Listen(s.keys(cache).topic(dc), pubsub.Listener{
		Confirmed: freed, Message: func(string) { freed() }, Repeats: true,
	})
}
