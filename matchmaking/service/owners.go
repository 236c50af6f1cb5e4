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
	maxOwners = 10_000      // owners kept, of at most some 500 bytes each
	ownerAge  = time.Second // the owner of an ID that its creator has chosen is read again
)

// owners keeps whose tickets are, so that a check costs the storage nothing. An ID that the service made has one owner
// forever. Another ID can get a ticket of another owner once its ticket is gone, which this server doesn't see if another one
// creates it: such an owner is kept for ownerAge.
type owners struct{ kept *lru.Cache[string, owned] }

type owned struct {
	owner   string
	created time.Time // of the ticket
	until   time.Time // the ID may belong to another ticket then; zero: never
}

func newOwners() *owners {
	kept, err := lru.New[string, owned](maxOwners)
	if err != nil {
		panic(err) // impossible: it needs a positive size
	}
	return &owners{kept}
}

func (o *owners) get(id string) (found owned, ok bool) {
	found, ok = o.kept.Get(id)
	return found, ok && (found.until.IsZero() || time.Now().Before(found.until))
}

// add keeps the owner of a ticket that was read at a time or later.
func (o *owners) add(t *matchmaking.Ticket, read time.Time) owned {
	found := owned{owner: t.Owner, created: t.CreateTime}
	if !t.Epoch.IsZero() {
		found.until = read.Add(ownerAge)
	}
	o.kept.Add(t.ID, found)
	return found
}

// Owner returns who owns a ticket, see [matchmaking.Spec], and when the ticket was created, which tells apart tickets that had
// the same ID. If the ID was chosen by its creator, the answer can be a second old. Most calls need no read. Errors: ErrNoTicket
// and the store's.
func (s *Service) Owner(ctx context.Context, id string) (owner string, created time.Time, err error) {
	found, ok := s.owners.get(id)
	if !ok {
		found, err = s.readOwner(ctx, id)
	}
	return found.owner, found.created, err
}

// ForgetOwner makes the next call of Owner read the owner of a ticket, unless its ID can never be another ticket's.
func (s *Service) ForgetOwner(id string) {
	if _, ok := matchmaking.QueueOf(id); !ok {
		s.owners.kept.Remove(id)
	}
}

// readOwner reads the owner of a ticket, which a replica may have of an earlier ticket with the ID.
func (s *Service) readOwner(ctx context.Context, id string) (owned, error) {
	read := time.Now()
	now, err := s.ownerOf(ctx, id)
	if err != nil {
		return owned{}, err
	}
	t, err := s.o.Store.Ticket(ctx, now.Queue, id)
	if err != nil {
		return owned{}, fmt.Errorf("read the owner of ticket %s: %w", id, err)
	}
	if t.Epoch != now.Epoch { // or the channel was lost, and made again
		states, err := s.o.Store.States(ctx, now.Queue, []string{id})
		if err != nil || len(states) == 0 || !states[0].Created.Equal(t.CreateTime) {
			return owned{}, errors.Join(err, matchmaking.ErrNoTicket)
		}
	}
	return s.owners.add(&t, read), nil
}
