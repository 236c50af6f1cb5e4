package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
)

// Errors of claims.
var (
	// ErrNoLayout is returned for a data centre that has no layout yet. It wraps lease.ErrRefused.
	ErrNoLayout = fmt.Errorf("%w: the data centre has no layout for this cache", lease.ErrRefused)
	// ErrSameHost is joined with the *lease.HeldError of a member whose host has a shard under another token.
	ErrSameHost = errors.New("another process has this host name")
	// ErrUnsure is joined with the *lease.HeldError of a member that gets no shard because another may hold it by a
	// claim that was lost.
	ErrUnsure = errors.New(
		"claims may have been lost in a fail-over or a restart: none is granted until they have ended")
	// ErrMoved is returned if the layout of the data centre has changed. It wraps lease.ErrLost.
	ErrMoved = fmt.Errorf("%w: the layout of the data centre has changed", lease.ErrLost)
	// ErrChanged is returned if another has changed a layout meanwhile.
	ErrChanged = errors.New("the layout was changed by another meanwhile")
	// ErrInUse is returned if nodes still hold shards.
	ErrInUse = errors.New("nodes hold shards of the data centre")
	// ErrTooManyDCs is returned for a cache that has MaxDCs data centres already.
	ErrTooManyDCs = fmt.Errorf("a cache can have %d data centres at most", MaxDCs)
)

// MaxDCs is how many data centres a cache can have.
const MaxDCs = 64

// Member is a node of a cache.
type Member struct {
	Cache   string
	DC      string
	Host    string // unique in the data centre, the same after a restart
	Address string // at which clients reach it: host:port
}

// Claims keeps which node has which shard. Its methods may be called by many goroutines. Every request may arrive late
// or twice.
type Claims interface {
	// Claim claims a shard for a member, named by a token, until ttl from now: the one that its host had last, or else
	// the free one that was pinged the longest time ago. Nobody else gets that shard meanwhile, and no other token one
	// for the same host. While holders of an earlier layout remain, no shard is free. A store that may have lost claims
	// gives out no shard until those have ended. A repeat for a token that holds a shard renews it. Errors:
	// *lease.HeldError if none is free, with the time until one may be, joined with ErrSameHost if the host has one
	// under another token, and with ErrUnsure if claims may be lost; ErrNoLayout; lease.ErrLost for a token whose claim
	// has ended: it never gets another shard. After any other error it may be claimed.
	//
	// last is the member's last claim, as far as it knows; zero: none. A store that has lost the layout restores it from
	// there, unless the data centre was removed, and one that has lost the claim gives the member the same shard.
	Claim(ctx context.Context, m Member, token string, ttl time.Duration, last Claimed) (Claimed, error)
	// Ping renews a claim, and records whether the node has loaded its shard. Errors: ErrMoved, lease.ErrLost.
	Ping(ctx context.Context, m Member, token string, ttl time.Duration, loaded bool) error
	// Leave ends a claim, and notifies watchers. A repeat succeeds. Errors: lease.ErrLost.
	Leave(ctx context.Context, m Member, token string) error
	// Watch calls freed whenever a shard of a data centre may have become free, as lease.Watcher does.
	Watch(cache, dc string, freed func()) (stop func())
}

// Claimed is a shard that was claimed.
type Claimed struct {
	Shard       int
	Interval    Interval
	Generation  uint64
	Starts      []uint64 // first sharding keys of the shards of the layout; treat as read-only
	Incarnation uint64   // higher than that of each earlier holder of the shard in its data centre
}

// Layouts keeps how caches are split.
type Layouts interface {
	// SetLayout gives a data centre a layout, if its generation is still the given one; 0: it has none. A repeat of the
	// same change succeeds. Errors: those of CheckStarts and CheckName; ErrChanged; ErrInUse if holders of the layout
	// before this one are left; ErrTooManyDCs; those of package fault.
	SetLayout(ctx context.Context, cache, dc string, generation uint64, starts []uint64) (Layout, error)
	// Status returns the data centres of a cache, by name: none if there is no such cache.
	Status(ctx context.Context, cache string) ([]DC, error)
	// Remove removes a data centre that has no holders. Errors: ErrInUse.
	Remove(ctx context.Context, cache, dc string) error
}

// DC is the state of a cache in one data centre.
type DC struct {
	Name   string
	Layout Layout
	Shards []Holder // of each shard; the zero value: it has never had one
	Former []Holder // of earlier layouts, that haven't left yet
}

// Holder is the current or last holder of a shard.
type Holder struct {
	Shard       int
	Generation  uint64
	Host        string
	Address     string
	Incarnation uint64
	Locked      time.Time     // when it was claimed
	Pinged      time.Time     // last
	Left        time.Duration // until it ends, unless it is pinged; 0: the shard is free
	Loaded      bool
}

// Whole reports whether all shards of a data centre are held and loaded.
func (d DC) Whole() bool {
	for _, h := range d.Shards {
		if h.Left == 0 || !h.Loaded {
			return false
		}
	}
	return d.Layout.Generation > 0
}
