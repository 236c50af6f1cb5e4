package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
)

// Bounds of announcements in one message.
const (
	maxChanges = 1000
	maxBytes   = tier.MaxMessageBytes / 4 // of IDs; JSON can make them twice as long
	perID      = 8                        // bytes of an ID in a message, besides those it has
	perChange  = 64                       // bytes of a change, without its IDs
)

// writeSlack is the part of tier.MaxWrite reserved for commands already sent when a write is cancelled.
const writeSlack = 3 * time.Second

// Publisher publishes messages. *channel.Service implements it.
type Publisher interface {
	Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error)
}

// Announcer announces changes of values on the channels of their kinds. Its methods may be called by many goroutines.
type Announcer struct {
	publisher Publisher
	kinds     map[*records.Kind]bool
	process   string
	limit     time.Duration
	writes    atomic.Uint64
	group     *group.Group[string, tier.Change, struct{}]
}

var _ records.Announcer = (*Announcer)(nil)

// NewAnnouncer returns an announcer for the kinds that are read through shards; changes of other kinds cost nothing.
// limit is the time limit of an announcement. Close it.
func NewAnnouncer(p Publisher, kinds []*records.Kind, limit time.Duration) *Announcer {
	a := &Announcer{publisher: p, kinds: map[*records.Kind]bool{}, process: id.New(), limit: limit}
	for _, kind := range kinds {
		a.kinds[kind] = true
	}
	a.group = group.New(group.Options[string, tier.Change, struct{}]{
		Run: a.publish, Calls: 1, Size: size, Items: maxChanges, Bytes: maxBytes, Limit: limit,
	})
	return a
}

// Close cancels announcements in progress.
func (a *Announcer) Close() { a.group.Close() }

func size(c tier.Change) int {
	n := perChange
	for _, id := range c.IDs {
		n += len(id) + perID
	}
	return n
}

// publish publishes changes of many writes in one message.
func (a *Announcer) publish(ctx context.Context, channelName string, changes []tier.Change) ([]struct{}, time.Duration,
	error) {
	content, err := tier.EncodeChanges(changes)
	if err == nil {
		_, err = a.publisher.Publish(ctx, channel.PublishRequest{
			Channel: channelName, Drafts: []channel.Draft{{Content: content}},
		})
	}
	return make([]struct{}, len(changes)), 0, err
}

// Announce implements records.Announcer. If a write fails, or its end can't be announced, nodes read its values after
// tier.MaxWrite.
func (a *Announcer) Announce(ctx context.Context, keys []records.CacheKey, write func(context.Context) error) error {
	byKind := map[*records.Kind][]string{}
	for _, key := range keys {
		if a.kinds[key.Kind] && records.CheckQuery("id", key.ID) == nil { // nodes have no values of other kinds
			byKind[key.Kind] = append(byKind[key.Kind], key.ID)
		}
	}
	if len(byKind) == 0 {
		return write(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, tier.MaxWrite-writeSlack)
	defer cancel()
	name := a.process + "-" + strconv.FormatUint(a.writes.Add(1), 36)
	if err := a.send(limited, byKind, tier.Change{Write: name}); err != nil {
		return unavailable(ctx, err)
	}
	err := write(limited)
	if err == nil { // otherwise it may still be made
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.limit)
		defer cancel()
		_ = a.send(ending, byKind, tier.Change{Write: name, Over: true})
	}
	return err
}

// unavailable returns an error of package fault, or that of ctx.
func unavailable(ctx context.Context, err error) error {
	var clientErr *fault.Error
	if !errors.As(err, &clientErr) {
		err = cmp.Or(ctx.Err(), error(fault.ErrUnavailable.WithCause(err)))
	}
	return fmt.Errorf("announce a change to the read tier: %w", err)
}

// send announces a change on the channels of all kinds concurrently.
func (a *Announcer) send(ctx context.Context, byKind map[*records.Kind][]string, c tier.Change) error {
	var all errgroup.Group
	for kind, ids := range byKind {
		c.IDs = ids
		change := c
		all.Go(func() error {
			_, err := a.group.Do(ctx, tier.Channel(kind), change)
			return err
		})
	}
	return all.Wait()
}
