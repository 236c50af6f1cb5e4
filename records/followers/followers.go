package followers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/records/entities"
)

// The channels of notifications. A topic's is topics and the topic's ID, and so on; a user's is personal and the user.
const (
	Global   = personal + "global"
	personal = "notifications:"
	topics   = personal + "topic:"
	shouts   = personal + "shout:"
	authors  = personal + "author:"
)

// MaxChannels is how many channels of a user are returned: as many as one fetch takes.
const MaxChannels = 256

// source is a kind of channel that users follow.
type source struct {
	prefix    string
	followed  *records.Kind // the follow list of a user
	followers *records.Kind // the followers of one
}

var sources = []source{
	{topics, records.AuthorFollowsTopics, records.TopicFollowers},
	{authors, records.AuthorFollows, records.AuthorFollowers},
	{shouts, records.AuthorFollowsShouts, records.ShoutFollowers},
}

// Lists reads follow lists.
type Lists interface {
	// Get returns the IDs of a list. Errors: cache.ErrNotFound if the cache doesn't have it, and the store's.
	Get(ctx context.Context, kind *records.Kind, id string) ([]entities.ID, error)
}

// Cached are the follow lists of the cache.
type Cached struct {
	store   cache.Store
	metrics cache.Metrics
}

// NewCached returns the follow lists in a store. m counts all events of package cache.
func NewCached(store cache.Store, m cache.Metrics) *Cached { return &Cached{store, m} }

// Get implements Lists. A value of another form, written by another program, counts as none.
func (c *Cached) Get(ctx context.Context, kind *records.Kind, id string) ([]entities.ID, error) {
	entries, err := c.store.Read(ctx, kind, []string{id})
	if err != nil {
		return nil, err
	}
	entry := entries[0]
	if !entry.Found {
		c.metrics.Count(kind, entry.Event())
		return nil, cache.ErrNotFound
	}
	var ids []entities.ID
	if err := json.Unmarshal(entry.Bytes, &ids); err != nil {
		c.metrics.Count(kind, cache.Undecodable)
		return nil, fmt.Errorf("%w: %s %q is no list of IDs: %w", cache.ErrNotFound, kind.Name, id, err)
	}
	c.metrics.Count(kind, entry.Event())
	return ids, nil
}

// Followers returns the channels that a user follows, and the followers of a channel. Any number of goroutines may use
// it.
type Followers struct{ lists Lists }

// New returns the followers that are in lists.
func New(lists Lists) *Followers { return &Followers{lists} }

// Channel returns the channel of a user's own notifications. Users whose names aren't valid in the name of a channel,
// or would give the channel of another entity, have none. Errors: fault.SlugInvalidID.
func Channel(user string) (string, error) {
	name := personal + user
	if err := records.CheckID("user", user); err != nil {
		return "", err
	}
	if strings.Contains(user, ":") || name == Global || channel.CheckChannel(name) != nil {
		return "", &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "user",
			Detail: "the user has no channel of notifications: its name has other characters than letters, digits, '_', '.' and '-', or is global",
		}
	}
	return name, nil
}

// Following lists the channels that a user follows.
type Following struct {
	Channels []string // sorted
	More     bool     // there are more than MaxChannels: the last ones are left out
	Unknown  []string // kinds of follow lists that aren't cached: their channels are omitted
}

// Following returns the channels that a user follows: their own, the global one, and those of the follow lists. Errors:
// fault.SlugInvalidID and the store's.
func (f *Followers) Following(ctx context.Context, user string) (Following, error) {
	own, err := Channel(user)
	if err != nil {
		return Following{}, err
	}
	var all Following
	for _, s := range sources {
		ids, err := f.lists.Get(ctx, s.followed, user)
		switch {
		case errors.Is(err, cache.ErrNotFound):
			all.Unknown = append(all.Unknown, s.followed.Name)
		case err != nil:
			return Following{}, err
		}
		all.add(s.prefix, ids)
	}
	slices.Sort(all.Channels)
	all.Channels = slices.Compact(all.Channels)
	if all.More = len(all.Channels) > MaxChannels-2; all.More {
		all.Channels = all.Channels[:MaxChannels-2]
	}
	all.Channels = append(all.Channels, own, Global)
	slices.Sort(all.Channels)
	return all, nil
}

// add adds the channels of IDs that have one.
func (f *Following) add(prefix string, ids []entities.ID) {
	f.Channels = slices.Grow(f.Channels, len(ids))
	for _, id := range ids {
		if name := prefix + string(id); id != "" && channel.CheckChannel(name) == nil {
			f.Channels = append(f.Channels, name)
		}
	}
}

// of returns the entity that the name of a channel refers to.
func of(name string) (s source, id string, ok bool) {
	for _, s := range sources {
		if id, ok := strings.CutPrefix(name, s.prefix); ok && id != "" {
			return s, id, true
		}
	}
	return source{}, "", false
}

// Followed reports whether a channel belongs to an entity that has followers.
func Followed(name string) bool {
	_, _, ok := of(name)
	return ok
}

// Of returns the followers of a channel's entity. Errors: cache.ErrNotFound if they aren't known, and the store's.
func (f *Followers) Of(ctx context.Context, name string) ([]entities.ID, error) {
	s, id, ok := of(name)
	if !ok {
		return nil, cache.ErrNotFound
	}
	return f.lists.Get(ctx, s.followers, id)
}
