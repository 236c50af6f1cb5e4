package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestUnknownQueues checks that unknown queues are looked up in the store: concurrent calls share one read, and reads
// are missRefresh apart.
func TestUnknownQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.service(t, nil)
		ask := func(name string, want error) {
			_, err := s.Describe(t.Context(), name)
			require.ErrorIs(t, err, want)
		}
		ask("later", matchmaking.ErrNoQueue)
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() { ask("later", matchmaking.ErrNoQueue) })
		}
		asking.Wait()
		require.Equal(t, 2, m.reads)
		m.definitions["later"] = []byte(`{}`)
		asked := time.Now()
		ask("later", nil)
		require.Equal(t, missRefresh, time.Since(asked))
		require.Equal(t, 3, m.reads)
		ask("later", nil)
		ask("no name{", matchmaking.ErrNoQueue)
		require.Equal(t, 3, m.reads, "neither a known nor an invalid name is looked for")
	})
}

// TestUnknownQueueDuringARead checks that a new queue is found although an earlier read is still in progress.
func TestUnknownQueueDuringARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := m.service(t, nil)
		reading := make(chan struct{})
		m.read = func() { <-reading }
		errs := make(chan error, 1)
		ask := func() {
			_, err := s.Describe(t.Context(), "later")
			errs <- err
		}
		go ask()
		synctest.Wait()
		m.definitions["later"] = []byte(`{}`)
		go ask()
		synctest.Wait()
		reading <- struct{}{}
		require.ErrorIs(t, <-errs, matchmaking.ErrNoQueue)
		reading <- struct{}{}
		require.NoError(t, <-errs)
	})
}

// TestRefresh checks that only queues with a changed definition are replaced.
func TestRefresh(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.definitions["same"], m.definitions["changes"], m.definitions["goes"] = []byte(`{}`), []byte(`{}`), []byte(`{}`)
	r := m.service(t, map[string]string{"fixed": `{"heartbeat":"1s"}`}).registry
	require.NoError(t, r.refresh(t.Context()))
	before := r.all()
	require.True(t, before["same"].RunTime)
	require.False(t, before["fixed"].RunTime)
	require.True(t, r.hasHeartbeats())
	<-r.changed

	m.definitions["changes"], m.definitions["fixed"] = []byte(`{"maxTickets":1}`), []byte(`{"maxTickets":1}`)
	delete(m.definitions, "goes")
	require.NoError(t, r.refresh(t.Context()))
	<-r.changed
	after := r.all()
	require.Len(t, after, 4)
	for name, isOver := range map[string]bool{"same": false, "fixed": false, "default": false, "changes": true,
		"goes": true} {
		require.Equal(t, isOver, before[name] != after[name], name)
		select {
		case <-before[name].replaced:
			require.True(t, isOver, name)
		default:
			require.False(t, isOver, name)
		}
	}
	require.Equal(t, 1, after["changes"].MaxTickets)
	require.NoError(t, r.refresh(t.Context()))
	require.Empty(t, r.changed)
}

// TestRedefine replaces the queues of the configuration. Those that were put, and those that haven't changed, stay.
func TestRedefine(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.definitions["put"], m.definitions["hidden"], m.definitions["taken"] = []byte(`{}`), []byte(`{}`), []byte(`{}`)
	s := m.service(t, map[string]string{"same": `{}`, "changes": `{}`, "goes": `{}`, "hidden": `{"maxTickets":7}`})
	r := s.registry
	require.NoError(t, r.refresh(t.Context()))
	before := r.all()
	_, err := s.Redefine([]matchmaking.Definition{parse(t, "same", `{}`), parse(t, "long", `{"ticketTTL":"1h"}`)}, 9)
	require.ErrorContains(t, err, "queue long: ticketTTL")
	require.Equal(t, before, r.all())

	change, err := s.Redefine([]matchmaking.Definition{parse(t, "same", `{}`), parse(t, "new", `{}`),
		parse(t, "changes", `{"maxTickets":1}`), parse(t, "taken", `{}`)}, 9)
	require.NoError(t, err)
	change()
	<-r.changed
	require.NoError(t, r.refresh(t.Context()))
	after := r.all()
	for name, isOver := range map[string]bool{"same": false, "put": false, "default": false, "changes": true,
		"goes": true, "hidden": true, "taken": true} {
		require.Equal(t, isOver, before[name] != after[name], name)
		if isOver {
			<-before[name].replaced
		}
	}
	require.Nil(t, after["goes"])
	require.True(t, after["hidden"].RunTime, "the definition that was put applies again")
	require.False(t, after["taken"].RunTime)
	require.Equal(t, 5, r.room())
	_, _, err = s.PutQueue(t.Context(), parse(t, "new", `{}`))
	require.ErrorIs(t, err, matchmaking.ErrQueueFixed)
	_, _, err = s.PutQueue(t.Context(), parse(t, "goes", `{}`))
	require.NoError(t, err)
}

