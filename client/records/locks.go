package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/lease"
)

// Lock is a lock that was granted. Its Fence is higher than that of every earlier holder.
type Lock struct {
	Token     string    `json:"token"`
	Fence     uint64    `json:"fence"` // higher for each new holder
	ExpiresAt time.Time `json:"expiresAt"`
}

// LockState is the public state of a lock.
type LockState struct {
	Held      bool      `json:"held"`
	Fence     uint64    `json:"fence,omitempty"`    // of the last holder, if it is known
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // if it is held
}

// LockOptions configures the request for a lock.
type LockOptions struct {
	TTL  time.Duration // how long the lock lasts after its last renewal: 1 s to 1 h; 0: 30 s
	Wait time.Duration // how long to wait if another holds it; 0: not at all
}

const (
	defaultLockTTL = 30 * time.Second
	lockWait       = 20 * time.Second // of one request
	lockPause      = time.Second      // the shortest time between two requests that wait
	releaseTimeout = 5 * time.Second
)

// WithLock acquires a lock of an operation on an entity and calls f while it is held. It renews the lock until f
// returns, and then releases it, also if f panics. The context of f is canceled with lease.ErrLost as its cause before
// another can hold the lock. Pass the fence to the store that f writes to: see lease.Manager. Errors: those of f, of
// AcquireLock, and lease.ErrLost.
func (c *Client) WithLock(ctx context.Context, op, id string, o LockOptions,
	f func(ctx context.Context, fence uint64) error) error {
	if o.TTL == 0 {
		o.TTL = defaultLockTTL
	}
	lock, err := c.AcquireLock(ctx, op, id, o)
	if err != nil {
		return err
	}
	manager, err := lease.NewManager(&remote{client: c, op: op, id: id, token: lock.Token}, lease.Options{TTL: o.TTL})
	if err != nil {
		return errors.Join(err, c.ReleaseLock(ctx, op, id, lock.Token))
	}
	return manager.TryHold(ctx, "lock", func(ctx context.Context, _ uint64) error { return f(ctx, lock.Fence) })
}

// remote is a lock that is already held, as the only lease of a store.
type remote struct {
	client        *Client
	op, id, token string
}

func (r *remote) Acquire(ctx context.Context, asked lease.Request) (fence uint64, err error) {
	lock, err := r.client.RenewLock(ctx, r.op, r.id, r.token, asked.TTL)
	return lock.Fence, lostIf(err)
}

func (r *remote) Renew(ctx context.Context, asked []lease.Request) []error {
	_, err := r.client.RenewLock(ctx, r.op, r.id, r.token, asked[0].TTL)
	return []error{lostIf(err)}
}

func (r *remote) Release(ctx context.Context, _, _ string) error {
	return lostIf(r.client.ReleaseLock(ctx, r.op, r.id, r.token))
}

// Watch does nothing, as there are no waiters for a lock that is already held.
func (r *remote) Watch(string, func()) (stop func()) { return func() {} }

// lostIf adds lease.ErrLost to an error of a lost lock.
func lostIf(err error) error {
	if errors.Is(err, ErrLockLost) {
		return fmt.Errorf("%w: %w", lease.ErrLost, err)
	}
	return err
}

// AcquireLock acquires a lock. It is released if ctx ends first. Errors: ErrLockHeld, ErrInvalidLock, ErrInvalidID and
// client.ErrUnavailable.
func (c *Client) AcquireLock(ctx context.Context, op, id string, o LockOptions) (Lock, error) {
	end := time.Now().Add(o.Wait)
	asked := lockRequest{TTL: Duration(o.TTL), NewToken: "tml_" + rand.Text()}
	for {
		started := time.Now()
		wait := max(0, min(time.Until(end), lockWait)).Round(time.Millisecond)
		asked.Wait = Duration(wait)
		lock, err := c.putLock(ctx, op, id, asked, wait)
		switch {
		case err != nil && ctx.Err() != nil:
			c.abandonLock(ctx, op, id, asked.NewToken)
			return Lock{}, err
		case !errors.Is(err, ErrLockHeld) || !time.Now().Before(end):
			return lock, err
		}
		select { // only if the server didn't wait: it shuts down
		case <-time.After(min(wait, lockPause) - time.Since(started)):
		case <-ctx.Done():
			return Lock{}, context.Cause(ctx)
		}
	}
}

// abandonLock releases a lock that may have been granted to a call that has ended. If that fails the lock ends by
// itself.
func (c *Client) abandonLock(ctx context.Context, op, id, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = c.ReleaseLock(ctx, op, id, token)
}

// RenewLock makes a lock last for a time from now on; 0: 30 s. Errors: ErrLockLost, ErrInvalidLock.
func (c *Client) RenewLock(ctx context.Context, op, id, token string, ttl time.Duration) (Lock, error) {
	return c.putLock(ctx, op, id, lockRequest{Token: token, TTL: Duration(ttl)}, 0)
}

// lockRequest asks for a lock, or renews it.
type lockRequest struct {
	TTL      Duration `json:"ttl,omitzero"`
	Wait     Duration `json:"wait,omitzero"`      // how long to wait if another holds the lock
	Token    string   `json:"token,omitempty"`    // of the holder: the lock is renewed
	NewToken string   `json:"newToken,omitempty"` // so that a repeat is the same grant
}

func (c *Client) putLock(ctx context.Context, op, id string, asked lockRequest, wait time.Duration) (lock Lock,
	err error) {
	r := lockCall("lock", http.MethodPut, op, id)
	r.Body, r.Wait = asked, wait
	_, err = c.service.Do(ctx, r, &lock)
	return lock, err
}

// ReleaseLock ends a lock. If the answer is lost it is tried again, and if another has got the lock meanwhile the error
// is ErrLockLost, as it is if the lock had ended before.
func (c *Client) ReleaseLock(ctx context.Context, op, id, token string) error {
	r := lockCall("unlock", http.MethodDelete, op, id)
	r.Body = map[string]string{"token": token}
	_, err := c.service.Do(ctx, r, nil)
	return err
}

// LockState returns whether a lock is held, until when, and the fence of the last holder if it is known.
func (c *Client) LockState(ctx context.Context, op, id string) (state LockState, err error) {
	_, err = c.service.Do(ctx, lockCall("look at the lock", http.MethodGet, op, id), &state)
	return state, err
}

func lockCall(what, method, op, id string) client.Call {
	return client.Call{What: fmt.Sprintf("%s %s of %s", what, op, id), Method: method, Path: []string{"locks", op, id}}
}
