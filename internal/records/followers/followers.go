package followers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/names"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// The channels of notifications. A user's is personal and the user; that of what users follow is personal, the name of
// its Source, a colon, and the ID.
const (
	Global   = personal + "global"
	personal = "notifications:"
	// pattern is the regular expression for all of them.
	pattern = personal + ".+"
)

// MaxChannels is how many channels of a user are returned: as many as one fetch takes.
const MaxChannels = 256

// Source is a kind of what users follow, such as topics.
type Source struct {
	Name      string        // in the names of channels, such as topic
	Follows   *records.Kind // the list of what a user follows
	Followers *records.Kind // the list of the followers of one
}

func (s *Source) prefix() string { return personal + s.Name + ":" }

// Sources are all that users follow.
type Sources []Source

// MaxSources is how many kinds users can follow.
const MaxSources = 16

var sourceName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// Check returns an error if names don't fit into the names of channels, or are there twice.
func (s Sources) Check() error {
	if len(s) > MaxSources {
		return fmt.Errorf("has %d entries, at most %d are allowed", len(s), MaxSources)
	}
	for i, source := range s {
		if !sourceName.MatchString(source.Name) {
			return fmt.Errorf("name: is %.80q, it must be 1 to 64 letters, digits and _ . -", source.Name)
		}
		if slices.ContainsFunc(s[:i], func(other Source) bool { return other.Name == source.Name }) {
			return fmt.Errorf("name: %s is there twice", source.Name)
		}
	}
	return nil
}

// Lists reads follow lists.
type Lists interface {
	// Get returns the IDs of a list. Errors: records.ErrNotCached if the cache doesn't have it, and the store's.
	Get(ctx context.Context, kind *records.Kind, id string) ([]records.ID, error)
}

// Cached are the follow lists of the cache.
type Cached struct {
	store   records.CacheStore
	metrics records.CacheMetrics
}

// NewCached returns the follow lists in a store. m counts all events of reads.
func NewCached(store records.CacheStore, m records.CacheMetrics) *Cached { return &Cached{store, m} }

// Get implements Lists. A value of another form, written by another program, counts as none.
func (c *Cached) Get(ctx context.Context, kind *records.Kind, id string) ([]records.ID, error) {
	entries, err := c.store.Read(ctx, kind, []string{id})
	if err != nil {
		return nil, err
	}
	entry := entries[0]
	if !entry.Found {
		c.metrics.Count(kind, entry.Event())
		return nil, records.ErrNotCached
	}
	var ids []records.ID
	if err := json.Unmarshal(entry.Bytes, &ids); err != nil {
		c.metrics.Count(kind, records.Undecodable)
		return nil, fmt.Errorf("%w: %s %q is no list of IDs: %w", records.ErrNotCached, kind.Name, id, err)
	}
	c.metrics.Count(kind, entry.Event())
	return ids, nil
}

// Followers returns the channels that a user follows, and the followers of a channel. Any number of goroutines may use
// it.
type Followers struct {
	lists   Lists
	sources Sources
}

// New returns the followers that are in lists, of sources.
func New(lists Lists, sources Sources) *Followers { return &Followers{lists, sources} }

// Channel returns the channel of a user's own notifications, with the user's name as names.OfSubject has it. Users
// whose channel would be another entity's have none. Errors: fault.SlugInvalidID.
func Channel(user string) (string, error) {
	ofUser := names.OfSubject(user)
	name := personal + ofUser
	if err := records.CheckID("user", user); err != nil {
		return "", err
	}
	if strings.Contains(ofUser, ":") || name == Global || channel.CheckChannel(name) != nil {
		return "", &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "user",
			Detail: "the user has no channel of notifications: the ID has a colon, has more than 114 bytes, or is global",
		}
	}
	return name, nil
}

// Shared returns the rest of the name of a channel of notifications that is no user's, after the prefix that it has in
// common with users' channels, and "" for any other channel.
func Shared(name string) (rest string) {
	rest, ok := strings.CutPrefix(name, personal)
	if ok && (name == Global || strings.Contains(rest, ":")) {
		return rest
	}
	return ""
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
	for _, s := range f.sources {
		ids, err := f.lists.Get(ctx, s.Follows, user)
		switch {
		case errors.Is(err, records.ErrNotCached):
			all.Unknown = append(all.Unknown, s.Follows.Name)
		case err != nil:
			return Following{}, err
		}
		all.add(s.prefix(), ids)
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
func (f *Following) add(prefix string, ids []records.ID) {
	f.Channels = slices.Grow(f.Channels, len(ids))
	for _, id := range ids {
		if name := prefix + string(id); id != "" && channel.CheckChannel(name) == nil {
			f.Channels = append(f.Channels, name)
		}
	}
}

// of returns the entity that the name of a channel refers to.
func (s Sources) of(name string) (of Source, id string, ok bool) {
	for _, source := range s {
		if id, ok := strings.CutPrefix(name, source.prefix()); ok && id != "" {
			return source, id, true
		}
	}
	return Source{}, "", false
}

// Followed reports whether a channel belongs to an entity that has followers.
func (s Sources) Followed(name string) bool {
	_, _, ok := s.of(name)
	return ok
}

// ErrNotFollowed is the error of a channel that belongs to none of the sources.
var ErrNotFollowed = errors.New("the table of kinds has nothing to follow with this channel")

// Of returns the followers of a channel's entity. Errors: ErrNotFollowed, records.ErrNotCached if they aren't known,
// and the store's.
func (f *Followers) Of(ctx context.Context, name string) ([]records.ID, error) {
	s, id, ok := f.sources.of(name)
	if !ok {
		return nil, ErrNotFollowed
	}
	return f.lists.Get(ctx, s.Followers, id)
}
