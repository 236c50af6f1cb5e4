package limits

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
)

// Client is the client that a request counts for: its principal and its address. The zero Client has no limits.
type Client struct {
	limiter            *Limiter
	address, principal *counts           // nil: it isn't limited
	quotas             *access.Principal // that quotas count for; nil: none
}

type clientKey struct{}

// With returns a context that carries a client.
func With(ctx context.Context, c Client) context.Context {
	if c == (Client{}) {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, c)
}

// From returns the client of a context. Without one it has no limits.
func From(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// Request counts a request. Errors: fault.SlugRateLimited, as for the other methods, and those of the store of quotas.
func (c Client) Request(ctx context.Context) error { return c.reserve(ctx, requests, 1) }

// Further counts a request that has been counted as more requests, by its cost. A client whose whole limit is available
// is always served. The error's time is that of both: the client's retry is counted by Request first.
func (c Client) Further(ctx context.Context, n int) error {
	for _, counts := range [...]*counts{c.address, c.principal} {
		if counts == nil {
			continue
		}
		if wait := counts.reserve(requests, min(n, counts.limits.Requests.Count-1), 1); wait > 0 {
			return c.limiter.refuse(counts, requests, wait)
		}
	}
	if c.quotas != nil {
		n = min(n, c.limiter.current.Load().Quotas.Requests.Count-1)
	}
	if n <= 0 {
		return nil
	}
	return c.takeQuota(ctx, requests, n, 1)
}

// Affords returns the error with which Further would refuse n requests now, and counts nothing.
func (c Client) Affords(n int) error {
	for _, counts := range [...]*counts{c.address, c.principal} {
		b := counts.bucket(requests)
		if b == nil {
			continue
		}
		if n := min(n, b.Burst()-1); b.Tokens() < float64(n) {
			return c.limiter.refuse(counts, requests, until(b, n+1))
		}
	}
	return nil
}

// Spent counts an answer as n further requests, even beyond the limit, but by no more than the limit's count. The
// client's next requests are refused until enough are available again. Quotas don't count answers.
func (c Client) Spent(n int) {
	c.address.spend(requests, n)
	c.principal.spend(requests, n)
}

// Publish counts the bytes of messages before they are published. More than the limit's count are counted as that many.
func (c Client) Publish(ctx context.Context, n int) error { return c.reserve(ctx, bytes, n) }

// PublishWaits reports whether Publish asks the store, for a quota.
func (c Client) PublishWaits() bool {
	return c.quotas != nil && bytes.rate(&c.limiter.current.Load().Quotas).Count > 0
}

// Ticket counts a ticket before it is created.
func (c Client) Ticket(ctx context.Context) error { return c.reserve(ctx, tickets, 1) }

func (c Client) reserve(ctx context.Context, k Kind, n int) error {
	for _, counts := range [...]*counts{c.address, c.principal} {
		if wait := counts.reserve(k, n, 0); wait > 0 {
			return c.limiter.refuse(counts, k, wait)
		}
	}
	return c.takeQuota(ctx, k, n, 0)
}

// takeQuota takes n units of a quota. A retry takes some before.
func (c Client) takeQuota(ctx context.Context, k Kind, n, before int) error {
	if c.quotas == nil {
		return nil
	}
	quota := k.rate(&c.limiter.current.Load().Quotas)
	if quota.Count == 0 {
		return nil
	}
	taken, err := c.limiter.o.Store.Take(ctx, Quota{
		Owner: c.quotas.Name(), Name: k.String(), Rate: quota.PerSecond(), Burst: quota.Count,
	}, min(n, quota.Count))
	if err != nil || taken.OK {
		return err
	}
	c.limiter.refused(refusal{who: c.quotas.Name(), of: "quota", limit: k.String()}, quota.String())
	wait := taken.Retry + time.Duration(float64(before)/quota.PerSecond()*float64(time.Second))
	return limited(wait, "the quota of %s on all servers, %s, is used up", k, quota)
}

// refuse counts and returns the error of a request beyond a limit.
func (l *Limiter) refuse(c *counts, k Kind, wait time.Duration) error {
	l.refused(refusal{who: c.who.label(), of: c.who.of(), limit: k.String()}, k.rate(&c.limits).String())
	return limited(wait, "the limit of %s for this %s, %s, is used up", k, c.who.of(), k.rate(&c.limits))
}

func limited(wait time.Duration, format string, values ...any) error {
	return &fault.Error{
		Kind: fault.Limited, Slug: fault.SlugRateLimited, RetryAfter: wait, Detail: fmt.Sprintf(format, values...),
	}
}

// Wait counts a number of waiting requests until done is called. More than the limit are counted as the limit. Errors:
// fault.SlugTooManyWaits.
func (c Client) Wait(requests int) (done func(), err error) {
	l := c.limiter
	if l == nil {
		return func() {}, nil
	}
	both := [...]*counts{c.address, c.principal}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, counts := range both {
		if counts.limitsWaits() && l.waiting[counts.who]+counts.weight(requests) > counts.limits.Waits {
			l.refused(refusal{who: counts.who.label(), of: counts.who.of(), limit: access.LimitWaits},
				strconv.Itoa(counts.limits.Waits))
			return nil, &fault.Error{
				Kind: fault.Limited, Slug: fault.SlugTooManyWaits, RetryAfter: time.Second,
				Detail: fmt.Sprintf("%d requests of this %s wait already, %d may", l.waiting[counts.who],
					counts.who.of(), counts.limits.Waits),
			}
		}
	}
	for _, counts := range both {
		if counts.limitsWaits() {
			l.waiting[counts.who] += counts.weight(requests)
		}
	}
	return func() { l.waited(both[:], requests) }, nil
}

func (c *counts) limitsWaits() bool { return c != nil && c.limits.Waits > 0 }

func (c *counts) weight(requests int) int { return min(requests, c.limits.Waits) }

// waited ends what Wait began.
func (l *Limiter) waited(of []*counts, requests int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, counts := range of {
		if !counts.limitsWaits() {
			continue
		}
		if l.waiting[counts.who] -= counts.weight(requests); l.waiting[counts.who] == 0 {
			delete(l.waiting, counts.who)
		}
	}
}

// MayMake reports whether the client may make one more channel or subscriber. If not, a request for an existing one may
// still be served.
func (c Client) MayMake(k Kind) bool { return c.address.room(k) && c.principal.room(k) }

// Refuse counts and returns the error of a request for which MayMake has returned false, and that found no existing
// object.
func (c Client) Refuse(k Kind) error {
	of := c.address
	if c.principal.bucket(k) != nil && (c.address.bucket(k) == nil || c.address.room(k)) {
		of = c.principal
	}
	return c.limiter.refuse(of, k, until(of.bucket(k), 1))
}

// Made counts a channel or subscriber that was made.
func (c Client) Made(k Kind) {
	c.address.charge(k)
	c.principal.charge(k)
}

// Standing is the state of a limit of requests.
type Standing struct {
	Limit     access.Rate
	Remaining int
	Reset     time.Duration // until the whole limit is available again
}

// Standing returns the state of the client's limit of requests: of the principal's and the address's the one with fewer
// requests left. It returns false if there is none.
func (c Client) Standing() (s Standing, ok bool) {
	for _, counts := range [...]*counts{c.address, c.principal} {
		b := counts.bucket(requests)
		if b == nil {
			continue
		}
		left := b.Tokens() // less than 0 after Spent
		if remaining := max(0, int(left)); !ok || remaining < s.Remaining {
			reset := (float64(b.Burst()) - left) / float64(b.Limit()) * float64(time.Second)
			s, ok = Standing{Limit: counts.limits.Requests, Remaining: remaining, Reset: time.Duration(reset)}, true
		}
	}
	return s, ok
}
