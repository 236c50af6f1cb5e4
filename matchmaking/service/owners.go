package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

const (
	// most is how many owners are kept, of some 500 bytes each at most.
	most = 10_000
	// age is after how long the owner of an ID that its creator has chosen is read again.
	age = time.Second
)

// owners knows the owners of tickets. An ID that the service made has one owner forever. Another ID can get a ticket of
// another owner once its ticket is gone, which this server doesn't see if another one creates it: such an owner is kept
// for age. All methods may be called by several goroutines.
type owners struct {
	store  store
	lookup func(ctx context.Context, id string) (matchmaking.Owner, error)
	kept   *lru.Cache[string, owned]
}

// store reads tickets.
type store interface {
	Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
	States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error)
}

type owned struct {
	owner   string
	created time.Time // of the ticket
	until   time.Time // the ID may belong to another ticket then; zero: never
}

// newOwners returns owners that read tickets from a store, and their queues by lookup.
func newOwners(store store, lookup func(ctx context.Context, id string) (matchmaking.Owner, error)) *owners {
	kept, err := lru.New[string, owned](most)
	if err != nil {
		panic(err) // impossible: it needs a positive size
	}
	return &owners{store: store, lookup: lookup, kept: kept}
}

// Kept returns how many owners are kept.
func (o *owners) Kept() int { return o.kept.Len() }

// Owner returns who owns a ticket, and when the ticket was created. Errors: matchmaking.ErrNoTicket and the store's.
func (o *owners) Owner(ctx context.Context, id string) (owner string, created time.Time, err error) {
	found, ok := o.kept.Get(id)
	if !ok || !found.until.IsZero() && !time.Now().Before(found.until) {
		found, err = o.read(ctx, id)
	}
	return found.owner, found.created, err
}

// Add keeps the owner of a ticket that was read at a time or later.
func (o *owners) Add(t *matchmaking.Ticket, read time.Time) { o.add(t, read) }

func (o *owners) add(t *matchmaking.Ticket, read time.Time) owned {
	found := owned{owner: t.Owner, created: t.CreateTime}
	if !t.Epoch.IsZero() {
		found.until = read.Add(age)
	}
	o.kept.Add(t.ID, found)
	return found
}

// Forget makes the next call of Owner read the owner of a ticket, unless its ID can never be another ticket's.
func (o *owners) Forget(id string) {
	if _, ok := matchmaking.QueueOf(id); !ok {
		o.kept.Remove(id)
	}
}

// read reads the owner of a ticket, which a replica may have of an earlier ticket with the ID.
func (o *owners) read(ctx context.Context, id string) (owned, error) {
	read := time.Now()
	now, err := o.lookup(ctx, id)
	if err != nil {
		return owned{}, err
	}
	t, err := o.store.Ticket(ctx, now.Queue, id)
	if err != nil {
		return owned{}, fmt.Errorf("read the owner of ticket %s: %w", id, err)
	}
	if t.Epoch != now.Epoch { // or the channel was lost, and made again
		states, err := o.store.States(ctx, now.Queue, []string{id})
		if err != nil || len(states) == 0 || !states[0].Created.Equal(t.CreateTime) {
			return owned{}, errors.Join(err, matchmaking.ErrNoTicket)
		}
	}
	return o.add(&t, read), nil
}
