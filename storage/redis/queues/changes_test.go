package queues

import (
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// A follower advances only by notifications that directly follow its position. The stream is read after any other,
// except one of old changes.
func TestNotificationsOfChanges(t *testing.T) {
	t.Parallel()
	const (
		a  = "7-5 7-5/a a 0 -1 "
		bc = "7-6 7-7/c b 0 -2 c 9000 12 S1 2 3 4 a  "
		d  = "7-8 7-8/d d 0 -1 "
	)
	all := []string{"-a", "+b", "c", "-d"}
	for name, test := range map[string]struct {
		texts    []string
		notified []string
		after    string
		missing  bool
	}{
		"none":              {nil, nil, "7-4/z", false},
		"in order":          {[]string{a, bc, d}, all, "7-8/d", false},
		"twice":             {[]string{a, a, bc, a, bc, d, d}, all, "7-8/d", false},
		"one is lost":       {[]string{a, d}, all[:1], "7-5/a", true},
		"the first is lost": {[]string{bc, d}, nil, "7-4/z", true},
		"one is overtaken":  {[]string{a, d, bc}, all[:1], "7-5/a", true},
		"old ones are late": {[]string{"7-2 7-3/y x 0 -1 y 0 -1 ", "7-4 7-4/z z 0 -1 ", a}, all[:1], "7-5/a",
			false},
		"one overlaps":             {[]string{a, "7-5 7-6/b a 0 -1 b 0 -2 "}, all[:1], "7-5/a", true},
		"one is cut":               {[]string{a, bc[:len(bc)-1]}, all[:1], "7-5/a", true},
		"one lacks a change":       {[]string{a, "7-6 7-7/c b 0 -2 "}, all[:1], "7-5/a", true},
		"one has a change more":    {[]string{a, "7-6 7-6/b b 0 -2 c 0 -1 "}, all[:1], "7-5/a", true},
		"one has no changes":       {[]string{a, "7-6 7-7/c "}, all[:1], "7-5/a", true},
		"one has no point":         {[]string{a, "free"}, all[:1], "7-5/a", true},
		"a point can't be read":    {[]string{a, "7-6 x b 0 -1 "}, all[:1], "7-5/a", true},
		"a ticket can't be read":   {[]string{a, "7-6 7-6/c c 9000 5 what?"}, all[:1], "7-5/a", true},
		"an expiry can't be read":  {[]string{a, "7-6 7-6/c c x 12 S1 2 3 4 a  "}, all[:1], "7-5/a", true},
		"a later director's first": {[]string{a, "8-6 8-6/b b 0 -1 "}, all[:1], "7-5/a", true},
		"of a new, older stream":   {[]string{a, "6-6 6-6/b b 0 -1 "}, all[:1], "7-5/a", true},
	} {
		f := newFollower(nil, matchmaking.ChangesRequest{After: "7-4/z"})
		changes, missing := f.apply(test.texts)
		require.Equal(t, test.notified, queuetest.ShortForm(changes), name)
		require.Equal(t, test.after, f.request.After, name)
		require.Equal(t, test.missing, missing, name)
	}
}

// While a queue has a director, its changes are in its notifications: the director reads nothing.
func TestNotifiedChangesAreNotRead(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	h := newHall(t, m.Conn, m.Node.Client())
	h.Add(t, "a", "b")
	h.Hold(t, "rival.1", "a")
	require.NoError(t, h.Lead(t.Context(), "boss", time.Hour))
	f := newFollower(h.store, matchmaking.ChangesRequest{Queue: h.Name, After: h.Whole(t).After, Limit: 10})
	f.trimmed = time.Now().Add(time.Hour) // trimming is a command, too
	listeners := f.listeners()
	confirmed := make(chan struct{}, 100)
	for topic, l := range listeners {
		record := l.Confirmed
		l.Confirmed = func() {
			record()
			confirmed <- struct{}{}
		}
		t.Cleanup(m.Conn.Listen(topic, l))
	}
	for range listeners {
		<-confirmed
	}
	next := func() (found []string, sent [][]string) {
		before := m.Tap.Count()
		for len(found) == 0 {
			c, err := f.Next(t.Context(), time.Hour)
			require.NoError(t, err)
			found = queuetest.ShortForm(c.Changes)
		}
		return found, m.Tap.Sent(before)
	}
	h.Add(t, "first")
	found, _ := next() // it reads once, since its subscriptions are confirmed
	require.Equal(t, []string{"first"}, found)
	undone := h.Request("undone")
	for _, step := range []struct {
		notified string
		do       func() error
	}{
		{"+a", func() error { return h.Release(t.Context(), h.Name, "rival.1", []string{"a"}) }},
		{"-a", func() error { return h.CancelID(t.Context(), "a") }},
		{"undone", func() error { return storagetest.ErrorOf2(h.Create(t.Context(), undone)) }},
		{"-undone", func() error {
			return storagetest.ErrorOf(h.Undo(t.Context(), h.Name, undone.ID, undone.Attempt))
		}},
	} {
		require.NoError(t, step.do())
		found, sent := next()
		require.Equal(t, []string{step.notified}, found)
		require.Empty(t, sent, step.notified)
	}
}

// A notification contains no ticket of more than 16 KiB, and at most 64 KiB in total.
func TestNotificationsOfChangesAreBounded(t *testing.T) {
	t.Parallel()
	conn, node := storetest.Standalone(t)
	h := newHall(t, conn, node.Client())
	h.Add(t, "a")
	require.NoError(t, h.Lead(t.Context(), "boss", time.Hour))
	texts, confirmed := make(chan string, 10), make(chan struct{})
	t.Cleanup(conn.Listen(h.k().feed(), pubsub.Listener{Confirmed: func() { close(confirmed) },
		Message: func(text string) { texts <- text }}))
	<-confirmed
	for _, test := range []struct {
		tickets, bytes int
		whole          bool
	}{{1, 15_000, true}, {1, 17_000, false}, {4, 15_000, true}, {5, 15_000, false}} {
		all := make([]*creation, test.tickets)
		for i := range all {
			all[i] = &creation{CreateRequest: h.Request(ulid.Make().String()), spec: strings.Repeat("x", test.bytes)}
		}
		_, _, err := h.store.createAll(t.Context(), h.Name, all)
		require.NoError(t, err)
		require.Equal(t, test.whole, <-texts != "", test)
	}
}

// Changes that are missing from notifications are read with the next one, without a delay.
func TestLostNotificationsOfChanges(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.Add(t, "a")
		require.NoError(t, h.Lead(t.Context(), "boss", time.Hour))
		f := h.Follow(matchmaking.ChangesRequest{Queue: h.Name, After: h.Whole(t).After, Limit: 10})
		t.Cleanup(f.Stop)
		next := func(n int) (all []matchmaking.Change) {
			for len(all) < n {
				found, err := f.Next(t.Context(), time.Hour)
				require.NoError(t, err)
				all = append(all, found.Changes...)
			}
			return all
		}
		h.Add(t, "b")
		require.Equal(t, []string{"b"}, queuetest.ShortForm(next(1)))
		for _, id := range []string{"c", "d"} {
			require.NoError(t, h.do(t, "XADD", h.k().changes(), "*", "id", id).Error(), "nobody is notified of it")
		}
		h.Add(t, "e")
		require.Equal(t, []string{"-c", "-d", "e"}, queuetest.ShortForm(next(3)))

		// A fail-over, which interrupts the subscription, has lost the last change. Its entry ID now belongs to
		// another ticket.
		point := h.Whole(t).After
		entry, _, _ := strings.Cut(point, "/")
		f.(*follower).inbox.Interrupted(nil)
		require.NoError(t, h.do(t, "DEL", h.k().changes()).Error())
		require.NoError(t, h.do(t, "XADD", h.k().changes(), entry, "id", "x").Error())
		h.Add(t, "f")
		require.NoError(t, h.CancelID(t.Context(), "f"))
		_, err := f.Next(t.Context(), time.Hour)
		require.ErrorIs(t, err, matchmaking.ErrChangesLost)
	})
}
