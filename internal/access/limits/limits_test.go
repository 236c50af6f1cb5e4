package limits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
)

func parse(t testing.TB, text string) access.Limits {
	t.Helper()
	l, err := access.ParseLimits(text)
	require.NoError(t, err)
	return l
}

func user(name string) *access.Principal { return &access.Principal{Kind: access.User, Subject: name} }

// isLimited checks that an error refuses a request, and returns when to try again.
func isLimited(t testing.TB, err error, slug fault.Slug, detail string) time.Duration {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, fault.Limited, e.Kind)
	require.Equal(t, slug, e.Slug)
	require.Contains(t, e.Detail, detail)
	return e.RetryAfter
}

// TestRates: for each kind, as many requests as the limit may come at once, and more as time passes. Other principals
// aren't affected.
func TestRates(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(Client) error{
		access.LimitRequests:       func(c Client) error { return c.Request(t.Context()) },
		access.LimitPublishedBytes: func(c Client) error { return c.Publish(t.Context(), 1) },
		access.LimitTickets:        func(c Client) error { return c.Ticket(t.Context()) },
		access.LimitNewChannels:    func(c Client) error { return make1(c, NewChannels) },
		access.LimitNewSubscribers: func(c Client) error { return make1(c, NewSubscribers) },
	}
	for name, kind := range kinds {
		synctest.Test(t, func(t *testing.T) {
			var counted []string
			l := New(Options{
				Users: parse(t, name+"=6/m"), Addresses: parse(t, name+"=10/m"),
				Refused: func(limit, of string) { counted = append(counted, limit+" "+of) },
			})
			ann, bob := l.Client(user("ann"), "192.0.2.1:1"), l.Client(user("bob"), "192.0.2.1:2")
			for range 6 {
				require.NoError(t, kind(ann))
			}
			retry := isLimited(t, kind(ann), fault.SlugRateLimited,
				"the limit of "+name+" for this user, 6/m, is used up")
			require.Equal(t, 10*time.Second, retry.Round(time.Millisecond))
			for range 3 {
				require.NoError(t, kind(bob))
			}
			for range 2 {
				_ = kind(bob)
			}
			isLimited(t, kind(bob), fault.SlugRateLimited, "for this address, 10/m")
			elsewhere := l.Client(user("bob"), "192.0.2.2:2")
			require.NoError(t, kind(elsewhere))
			require.NoError(t,
				kind(l.Client(&access.Principal{Kind: access.APIKey, Credential: "ann"}, "[2001:db8::1]:1")),
				"keys have none")
			time.Sleep(10 * time.Second) //nolint:forbidigo // the time of synctest
			require.NoError(t, kind(ann))
			require.Error(t, kind(ann))
			require.Contains(t, counted, name+" user")
			require.Contains(t, counted, name+" address")
			time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
			for range 6 {
				require.NoError(t, kind(ann), "no more than a burst is saved up")
			}
			require.Error(t, kind(ann))
		})
	}
}

func make1(c Client, k Kind) error {
	if !c.MayMake(k) {
		return c.Refuse(k)
	}
	c.Made(k)
	return nil
}