// TestStoredDefinitionsThatAreInvalid covers invalid definitions, such as those of a later version of the service.
func TestStoredDefinitionsThatAreInvalid(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := newMemory()
	m.definitions["new"] = []byte(`{"teleport":true}`)
	o := m.options(t, nil)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, err := New(o)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.registry.refresh(t.Context()))
	}
	require.NotContains(t, s.registry.all(), "new")
	require.Equal(t, 1, strings.Count(log.String(), "stored queue definition is invalid"))
}

func TestDefaultQueue(t *testing.T) {
	t.Parallel()
	s := newMemory().service(t, nil)
	ttl := func() time.Duration {
		d, err := s.Describe(t.Context(), matchmaking.DefaultQueue)
		require.NoError(t, err)
		return d.Definition.TicketTTL.Std()
	}
	_, created, err := s.PutQueue(t.Context(), parse(t, "default", `{"ticketTTL":"1m"}`))
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, time.Minute, ttl())
	require.NoError(t, s.DeleteQueue(t.Context(), "default"))
	require.Equal(t, matchmaking.DefaultTicketTTL, ttl())
}

func TestMaxQueues(t *testing.T) {
	t.Parallel()
	m := newMemory()
	o := m.options(t, map[string]string{"one": `{}`, "two": `{}`})
	o.MaxQueues = 3
	s, err := New(o)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		want error
	}{{"three", nil}, {"four", matchmaking.ErrTooManyQueues}, {"three", nil}} {
		_, _, err := s.PutQueue(t.Context(), parse(t, c.name, `{}`))
		require.ErrorIs(t, err, c.want)
	}
	require.NoError(t, s.DeleteQueue(t.Context(), "three"))
	_, _, err = s.PutQueue(t.Context(), parse(t, "four", `{}`))
	require.NoError(t, err)
}

func TestDeleteQueueThatIsNotEmpty(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := m.service(t, nil)
	_, _, err := s.PutQueue(t.Context(), parse(t, "duel", `{}`))
	require.NoError(t, err)
	for _, state := range []matchmaking.QueueState{{Searching: 1}, {Pending: 1}, {Outgoing: 1}} {
		m.describe = func() matchmaking.QueueState { return state }
		var clientErr *fault.Error
		require.ErrorAs(t, s.DeleteQueue(t.Context(), "duel"), &clientErr)
		require.Equal(t, fault.SlugQueueInUse, clientErr.Slug)
	}
	m.describe = func() matchmaking.QueueState { return matchmaking.QueueState{} }
	for range 2 {
		require.NoError(t, s.DeleteQueue(t.Context(), "duel"))
	}
}

func TestQueuesThatCannotBePut(t *testing.T) {
	t.Parallel()
	m := newMemory()
	o := m.options(t, map[string]string{"fixed": `{}`})
	o.Build = func(d matchmaking.Definition) (matchmaking.Parts, error) {
		require.Equal(t, d.Name != "fixed", d.RunTime, "so that it calls only what the operator allows")
		if d.Assigner.Connection == "{" {
			return matchmaking.Parts{}, errors.New("unclosed brace")
		}
		return matchmaking.Parts{}, nil
	}
	s, err := New(o)
	require.NoError(t, err)
	_, _, err = s.PutQueue(t.Context(), parse(t, "fixed", `{}`))
	require.ErrorIs(t, err, matchmaking.ErrQueueFixed)
	require.ErrorIs(t, s.DeleteQueue(t.Context(), "fixed"), matchmaking.ErrQueueFixed)
	for _, c := range []struct{ name, text, field, detail string }{
		{"q", `{"match":{"teams":0}}`, "match.teams", "must be positive"},
		{"q", `{"ticketTTL":"30m"}`, "ticketTTL", "must be at most 30m0s, the life of channels, not 31m0s"},
		{"q", `{"assigner":{"connection":"{"}}`, "", "can't be built: unclosed brace"},
		{"q", `{"assigner":{"kind":"webhook","url":"http://127.0.0.1/","secretFile":"/etc/passwd"}}`,
			"assigner.secretFile", "only the configuration"},
		{"q", `{"assigner":{"kind":"agones","url":"http://127.0.0.1/","tokenFile":"/etc/passwd"}}`,
			"assigner.tokenFile", "only the configuration"},
		{"a{b", `{}`, "queue", "must match"},
	} {
		d, err := matchmaking.ParseDefinition(c.name, []byte(c.text))
		if err == nil {
			_, _, err = s.PutQueue(t.Context(), d)
		}
		requireInvalidQueue(t, err, c.field, c.detail)
	}
	for _, quiet := range []string{`{"channel":false,"ticketTTL":"30m"}`, `{"director":"user","ticketTTL":"none"}`} {
		_, err = New(m.options(t, map[string]string{"q": quiet}))
		require.NoError(t, err, "its tickets have no channels")
	}
	_, err = New(m.options(t, map[string]string{"q": `{"director":"user","channel":true,"ticketTTL":"none"}`}))
	requireInvalidQueue(t, err, "ticketTTL", "must be at most 30m0s")
	_, err = New(m.options(t, map[string]string{"q": `{"ticketTTL":"30m"}`}))
	requireInvalidQueue(t, err, "ticketTTL", "must be at most 30m0s")
}

