package places_test

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/places"
)

// conn is a connection that reports when it is closed.
type conn struct {
	net.Conn
	from   string // its client
	closed bool
}

func (c *conn) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.from} }

func (c *conn) Close() error {
	c.closed = true
	return nil
}

// TestWhoGivesWay fills a limit with connections of each kind, and opens others.
func TestWhoGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, requireOrder)
}

func requireOrder(t *testing.T) {
	t.Helper()
	gaveWay, refused := 0, 0
	limit := places.New(5, nil, func(evicted bool) {
		if evicted {
			gaveWay++
		} else {
			refused++
		}
	})
	conns, taken := map[string]*conn{}, map[string]*places.Place{}
	open := func(name string) *places.Place {
		conns[name] = &conn{}
		taken[name] = limit.Take(conns[name])
		return taken[name]
	}
	open("known").Begin(true)
	taken["known"].End()
	open("busy").Begin(true)
	open("waits").Begin(false)
	open("old")
	require.Zero(t, gaveWay)
	require.False(t, taken["old"].Wanted(false), "there is room")
	open("new")
	require.True(t, taken["old"].Wanted(false))
	require.False(t, taken["known"].Wanted(false))
	require.False(t, taken["old"].Wanted(true))

	for i, step := range []struct{ opened, closed string }{
		{"a", "old"}, {"b", "new"}, {"c", "a"}, {"d", "b"},
	} {
		require.NotNil(t, open(step.opened), step.opened)
		require.True(t, conns[step.closed].closed, "%s gives way to %s", step.closed, step.opened)
		require.Equal(t, i+1, gaveWay)
		require.Equal(t, 5, limit.Open())
	}
	taken["c"].Begin(false)
	taken["d"].Begin(true)
	<-time.After(places.Rest)
	require.NotNil(t, open("e"))
	require.True(t, conns["known"].closed, "it isn't in use, and no connection without a credential gives way")
	taken["e"].Begin(false)
	require.Nil(t, open("f"), "all are in use")
	require.Equal(t, 1, refused)
	taken["waits"].End()
	require.Nil(t, open("f"), "its client may be sending the next request")
	require.Equal(t, 2, refused)
	<-time.After(places.Rest)
	require.NotNil(t, open("f"))
	require.True(t, conns["waits"].closed)

	taken["old"].Release() // its owner finds it closed
	require.Equal(t, 5, limit.Open())
	taken["f"].Release()
	taken["f"].Release()
	require.Equal(t, 4, limit.Open())
	require.NotNil(t, open("g"))
	for _, name := range []string{"busy", "c", "d", "e", "f", "g"} {
		require.False(t, conns[name].closed, name)
	}
}

// TestRequestsDontBeginOnClosedConnections opens a connection while a request begins on the one that would give way:
// either the request begins and the connection stays, or the connection is closed and no request begins.
func TestRequestsDontBeginOnClosedConnections(t *testing.T) {
	t.Parallel()
	for range 2000 {
		limit := places.New(1, nil, nil)
		first := &conn{}
		place := limit.Take(first)
		start, began := make(chan struct{}), make(chan bool)
		go func() {
			<-start
			began <- place.Begin(true)
		}()
		close(start)
		second := limit.Take(&conn{})
		held := <-began
		require.Equal(t, held, second == nil)
		require.Equal(t, held, !first.closed)
		require.Equal(t, held, place.Begin(false), "again")
		place.End()
		require.Equal(t, 1, limit.Open())
	}
	var none *places.Place
	require.True(t, none.Begin(true))
	none.MarkKnown()
}

// TestKnownPlaces: the connection on which a credential was accepted gives way last, whether or not it has a request.
func TestKnownPlaces(t *testing.T) {
	t.Parallel()
	limit := places.New(2, nil, nil)
	known, other := &conn{}, &conn{}
	limit.Take(known).MarkKnown()
	limit.Take(other)
	require.NotNil(t, limit.Take(&conn{}))
	require.True(t, other.closed)
	require.False(t, known.closed)
}

// TestUsedConnectionsStay: while many connections come, those with requests stay, however long they have been open.
func TestUsedConnectionsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, requireUsedStay)
}

func requireUsedStay(t *testing.T) {
	t.Helper()
	limit := places.New(10, nil, nil)
	request := func(p *places.Place) {
		require.True(t, p.Begin(true))
		p.End()
	}
	used := &conn{}
	place := limit.Take(used)
	var others []*conn
	for range 100 {
		request(place)
		others = append(others, &conn{})
		request(limit.Take(others[len(others)-1]))
		<-time.After(places.Rest / 5)
	}
	require.False(t, used.closed)
	for i, other := range others[:len(others)-15] {
		require.True(t, other.closed, i)
	}
}

// TestPlacesOfOthers: a client doesn't take the place of one with fewer connections.
func TestPlacesOfOthers(t *testing.T) {
	t.Parallel()
	limit := places.New(4, func(a net.Addr) string { return strings.Trim(a.String(), "0123456789") }, nil)
	conns, taken := map[string]*conn{}, map[string]*places.Place{}
	open := func(name string) *places.Place {
		conns[name] = &conn{from: name}
		taken[name] = limit.Take(conns[name])
		return taken[name]
	}
	for _, name := range []string{"a1", "b1", "b2", "3"} { // 3 is a proxy's
		open(name)
	}
	for _, step := range []struct{ opened, closed string }{
		{"greedy1", "a1"}, {"greedy2", "b1"}, {"greedy3", "greedy1"}, {"4", "b2"}, {"b3", "3"},
	} {
		require.NotNil(t, open(step.opened), step.opened)
		require.True(t, conns[step.closed].closed, "%s gives way to %s", step.closed, step.opened)
	}
	taken["greedy2"].Begin(true)
	taken["greedy3"].Begin(true)
	require.Nil(t, open("greedy5"))
	for _, name := range []string{"greedy2", "greedy3", "4", "b3"} {
		require.False(t, conns[name].closed, name)
		taken[name].Release()
	}
	for _, name := range []string{"b5", "greedy6", "greedy7", "greedy8"} {
		require.NotNil(t, open(name), "places that are free again")
	}
	require.NotNil(t, open("greedy9"))
	require.False(t, conns["b5"].closed)
}

// TestScarcePlaces: while few places are free, all connections are closed after an answer.
func TestScarcePlaces(t *testing.T) {
	t.Parallel()
	limit := places.New(32, nil, nil)
	var idle []*places.Place
	for range 31 {
		idle = append(idle, limit.Take(&conn{}))
	}
	place := limit.Take(&conn{})
	require.True(t, place.Begin(true))
	require.False(t, place.Wanted(true), "others give way first")
	for _, p := range append(idle, place) {
		p.Release()
	}
	for open := range 32 {
		place := limit.Take(&conn{})
		require.True(t, place.Begin(true))
		require.Equal(t, open >= 30, place.Wanted(true), open)
	}
}

// TestNoLimit: connections are counted, and none gives way.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	limit := places.New(0, nil, nil)
	for range 10 {
		place := limit.Take(&conn{})
		require.False(t, place.Wanted(false))
	}
	require.Equal(t, 10, limit.Open())
}