// TestClients: which requests share limits, and which have none.
func TestClients(t *testing.T) {
	t.Parallel()
	key := &access.Principal{Kind: access.APIKey, Credential: "k", Limits: parse(t, "requests=2/s")}
	session := &access.Principal{Kind: access.Session, Subject: "ann"}
	holder := &access.Principal{Kind: access.TicketHolder, Credential: "ann"}
	l := New(Options{Users: parse(t, "requests=1/s"), Addresses: parse(t, "requests=100/s")})
	same := func(a, b Client) {
		t.Helper()
		require.Same(t, a.principal, b.principal)
	}
	same(l.Client(user("ann"), ""), l.Client(session, ""))
	require.NotSame(t, l.Client(user("ann"), "").principal, l.Client(holder, "").principal)
	require.Equal(t, "user", l.Client(holder, "").principal.who.of())
	require.Equal(t, "key", l.Client(key, "").principal.who.of())
	before := l.Client(key, "")
	same(before, l.Client(key, ""))
	changed := *key
	changed.Limits = parse(t, "requests=5/s")
	require.NotSame(t, before.principal, l.Client(&changed, "").principal, "the limits have changed")
	require.Same(t, l.Client(nil, "[2001:db8::1]:1").address, l.Client(access.Anonymous(), "2001:db8::ffff").address)
	require.NotSame(t, l.Client(nil, "[2001:db8::1]:1").address, l.Client(nil, "2001:db8:0:1::1").address)
	require.Same(t, l.Client(nil, "192.0.2.1:1").address, l.Client(nil, "::ffff:192.0.2.1").address)
	require.Zero(t, l.Client(access.Local(), "192.0.2.1:1"))
	require.Zero(t, l.Client(nil, "@"))

	var none *Limiter
	unlimited := New(Options{})
	for _, c := range []Client{none.Client(user("ann"), "192.0.2.1:1"), unlimited.Client(user("ann"), "192.0.2.1:1"),
		unlimited.Client(nil, "192.0.2.1:1")} {
		require.Zero(t, c)
		require.Equal(t, t.Context(), With(t.Context(), c), "costs nothing")
		require.NoError(t, errors.Join(c.Request(t.Context()), c.Publish(t.Context(), 1<<30), c.Ticket(t.Context()),
			make1(c, NewChannels)))
		done, err := c.Wait(1)
		require.NoError(t, err)
		done()
		_, ok := c.Standing()
		require.False(t, ok)
	}
	require.NotZero(t, From(With(t.Context(), before)))
}

func TestStanding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Users: parse(t, "requests=60/m"), Addresses: parse(t, "requests=50/s")})
		c := l.Client(user("ann"), "192.0.2.1:1")
		for range 20 {
			require.NoError(t, c.Request(t.Context()))
		}
		s, ok := c.Standing()
		require.True(t, ok)
		require.Equal(t, Standing{Limit: access.Rate{Count: 50, Per: time.Second}, Remaining: 30,
			Reset: 400 * time.Millisecond}, s)
		time.Sleep(time.Second) //nolint:forbidigo // the time of synctest
		s, _ = c.Standing()
		require.Equal(t, Standing{Limit: access.Rate{Count: 60, Per: time.Minute}, Remaining: 41,
			Reset: 19 * time.Second}, s)

		c = New(Options{Users: parse(t, "requests=60/m")}).Client(user("ann"), "")
		require.NoError(t, c.Request(t.Context()))
		c.Spent(60)
		c.Spent(29)
		s, _ = c.Standing()
		require.Equal(t, Standing{Limit: access.Rate{Count: 60, Per: time.Minute}, Reset: 90 * time.Second}, s)
	})
}

// TestBatches: a batch larger than the limit may be published when the whole limit is available.
func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Users: parse(t, "publishedBytes=1KiB/s")}).Client(user("ann"), "")
		require.NoError(t, c.Publish(t.Context(), 10))
		retry := isLimited(t, c.Publish(t.Context(), 1<<20), fault.SlugRateLimited, "1KiB/s")
		require.NoError(t, c.Publish(t.Context(), 1000), "what was refused doesn't count")
		time.Sleep(retry + time.Second) //nolint:forbidigo // the time of synctest
		require.NoError(t, c.Publish(t.Context(), 1<<20))
		require.Error(t, c.Publish(t.Context(), 1))
	})
}

// TestMakingAtOnce: channels created by concurrent requests are counted, even beyond the limit.
func TestMakingAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Users: parse(t, "newChannels=10/m")}).Client(user("ann"), "")
		for range 30 {
			c.Made(NewChannels)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the time of synctest
		require.False(t, c.MayMake(NewChannels))
		time.Sleep(7 * time.Second) //nolint:forbidigo // the time of synctest
		require.True(t, c.MayMake(NewChannels))
	})
}

