package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

var errDial = errors.New("no connection")

// sentinels returns a function that connects to a Sentinel, all of whose connections fail, and one that ends them.
func sentinels(address string) (dial func(to string) error, stop func()) {
	refuse := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, errDial }
	o, stop := spaceSentinels(rueidis.ClientOption{
		InitAddress: []string{address}, Sentinel: rueidis.SentinelOption{MasterSet: "primary"}, DialCtxFn: refuse,
	})
	return func(to string) error {
		_, err := o.DialCtxFn(context.Background(), to, nil, nil)
		return err
	}, stop
}

// An outage has few connections to a Sentinel however long it takes, and its end is noticed soon.
func TestConnectionsToSentinelsAreSpaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, _ := sentinels("a:26379")
		for length, limits := range map[time.Duration]struct {
			dials int
			wait  time.Duration // of one connection
		}{
			10 * time.Second: {110, 200 * time.Millisecond},
			time.Hour:        {1100, 5 * time.Second},
		} {
			dials, longest := 0, time.Duration(0)
			for began := time.Now(); time.Since(began) < length; dials++ {
				before := time.Now()
				require.ErrorIs(t, dial("a:26379"), errDial)
				require.ErrorIs(t, dial("primary:6379"), errDial)
				longest = max(longest, time.Since(before))
			}
			require.LessOrEqual(t, longest, limits.wait)
			require.LessOrEqual(t, dials, limits.dials)
			<-time.After(2 * sentinelCalm)
		}
	})
}

// Whoever closes the clients isn't held up by a connection that waits.
func TestConnectionsToSentinelsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, stop := sentinels("a:26379")
		for range sentinelBurst {
			require.ErrorIs(t, dial("a:26379"), errDial)
		}
		ended := make(chan error)
		go func() { ended <- dial("a:26379") }()
		synctest.Wait()
		began := time.Now()
		stop()
		require.ErrorIs(t, <-ended, net.ErrClosed)
		require.Zero(t, time.Since(began))
	})
}

// Sentinels that refuse to be asked are connected to again at a bounded rate.
func TestSentinelsThatRefuse(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t, redistest.Options{})
	o, err := Options{
		URL: strings.Join(group.Addrs(), ","), Sentinel: Sentinel{Master: redistest.MasterName}, Timeout: DefaultTimeout,
	}.client()
	require.NoError(t, err)
	asked := make(chan struct{}, 1000)
	dialed := o.DialCtxFn
	o.DialCtxFn = func(c context.Context, to string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		if to == group.Addrs()[0] {
			asked <- struct{}{}
		}
		return dialed(c, to, d, config)
	}
	o, stop := spaceSentinels(o)
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	defer client.Close()
	defer stop()
	for _, n := range group.Sentinels() {
		require.NoError(t, n.Do(t, "ACL", "SETUSER", "default", "-subscribe", "-sentinel").Error())
		require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub").Error())
	}
	began := time.Now()
	for range 1 + 2*sentinelBurst { // one of them is the client's first
		<-asked
	}
	require.GreaterOrEqual(t, time.Since(began), sentinelBurst*minSentinelWait)
}
