package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

const (
	// maxOwners is the maximum number of cached owners, of some 500 bytes each at most.
	maxOwners = 10_000
	// ownerAge is the time after which the owner of a caller-chosen ID is read again.
	ownerAge = time.Second
)

// owners caches the owners of tickets. A service-generated ID has one owner forever. Another ID can belong to a ticket
// of another owner after its ticket has ended, which this server doesn't notice if another server creates it: such an
// owner is cached for ownerAge. All methods may be called by several goroutines.
type owners struct {
	store  ticketReader
	lookup func(ctx context.Context, id string) (matchmaking.Owner, error)
	cache  *lru.Cache[string, cachedOwner]
}

// ticketReader reads tickets.
type ticketReader interface {
	Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
	States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error)
}

// cachedOwner is the owner of a ticket.
type cachedOwner struct {
	owner   string
	created time.Time // of the ticket
	until   time.Time // the ID may belong to another ticket from then on; zero: never
}

// newOwners returns owners that read tickets from a store, and their queues with lookup.
func newOwners(store ticketReader, lookup func(ctx context.Context, id string) (matchmaking.Owner, error)) *owners {
	cache, err := lru.New[string, cachedOwner](maxOwners)
	if err != nil {
		panic(err) // impossible: it needs a positive size
	}
	return &owners{store: store, lookup: lookup, cache: cache}
}

// Len returns the number of cached owners.
func (o *owners) Len() int { return o.cache.Len() }

// Owner returns the owner of a ticket, and the ticket's creation time. Errors: matchmaking.ErrNoTicket and the store's.
func (o *owners) Owner(ctx context.Context, id string) (owner string, created time.Time, err error) {
	found, ok := o.cache.Get(id)
	if !ok || !found.until.IsZero() && !time.Now().Before(found.until) {
		found, err = o.read(ctx, id)
	}
	return found.owner, found.created, err
}

// Add caches and returns the owner of a ticket that was read at the given time or later.
func (o *owners) Add(t *matchmaking.Ticket, read time.Time) cachedOwner {
	found := cachedOwner{owner: t.Owner, created: t.CreateTime}
	if !t.Epoch.IsZero() {
		found.until = read.Add(ownerAge)
	}
	o.cache.Add(t.ID, found)
	return found
}

// Forget makes the next call of Owner read the owner of a ticket, unless its ID is never reused.
func (o *owners) Forget(id string) {
	if _, ok := matchmaking.QueueOf(id); !ok {
		o.cache.Remove(id)
	}
}

// read reads the owner of a ticket; a replica may return that of an earlier ticket with the ID.
func (o *owners) read(ctx context.Context, id string) (cachedOwner, error) {
	read := time.Now()
	now, err := o.lookup(ctx, id)
	if err != nil {
		return cachedOwner{}, err
	}
	t, err := o.store.Ticket(ctx, now.Queue, id)
	if err != nil {
		return cachedOwner{}, fmt.Errorf("read the owner of ticket %s: %w", id, err)
	}
	if t.Epoch != now.Epoch { // or the channel was lost and created again
		states, err := o.store.States(ctx, now.Queue, []string{id})
		if err != nil || len(states) == 0 || !states[0].Created.Equal(t.CreateTime) {
			return cachedOwner{}, errors.Join(err, matchmaking.ErrNoTicket)
		}
	}
	return o.Add(&t, read), nil
}
