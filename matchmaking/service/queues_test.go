package service_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

func TestQueuesThatArePutAndDeletedAtRunTime(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "fixed", `{}`))
		a, b := newService(t, o), newService(t, o)
		background(t, a.Run)
		background(t, b.Run)

		_, created, err := a.PutQueue(t.Context(), "arena", []byte(`{"assigner":{"connection":"one","secret":"s"}}`))
		require.NoError(t, err)
		require.True(t, created)
		first := create(t, b, service.NewTicket{Queue: "arena"}) // at once, on the other server, too
		second := create(t, a, service.NewTicket{Queue: "arena"})
		require.Equal(t, "one", w.requireMatched(t, first.ID, second.ID).Connection)

		d, created, err := b.PutQueue(t.Context(), "arena", []byte(`{"assigner":{"connection":"two","secret":"s"}}`))
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, "two", d.Assigner.Connection)
		require.Equal(t, matchmaking.Hidden, d.Assigner.Secret)
		require.Eventually(t, func() bool {
			x := create(t, a, service.NewTicket{Queue: "arena"})
			y := create(t, a, service.NewTicket{Queue: "arena"})
			return w.requireMatched(t, x.ID, y.ID).Connection == "two"
		}, soon, 5*time.Millisecond)

		waits := create(t, a, service.NewTicket{Queue: "arena"})
		var told *fault.Error
		require.ErrorAs(t, b.DeleteQueue(t.Context(), "arena"), &told)
		require.Equal(t, fault.SlugQueueInUse, told.Slug)
		require.Equal(t, fault.Conflict, told.Kind)
		require.NoError(t, a.Cancel(t.Context(), waits.ID))
		w.emptied(t, "arena")
		require.NoError(t, b.DeleteQueue(t.Context(), "arena"))
		require.NoError(t, b.DeleteQueue(t.Context(), "arena"))
		require.Eventually(t, func() bool { return len(a.Definitions()) == 2 }, soon, 5*time.Millisecond)
		_, err = b.Describe(t.Context(), "arena")
		require.ErrorIs(t, err, matchmaking.ErrNoQueue)
	})
}

// TestShownDefinitionsCanBePutAgain puts what is shown, which has no secrets, and finds the secrets in the store.
func TestShownDefinitionsCanBePutAgain(t *testing.T) {
	t.Parallel()
	const definition = `{"match":{"function":"http","url":"http://127.0.0.1:1/f?key=hush1&b=2"},` +
		`"evaluator":{"kind":"http","url":"http://hush2@127.0.0.1:1/e?hush3"},` +
		`"assigner":{"kind":"webhook","url":"http://user:hush4@127.0.0.1:1/a","secret":"hush5"}}`
	w := newWorld(t)
	o := w.options(t, define(t, "fixed", `{}`))
	a, b := newService(t, o), newService(t, o)
	put := func(s *service.Service, change func(*matchmaking.Definition)) error {
		d, err := s.Describe(t.Context(), "secret")
		require.NoError(t, err)
		change(&d.Definition)
		text, err := json.Marshal(d.Definition)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hush")
		_, _, err = s.PutQueue(t.Context(), "secret", text)
		return err
	}
	_, _, err := a.PutQueue(t.Context(), "secret", []byte(definition))
	require.NoError(t, err)
	require.NoError(t, put(b, func(d *matchmaking.Definition) { d.Match.Teams = 3 }))
	stored, err := w.queues.Definitions(t.Context())
	require.NoError(t, err)
	for _, kept := range []string{
		`"teams":3`, "/f?key=hush1&b=2", "//hush2@127.0.0.1:1/e?hush3", "//user:hush4@127.0.0.1:1/a", `"secret":"hush5"`,
	} {
		require.Contains(t, strings.ReplaceAll(string(stored["secret"]), `\u0026`, "&"), kept)
	}

	// What is hidden goes nowhere else.
	for field, change := range map[string]func(*matchmaking.Definition){
		"match.url":     func(d *matchmaking.Definition) { d.Match.URL = "http://127.0.0.2:1/f?key=xxxxx&b=xxxxx" },
		"evaluator.url": func(d *matchmaking.Definition) { d.Evaluator.URL = "http://xxxxx@127.0.0.2:1/e" },
		"assigner.url":  func(d *matchmaking.Definition) { d.Assigner.URL = "http://user:xxxxx@127.0.0.2:1/a" },
		"assigner.secret": func(d *matchmaking.Definition) {
			d.Assigner.URL = "http://127.0.0.2:1/a"
		},
	} {
		requireInvalidQueue(t, put(b, change), field, "xxxxx stands for")
	}
	_, _, err = b.PutQueue(t.Context(), "other", []byte(`{"assigner":{"secret":"xxxxx"}}`))
	requireInvalidQueue(t, err, "assigner.secret", "none is stored")

	// Secrets can be replaced and removed.
	require.NoError(t, put(a, func(d *matchmaking.Definition) { d.Assigner.Secret = "new" }))
	require.NoError(t, put(b, func(d *matchmaking.Definition) { d.Match.Teams = 2 }))
	stored, err = w.queues.Definitions(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(stored["secret"]), `"secret":"new"`)
	require.NoError(t, put(a, func(d *matchmaking.Definition) { d.Assigner.Secret = "" }))
	stored, err = w.queues.Definitions(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(stored["secret"]), `"secret":""`)
}