func requireInvalidQueue(t *testing.T, err error, field, detail string) {
	t.Helper()
	var clientErr *fault.Error
	require.ErrorAs(t, err, &clientErr)
	require.Equal(t, fault.SlugInvalidQueue, clientErr.Slug)
	require.Equal(t, field, clientErr.Field)
	require.Contains(t, clientErr.Detail, detail)
}

// TestShownDefinitionsCanBePutAgain puts the output form, which has no secrets, and checks that the stored secrets are
// used.
func TestShownDefinitionsCanBePutAgain(t *testing.T) {
	t.Parallel()
	const definition = `{"match":{"function":"http","url":"http://127.0.0.1:1/f?key=hush1&b=2"},` +
		`"evaluator":{"kind":"http","url":"http://hush2@127.0.0.1:1/e?hush3"},` +
		`"assigner":{"kind":"webhook","url":"http://user:hush4@127.0.0.1:1/a","secret":"hush5"}}`
	m := newMemory()
	a, b := m.service(t, nil), m.service(t, nil)
	put := func(s *Service, change func(*matchmaking.Definition)) error {
		d, err := s.Describe(t.Context(), "secret")
		require.NoError(t, err)
		change(&d.Definition)
		text, err := json.Marshal(d.Definition)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hush")
		_, _, err = s.PutQueue(t.Context(), parse(t, "secret", string(text)))
		return err
	}
	stored := func() matchmaking.Definition { return parse(t, "secret", string(m.definitions["secret"])) }
	_, _, err := a.PutQueue(t.Context(), parse(t, "secret", definition))
	require.NoError(t, err)
	require.NoError(t, put(b, func(d *matchmaking.Definition) { d.Match.Teams = 3 }))
	want := parse(t, "secret", definition)
	want.Match.Teams = 3
	require.Equal(t, want, stored())

	// A hidden secret is sent to no other URL.
	for field, change := range map[string]func(*matchmaking.Definition){
		"match.url":       func(d *matchmaking.Definition) { d.Match.URL = "http://127.0.0.2:1/f?key=xxxxx&b=xxxxx" },
		"evaluator.url":   func(d *matchmaking.Definition) { d.Evaluator.URL = "http://xxxxx@127.0.0.2:1/e" },
		"assigner.url":    func(d *matchmaking.Definition) { d.Assigner.URL = "http://user:xxxxx@127.0.0.2:1/a" },
		"assigner.secret": func(d *matchmaking.Definition) { d.Assigner.URL = "http://127.0.0.2:1/a" },
	} {
		requireInvalidQueue(t, put(b, change), field, "xxxxx stands for")
	}
	_, _, err = b.PutQueue(t.Context(), parse(t, "other", `{"assigner":{"secret":"xxxxx"}}`))
	requireInvalidQueue(t, err, "assigner.secret", "none is stored")

	for _, secret := range []string{"new", ""} { // they can be replaced and removed
		require.NoError(t, put(a, func(d *matchmaking.Definition) { d.Assigner.Secret = secret }))
		require.Equal(t, secret, stored().Assigner.Secret)
	}
}

func TestMatchRateAndWaits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	matches := func(n int, every time.Duration) []matchmaking.RecentMatch {
		list := make([]matchmaking.RecentMatch, n)
		for i := range list {
			list[i] = matchmaking.RecentMatch{At: now.Add(-every * time.Duration(n-i)),
				Waits: []time.Duration{time.Duration(i+1) * time.Second}}
		}
		return list
	}
	for _, c := range []struct {
		recent []matchmaking.RecentMatch
		want   float64
	}{
		{nil, 0},
		{matches(6, time.Second), 0.1},
		{matches(200, time.Second), 59.0 / 60},
		// all of them in the last ten seconds: there may have been more
		{matches(fullRecent, 10*time.Millisecond), 100},
	} {
		require.InDelta(t, c.want, matchRate(c.recent, now), 1e-9)
	}
	p50, p90, p99 := waitPercentiles(matches(100, 1))
	require.Equal(t, []time.Duration{50 * time.Second, 90 * time.Second, 99 * time.Second},
		[]time.Duration{p50, p90, p99})
	p50, p90, p99 = waitPercentiles(nil)
	require.Zero(t, p50+p90+p99)
}