// TestWaits: no more requests wait than the limit, however many arrive at once, and one user's waits don't affect
// another's.
func TestWaits(t *testing.T) {
	t.Parallel()
	l := New(Options{Users: parse(t, "waits=10"), Addresses: parse(t, "waits=15")})
	ann, bob := l.Client(user("ann"), "192.0.2.1:1"), l.Client(user("bob"), "192.0.2.1:1")
	var waiting sync.WaitGroup
	dones := make(chan func(), 100)
	for range cap(dones) {
		waiting.Go(func() {
			if done, err := ann.Wait(1); err == nil {
				dones <- done
			}
		})
	}
	waiting.Wait()
	require.Len(t, dones, 10)
	_, err := ann.Wait(1)
	isLimited(t, err, fault.SlugTooManyWaits, "10 requests of this user wait already")
	for range 5 {
		done, err := bob.Wait(1)
		require.NoError(t, err)
		dones <- done
	}
	_, err = bob.Wait(1)
	isLimited(t, err, fault.SlugTooManyWaits, "15 requests of this address wait already")
	for i := range maxClients { // both are forgotten, and still wait
		l.Client(user(fmt.Sprint(i)), "")
	}
	require.NotSame(t, ann.principal, l.Client(user("ann"), "192.0.2.1:1").principal)
	_, err = l.Client(user("ann"), "").Wait(1)
	require.Error(t, err)
	for len(dones) > 0 {
		(<-dones)()
	}
	require.Empty(t, l.waiting)
	for _, requests := range []int{1, 8, 1000} { // more than the limit count as the limit
		done, err := ann.Wait(requests)
		require.NoError(t, err)
		_, err = ann.Wait(11 - min(10, requests))
		require.Error(t, err)
		done()
	}
	require.Empty(t, l.waiting)
}

// TestMemoryIsBounded: the clients that were quiet for longest are forgotten.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := New(Options{Users: parse(t, "requests=1/s")})
	for i := range 2 * maxClients {
		require.NoError(t, l.Client(user(fmt.Sprint(i)), "").Request(t.Context()))
	}
	require.Equal(t, maxClients, l.clients.Len())
	require.Error(t, l.Client(user(fmt.Sprint(2*maxClients-1)), "").Request(t.Context()))
}

// store is a store of quotas that are used up, or that fails.
type store struct {
	asked []Quota
	units []int
	taken Taken
	err   error
}

func (s *store) Take(_ context.Context, of Quota, units int) (Taken, error) {
	s.asked, s.units = append(s.asked, of), append(s.units, units)
	return s.taken, s.err
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	s := &store{taken: Taken{OK: true}}
	l := New(Options{Quotas: parse(t, "requests=60/m,publishedBytes=1KiB/s"), Store: s})
	ann, key := l.Client(user("ann"), "192.0.2.1:1"), l.Client(&access.Principal{Kind: access.APIKey, Credential: "k"},
		"")
	require.NoError(t, errors.Join(ann.Request(t.Context()), key.Publish(t.Context(), 1<<20), ann.Ticket(t.Context())))
	require.Equal(t, []Quota{
		{Owner: "user:ann", Name: "requests", Rate: 1, Burst: 60}, {Owner: "key:k", Name: "publishedBytes", Rate: 1024,
			Burst: 1024},
	}, s.asked)
	require.Equal(t, []int{1, 1024}, s.units)
	s.taken = Taken{Retry: time.Minute}
	require.Equal(t, time.Minute, isLimited(t, ann.Request(t.Context()), fault.SlugRateLimited,
		"the quota of requests on all servers, 60/m"))
	s.err = fault.ErrUnavailable
	require.ErrorIs(t, ann.Request(t.Context()), fault.ErrUnavailable)
	require.Zero(t, l.Client(access.Anonymous(), "192.0.2.1:1"), "nobody has no quota")
	require.Zero(t, l.Client(nil, "192.0.2.1:1"))
}

