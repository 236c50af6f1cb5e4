package channels

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	purgeScript  = lua.Must("channels/purge")
	deleteScript = lua.Must("channels/delete")
	seekScript   = lua.Must("channels/seek")
)

// Purge runs purge.lua until no message is left up to the clock that its first run returns. Redis serves others between
// the runs.
func (s *Store) Purge(ctx context.Context, r channel.PurgeRequest) (channel.Purged, error) {
	ch, through, life := s.keys(r.Channel), fromText(r.Through), ""
	if !r.Epoch.IsZero() {
		life = r.Epoch.String()
	}
	var p channel.Purged
	for {
		rep, err := s.conn.Run(ctx, purgeScript, []string{ch.Clock(), ch.Epoch()}, []string{
			through, life, ch.MessagePrefix(), strconv.Itoa(r.Policy.MaxMessages), ttlMillis(r.Policy), ch.Purged(),
		})
		switch {
		case err != nil:
			return p, err
		case rep.Status == statusAhead:
			return p, channel.ErrThroughAhead
		case rep.Status != redis.OK:
			return p, refusals.Error(rep)
		}
		d := rep.Decoder()
		p.Position = channel.Position{Epoch: d.ULID(), Clock: clockOf(d)}
		p.Removed += uint64(d.Int64())
		remaining := d.Int64()
		if err := d.End(); err != nil || remaining == 0 {
			return p, err
		}
		through, life = p.Clock.String(), p.Epoch.String()
	}
}

// Delete runs delete.lua, which removes a large channel in several runs.
func (s *Store) Delete(ctx context.Context, r channel.DeleteRequest) error {
	ch, life := s.keys(r.Channel), r.Epoch.String()
	if r.Damaged {
		life = ""
	}
	rep, err := s.conn.Run(ctx, deleteScript, []string{ch.Clock(), ch.Epoch(), ch.Subscribers(), ch.Label()}, []string{
		ch.MessagePrefix(), ch.MarkPrefix(), strconv.Itoa(r.Policy.MaxMessages), ttlMillis(r.Policy), ch.Purged(),
		ch.Deleted(), ch.Topic(), life, ch.Producers(),
	})
	if err != nil {
		return err
	}
	return refusals.Check(rep, redis.OK, statusNoChannel, statusOtherLife)
}

// Seek runs seek.lua.
func (s *Store) Seek(ctx context.Context, r channel.SeekRequest) (channel.Sought, error) {
	ch, to := s.keys(r.Channel), ""
	if r.Time.IsZero() {
		to = fromText(r.To)
	} else {
		to = "@" + strconv.FormatInt(max(0, r.Time.UnixMilli()), 10)
	}
	rep, err := s.conn.Run(ctx, seekScript, ch.ForSubscriber(r.Subscriber), []string{
		to, ch.MessagePrefix(), strconv.Itoa(r.Policy.MaxMessages), ttlMillis(r.Policy), r.Subscriber, ch.Topic(),
	})
	switch {
	case err != nil:
		return channel.Sought{}, err
	case rep.Status == statusAhead:
		return channel.Sought{}, channel.ErrToAhead
	case rep.Status != redis.OK:
		return channel.Sought{}, refusals.Error(rep)
	}
	d := rep.Decoder()
	sought := channel.Sought{Position: channel.Position{Epoch: d.ULID(), Clock: clockOf(d)}}
	sought.Lag = clock.Distance(sought.Clock, clockOf(d))
	return sought, d.End()
}

// purgedRange is the clocks of the first and of the last message that was purged. The zero value is none.
type purgedRange struct {
	first, last clock.Clock
	is          bool
}

// between returns how many of the clocks after a mark, up to another one, were purged, as purged.count of the scripts.
func (p purgedRange) between(mark, through clock.Clock) uint64 {
	if !p.is || clock.Behind(p.last, mark) {
		return 0
	}
	first, last := uint64(1), min(clock.Distance(mark, p.last), clock.Distance(mark, through))
	if !clock.Behind(p.first, mark) {
		first = clock.Distance(mark, p.first)
	}
	return max(first, last+1) - first
}

// purged reads which messages were purged.
func (f singleReads) purged(ctx context.Context) (p purgedRange, err error) {
	text, err := f.get(ctx, f.keys.Purged())
	if err != nil || text == nil {
		return p, err
	}
	first, last, _ := strings.Cut(string(text), " ")
	if p.first, err = clock.Parse(first); err == nil {
		p.last, err = clock.Parse(last)
	}
	if err != nil {
		return purgedRange{}, fmt.Errorf("%w: purged clocks: %w", redis.ErrReply, err)
	}
	p.is = true
	return p, nil
}
