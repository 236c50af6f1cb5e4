package locks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// MaxOperations is how many operations a site can name.
const MaxOperations = 100

// Operation is an operation that locks are for.
type Operation struct {
	Name   string
	TTL    time.Duration // of a lock that is requested without one; 0: DefaultTTL, or MaxTTL if that is shorter
	MaxTTL time.Duration // 0: the constant MaxTTL
}

// Operations are the operations of a site. nil: any operation, with the default lives.
type Operations []Operation

// ErrNoOperation is the error of a lock for an operation that the site doesn't have.
var ErrNoOperation = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKind,
	Detail: "the table of kinds has no operation of this name, for locks"}

// Check returns an error if a name or a life isn't allowed, or a name is there twice. The errors name the place, as in
// `[0].ttl: …`.
func (all Operations) Check() error {
	if len(all) > MaxOperations {
		return fmt.Errorf(": has %d operations, at most %d are allowed", len(all), MaxOperations)
	}
	for i, o := range all {
		longest := cmp.Or(o.MaxTTL, MaxTTL)
		switch err := records.CheckID("name", o.Name); {
		case err != nil:
			return fmt.Errorf("[%d].name: %w", i, err)
		case slices.ContainsFunc(all[:i], func(other Operation) bool { return other.Name == o.Name }):
			return fmt.Errorf("[%d].name: %s is there twice", i, o.Name)
		case longest < MinTTL || longest > MaxTTL:
			return fmt.Errorf("[%d].maxTTL: is %s, it must be from %s to %s", i, longest, MinTTL, MaxTTL)
		case o.TTL != 0 && (o.TTL < MinTTL || o.TTL > longest):
			return fmt.Errorf("[%d].ttl: is %s, it must be from %s to %s", i, o.TTL, MinTTL, longest)
		}
	}
	return nil
}

// find returns the operation with a name, with all defaults, and whether the site has it. If not, it has the default
// lives.
func (all Operations) find(name string) (found Operation, ok bool) {
	at := slices.IndexFunc(all, func(o Operation) bool { return o.Name == name })
	if at >= 0 {
		found = all[at]
	}
	found.Name = name
	found.MaxTTL = cmp.Or(found.MaxTTL, MaxTTL)
	found.TTL = cmp.Or(found.TTL, min(DefaultTTL, found.MaxTTL))
	return found, at >= 0 || all == nil
}