// TestSpent: what was spent beyond the limit is missing afterwards, but never more than the limit's count.
func TestSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Users: parse(t, "requests=6/m"), Addresses: parse(t, "tickets=1/m")})
		c := l.Client(user("ann"), "192.0.2.1:1")
		wait := func(want time.Duration) {
			t.Helper()
			retry := isLimited(t, c.Request(t.Context()), fault.SlugRateLimited, "the limit of requests for this user")
			require.Equal(t, want, retry.Round(time.Millisecond))
		}
		c.Spent(5)
		require.NoError(t, c.Request(t.Context()))
		wait(10 * time.Second)
		c.Spent(2)
		wait(30 * time.Second)
		for range 3 {
			c.Spent(1000)
		}
		wait(70 * time.Second)
		time.Sleep(70 * time.Second) //nolint:forbidigo // the time of synctest
		require.NoError(t, c.Request(t.Context()))
		Client{}.Spent(1)
	})
}

// TestFurther: a client with all of its limit left is always served, and a refused request costs nothing.
func TestFurther(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := New(Options{Users: parse(t, "requests=6/h"), Addresses: parse(t, "requests=1/h")}).Client(user("ann"), "")
	require.NoError(t, c.Request(ctx))
	require.NoError(t, c.Further(ctx, 1000))
	isLimited(t, c.Request(ctx), fault.SlugRateLimited, "for this user")
	c = New(Options{Users: parse(t, "requests=6/h")}).Client(user("bob"), "")
	for range 3 {
		require.NoError(t, c.Request(ctx))
	}
	isLimited(t, c.Further(ctx, 4), fault.SlugRateLimited, "for this user")
	require.NoError(t, c.Further(ctx, 3))
	client := New(Options{Addresses: parse(t, "requests=1/h")}).Client(nil, "192.0.2.1:1")
	require.NoError(t, client.Request(ctx))
	require.NoError(t, client.Further(ctx, 1000))
	require.NoError(t, Client{}.Further(ctx, 1))
}

// TestRetryOfFurther: after the error's time, a retry is served, whose request is counted first.
func TestRetryOfFurther(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"requests=60/m", "requests=7/s", "requests=2/m"} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			c := New(Options{Users: parse(t, limit)}).Client(user("ann"), "192.0.2.1:1")
			for _, n := range []int{1, 4, 1000} {
				var err error
				for err == nil {
					err = c.Request(ctx)
				}
				wait := isLimited(t, c.Further(ctx, n), fault.SlugRateLimited, "for this user")
				time.Sleep(wait) //nolint:forbidigo // the time of synctest
				require.NoError(t, c.Request(ctx), "%s: %d", limit, n)
				require.NoError(t, c.Further(ctx, n), "%s: %d", limit, n)
			}
		})
	}
	s := &store{taken: Taken{Retry: time.Minute}}
	c := New(Options{Quotas: parse(t, "requests=60/m"), Store: s}).Client(user("ann"), "")
	require.Equal(t, time.Minute+time.Second, isLimited(t, c.Further(t.Context(), 4), fault.SlugRateLimited, "the quota"))
	require.Equal(t, time.Minute, isLimited(t, c.Request(t.Context()), fault.SlugRateLimited, "the quota"))
}

// TestLimitedNow: a client is listed as limited until a minute after its last refusal.
func TestLimitedNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Users: parse(t, "requests=1/h")})
		refuse := func(name string) {
			client := l.Client(user(name), "192.0.2.1:1")
			for client.Request(t.Context()) == nil { // until the limit
			}
		}
		who := func() (names []string) {
			for _, limited := range l.Limited(time.Now()) {
				names = append(names, limited.Who)
			}
			return names
		}
		require.Empty(t, who())
		refuse("ann")
		time.Sleep(40 * time.Second) //nolint:forbidigo // the time of synctest
		refuse("bob")
		require.Equal(t, []string{"user:bob", "user:ann"}, who())
		time.Sleep(21 * time.Second) //nolint:forbidigo // the time of synctest
		require.Equal(t, []string{"user:bob"}, who())
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		require.Empty(t, who())
	})
}