func TestQueuesThatCannotBePut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "fixed", `{}`)))
	_, _, err := s.PutQueue(t.Context(), "fixed", []byte(`{}`))
	require.ErrorIs(t, err, matchmaking.ErrQueueFixed)
	require.ErrorIs(t, s.DeleteQueue(t.Context(), "fixed"), matchmaking.ErrQueueFixed)
	for _, c := range []struct{ text, field string }{
		{`{"match":{"teams":0}}`, "match.teams"},
		{`{"ticketTTL":"30m"}`, "ticketTTL"}, // longer than channels live
		{`{"assigner":{"connection":"{"}}`, ""},
		{`{"assigner":{"kind":"webhook","url":"http://127.0.0.1/","secretFile":"/etc/passwd"}}`, "assigner.secretFile"},
		{`{"assigner":{"kind":"agones","url":"http://127.0.0.1/","tokenFile":"/etc/passwd"}}`, "assigner.tokenFile"},
	} {
		_, _, err := s.PutQueue(t.Context(), "q", []byte(c.text))
		requireInvalidQueue(t, err, c.field, "")
	}
	_, _, err = s.PutQueue(t.Context(), "a{b", []byte(`{}`))
	requireInvalidQueue(t, err, "queue", "")

	o := w.options(t, define(t, "q", `{"ticketTTL":"30m"}`))
	_, err = service.New(o)
	requireInvalidQueue(t, err, "ticketTTL", "30m")
}

func TestTheDefaultQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t))
	background(t, s.Run)
	first := create(t, s, service.NewTicket{})
	require.Equal(t, matchmaking.DefaultQueue, first.Queue)
	second := create(t, s, service.NewTicket{Queue: "default"})
	require.Empty(t, w.requireMatched(t, first.ID, second.ID).Connection)
	w.emptied(t, "default")

	_, created, err := s.PutQueue(t.Context(), "default", []byte(`{"ticketTTL":"1m"}`))
	require.NoError(t, err)
	require.True(t, created)
	d, err := s.Describe(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, time.Minute, d.Definition.TicketTTL.Std())
	require.NoError(t, s.DeleteQueue(t.Context(), "default"))
	d, err = s.Describe(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, matchmaking.DefaultTicketTTL, d.Definition.TicketTTL.Std())
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "q", `{}`)))
	var waiting []*matchmaking.Ticket
	walk := func(queue string) error {
		return s.Waiting(t.Context(), matchmaking.WaitingRequest{Queue: queue}, func(some []*matchmaking.Ticket) error {
			waiting = append(waiting, some...)
			return nil
		})
	}
	require.ErrorIs(t, walk("none"), matchmaking.ErrNoQueue)
	first := create(t, s, service.NewTicket{Queue: "q"})
	second := create(t, s, service.NewTicket{Queue: "q"})
	require.NoError(t, walk("q"))
	require.Len(t, waiting, 2)
	require.Equal(t, []string{first.ID, second.ID}, []string{waiting[0].ID, waiting[1].ID})
	d, err := s.Describe(t.Context(), "q")
	require.NoError(t, err)
	require.Equal(t, 2, d.Searching)
	require.False(t, d.Directed)
	require.Positive(t, d.OldestWait)
}

// TestQueuesSayWhetherTheyWerePut at run time, on the server that they were put on and on others.
func TestQueuesSayWhetherTheyWerePut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var built sync.Map
	o := w.options(t, define(t, "configured", `{}`))
	o.Build = func(d matchmaking.Definition) (matchmaking.Parts, error) {
		built.Store(d.Name, d.RunTime)
		return build(d)
	}
	s := newService(t, o)
	_, _, err := s.PutQueue(t.Context(), "put", []byte(`{}`))
	require.NoError(t, err)
	for name, want := range map[string]bool{"configured": false, "put": true} {
		runTime, _ := built.Load(name)
		require.Equal(t, want, runTime, name)
	}
	built.Clear()
	another := newService(t, o)
	background(t, another.Run)
	create(t, another, service.NewTicket{Queue: "put"})
	require.Eventually(t, func() bool {
		runTime, ok := built.Load("put")
		return ok && runTime == true
	}, soon, 5*time.Millisecond)
}

func requireInvalidQueue(t *testing.T, err error, field, detail string) {
	t.Helper()
	var told *fault.Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, fault.Invalid, told.Kind)
	require.Equal(t, fault.SlugInvalidQueue, told.Slug)
	require.Equal(t, field, told.Field)
	require.Contains(t, told.Detail, detail)
}
