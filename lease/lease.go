package lease

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Errors that callers compare with errors.Is.
var (
	// ErrHeld is the error of a lease that another holder has.
	ErrHeld = errors.New("the lease is held by another holder")
	// ErrLost is the error of a lease that has ended, or may have ended, while it was in use.
	ErrLost = errors.New("the lease was lost")
	// ErrRefused is wrapped by errors of a store that refuses a lease for another reason.
	ErrRefused = errors.New("the lease was refused")
	// ErrName is the error of a name that doesn't match [NamePattern].
	ErrName = errors.New("invalid lease name")
)

// HeldError is an ErrHeld with the known end of the lease.
type HeldError struct {
	For time.Duration // until the lease ends, unless it is renewed or released
}

// Error implements error.
func (e *HeldError) Error() string { return fmt.Sprintf("%v for at most %v", ErrHeld, e.For) }

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Store keeps leases. Its methods may be called by many goroutines. Every request may arrive late or twice.
type Store interface {
	// Acquire grants a lease to r.Token until r.TTL from now. It returns the fence, which is higher than that of every
	// earlier holder of the name. A repeat for the token that holds the lease renews it and returns the same fence.
	// Errors: *HeldError if another token holds the lease; one that wraps ErrRefused. After any other error the lease
	// may have been granted.
	Acquire(ctx context.Context, r Request) (fence uint64, err error)
	// Renew prolongs leases until r.TTL from now. It returns an error for each, in order. Errors: ErrLost if the token
	// no longer holds the lease. After any other error the lease may have been renewed.
	Renew(ctx context.Context, rs []Request) []error
	// Release ends a lease if the token holds it, and notifies its watchers. A repeat succeeds while no other token has
	// had the lease. Errors: ErrLost if the token has lost it before, or never had it. After any other error the lease
	// may have been released.
	Release(ctx context.Context, name, token string) error
	Watcher
}

// Watcher is the part of a Store that waiting needs.
type Watcher interface {
	// Watch calls freed whenever a lease may have become free, until stop is called, and returns at once. It calls it
	// once when it has begun, and after each interruption, so that no release is missed. It needn't call it for a lease
	// that expires. freed doesn't block; several goroutines may call it, but not after stop has returned.
	Watch(name string, freed func()) (stop func())
}

// Request asks for a lease, or for more of it.
type Request struct {
	Name  string
	Token string        // names the holder; new for each acquisition
	TTL   time.Duration // from the time at which the store executes the request
}

// Holding is the state of a lease in a store.
type Holding struct {
	Fence uint64    // of the last holder
	Until time.Time // when the lease ends unless it is renewed or released, in the time of the store; zero: it is free
}

// MaxNameBytes is the longest name of a lease.
const MaxNameBytes = 256

// NamePattern is the regular expression that names of leases match.
const NamePattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]{0,255}$`

var namePattern = regexp.MustCompile(NamePattern)

// CheckName returns an error that wraps ErrName unless name matches NamePattern.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%w %q: it must match %s", ErrName, name, NamePattern)
	}
	return nil
}
