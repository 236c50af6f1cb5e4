package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

var rules = sessions.Rules{TTL: 100 * time.Hour, PerUser: sessions.MaxPerUser}

func ref(n int) sessions.Ref { return sessions.Ref{User: "ann", ID: fmt.Sprintf("%064x", n)} }

func (h sessionsHarness) create(t testing.TB, n int) {
	t.Helper()
	d := sessions.Draft{Ref: ref(n), New: sessions.New{Username: "Ann", Device: []byte(`{"a":1}`),
		AuthData: []byte(`[]`)}}
	require.NoError(t, storagetest.ErrorOf(h.store.Create(t.Context(), d, rules)))
}

// calls are all operations on the existing session, the last ones ending it.
func (h sessionsHarness) calls() []storetest.Call {
	return []storetest.Call{
		{Name: "check",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.store.Check(ctx, ref(1), rules)) }},
		{Name: "list", Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.store.List(ctx, "ann")) }},
		{Name: "rotate", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.store.Rotate(ctx, ref(1), ref(2).ID, rules))
		}},
		{Name: "create", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(
				h.store.Create(ctx, sessions.Draft{Ref: ref(3), New: sessions.New{Username: "Ann"}}, rules))
		}},
		{Name: "revoke", Do: func(ctx context.Context) error { return h.store.Revoke(ctx, ref(2)) }},
		{Name: "revokeall",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.store.RevokeAll(ctx, "ann")) }},
	}
}

func TestSessionsPage(t *testing.T) {
	t.Parallel()
	const heading = "## Sessions"
	scripts, rows := luatest.Scripts(t, "records/sessions"), storetest.KeyRows(t, "records", heading)
	session, set := records.SessionKind.Key("<user>", "<hash>"), records.UserSessionsKind.Key("<user>")
	require.Equal(t, []string{session, set}, []string{rows[0].Key, rows[1].Key})
	storetest.RequireScripts(t, "records", scripts)
	storetest.RequireUses(t, rows, scripts, map[string][]string{
		"session": {session}, "next": {session}, "base": {session}, "sessions": {set},
	})
}

func TestSessionsScripts(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "records/sessions")
	storetest.RequireStatuses(t, "sessions.go", scripts)
}

// TestKeysOfASession: the fields are those of Discours.io, and no key or field contains the token.
func TestKeysOfASession(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := sessionsHarness{NewSessions(l.Conn)}
	h.create(t, 1)
	require.Equal(t, []string{"session:{ann}:" + ref(1).ID, "user_sessions:{ann}"}, l.Found(t))
	fields, err := l.Node.Do(t, "HGETALL", h.store.key(ref(1))).AsStrMap()
	require.NoError(t, err)
	require.Regexp(t, `^1\d{9}$`, fields["created_at"])
	require.Equal(t, map[string]string{
		"user_id": "ann", "username": "Ann", "token_type": "session", "created_at": fields["created_at"],
		"last_activity": fields["created_at"],
		"device_info":   `{"a":1}`, "auth_data": `[]`,
	}, fields)
	require.Equal(t, ref(1).ID, l.Value(t, "user_sessions:{ann}"))
	require.NoError(t, storagetest.ErrorOf(h.store.Rotate(t.Context(), ref(1), ref(2).ID, rules)))
	require.Equal(t, ref(2).ID, l.Value(t, "user_sessions:{ann}"))
}

// TestTheSetOutlivesItsSessions: for all operations in any order, and any configured TTLs, a set expires no earlier
// than any of its sessions, every key has a TTL, and entries of ended sessions don't accumulate.
func TestTheSetOutlivesItsSessions(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := sessionsHarness{NewSessions(l.Conn)}
	ctx, sequence := t.Context(), 0
	rapid.Check(t, func(t *rapid.T) {
		sequence++
		user := "u" + strconv.Itoa(sequence)
		of := func(label string) sessions.Ref {
			return sessions.Ref{User: user, ID: ref(rapid.IntRange(1, 12).Draw(t, label)).ID}
		}
		run := func(name string, do func(r sessions.Rules) error) func(*rapid.T) {
			return func(t *rapid.T) {
				life := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, sessions.DefaultTTL}).Draw(t,
					"life of "+name)
				err := do(sessions.Rules{TTL: life, PerUser: rapid.IntRange(1, 8).Draw(t, "most")})
				require.NoError(t, storagetest.Ignoring(err, sessions.ErrNotFound), name)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": run("create", func(r sessions.Rules) error {
				return storagetest.ErrorOf(
					h.store.Create(ctx, sessions.Draft{Ref: of("new"), New: sessions.New{Username: "U"}}, r))
			}),
			"check": run("check",
				func(r sessions.Rules) error { return storagetest.ErrorOf(h.store.Check(ctx, of("one"), r)) }),
			"rotate": run("rotate", func(r sessions.Rules) error {
				return storagetest.ErrorOf(h.store.Rotate(ctx, of("one"), of("next").ID, r))
			}),
			"revoke": run("revoke", func(sessions.Rules) error { return h.store.Revoke(ctx, of("one")) }),
			"all": run("all",
				func(sessions.Rules) error { return storagetest.ErrorOf(h.store.RevokeAll(ctx, user)) }),
			"age": func(t *rapid.T) {
				if ref := of("one"); storagetest.ErrorOf(h.store.Check(ctx, ref, rules)) == nil {
					require.NoError(t,
						h.Age(ctx, ref, time.Duration(rapid.IntRange(1, 40).Draw(t, "days"))*24*time.Hour))
				}
			},
			"": func(t *rapid.T) { requireWhole(t, h, user) },
		})
	})
	for _, key := range l.Found(t) {
		require.NotNil(t, site.Community().Table.Of(key), key)
	}
}

// requireWhole checks the invariants of a user's keys.
func requireWhole(t *rapid.T, h sessionsHarness, user string) {
	ctx := context.Background()
	setEnds, err := h.do(ctx, "PEXPIRETIME", h.store.set(user))
	require.NoError(t, err)
	require.NotEqual(t, int64(-1), setEnds, "it has an end")
	alive, err := h.store.List(ctx, user)
	require.NoError(t, err)
	for _, session := range alive {
		require.LessOrEqual(t, session.Expires.UnixMilli(), setEnds)
		require.Greater(t, session.Expires.UnixMilli(), int64(0), "it has an end")
	}
	entries, err := h.do(ctx, "SCARD", h.store.set(user))
	require.NoError(t, err)
	require.LessOrEqual(t, entries, int64(12))
}

// TestTimesOfPython: the times of a session that an application has written as floats are read, without the fraction.
func TestTimesOfPython(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := sessionsHarness{NewSessions(l.Conn)}
	h.create(t, 1)
	require.NoError(t, l.Node.Do(t, "HSET", h.store.key(ref(1)), "created_at", "1640995200.5", "last_activity",
		"1640995201.25").Error())
	listed, err := h.store.List(t.Context(), "ann")
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, []int64{1640995200, 1640995201}, []int64{listed[0].Created.Unix(), listed[0].LastActivity.Unix()})
	found, err := h.store.Check(t.Context(), ref(1), rules)
	require.NoError(t, err)
	require.Equal(t, int64(1640995200), found.Created.Unix())
	require.NoError(t, l.Node.Do(t, "HSET", h.store.key(ref(1)), "created_at", "yesterday").Error())
	_, err = h.store.Check(t.Context(), ref(1), rules)
	require.ErrorIs(t, err, sessions.ErrNotFound, "a damaged session has ended")
}

func TestCosts(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	h := sessionsHarness{NewSessions(m.Conn)}
	h.create(t, 1)
	m.Reset(t)
	for range 10 {
		require.NoError(t, h.calls()[0].Do(t.Context()))
	}
	require.Equal(t, map[string]int{"evalsha": 10, "hmget": 10, "pexpiretime": 10, "sismember": 10, "time": 10},
		m.Stats(t), "a check is one command")
	for n := range sessions.MaxPerUser {
		h.create(t, n)
	}
	m.Reset(t)
	count, err := h.store.RevokeAll(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, sessions.MaxPerUser, count)
	require.Equal(t, 1, m.Stats(t)["evalsha"], "revoking 1,000 sessions is one command")
}

// TestAFullRedis: no user is logged out, and every user can be.
func TestAFullRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := sessionsHarness{NewSessions(storetest.Connect(t, redis.Options{URL: node.URL()}))}
	h.create(t, 1)
	require.NoError(t, h.Age(t.Context(), ref(1), 20*time.Hour)) // so that it is due
	storetest.FillUp(t, node)
	for _, c := range h.calls() {
		if c.Name == "create" {
			storetest.RequireFull(t, c.Do(t.Context()))
			continue
		}
		require.NoError(t, c.Do(t.Context()), c.Name)
	}
	require.NotContains(t, storetest.Dump(t, node), h.store.set("ann"))
}

// TestAnEvictingRedis: without its entry in the set a session isn't valid, since it could not be revoked with the
// others.
func TestAnEvictingRedis(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := sessionsHarness{NewSessions(l.Conn)}
	h.create(t, 1)
	require.NoError(t, storagetest.ErrorOf(h.do(t.Context(), "DEL", h.store.set("ann"))))
	for _, c := range h.calls()[:3] {
		require.NoError(t, storagetest.Ignoring(c.Do(t.Context()), sessions.ErrNotFound), c.Name)
	}
	require.ErrorIs(t, h.calls()[0].Do(t.Context()), sessions.ErrNotFound)
}

// TestWrongTypes: a key of another type interrupts no operation halfway.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	for _, wrong := range []func(h sessionsHarness) string{
		func(h sessionsHarness) string { return h.store.set("ann") },
		func(h sessionsHarness) string { return h.store.key(ref(1)) },
	} {
		l := storetest.NewLab(t)
		h := sessionsHarness{NewSessions(l.Conn)}
		h.create(t, 1)
		require.NoError(t, l.Node.Do(t, "SET", wrong(h), "odd").Error())
		before := l.Found(t)
		for _, c := range h.calls()[:3] {
			err := c.Do(t.Context())
			require.Error(t, err, c.Name)
			require.NotErrorIs(t, err, sessions.ErrNotFound)
			require.Equal(t, before, l.Found(t), c.Name)
		}
		_ = h.store.Revoke(t.Context(), ref(1))
		require.NotContains(t, l.Found(t), strings.TrimPrefix(h.store.key(ref(1)), l.Conn.Prefix()),
			"a session is revoked all the same")
	}
}

// TestRights: the operations of a Redis user that lacks a right change nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	for missing, operations := range map[string][]string{
		"sadd": {"create", "rotate"}, "srem": {"create", "rotate", "revoke"},
		"pexpireat": {"create", "rotate", "check"},
		"hset":      {"create", "check"}, "del": {"revokeall"},
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			node := redistest.Start(t, redistest.Options{})
			h := sessionsHarness{NewSessions(storetest.Connect(t, redis.Options{URL: node.URL()}))}
			h.create(t, 1)
			require.NoError(t, h.Age(t.Context(), ref(1), 20*time.Hour))
			require.NoError(t, node.Do(t, "ACL", "SETUSER", "weak", "on", ">secret", "allkeys", "allchannels", "+@all",
				"-"+missing).Error())
			weak := sessionsHarness{NewSessions(storetest.Connect(t, redis.Options{URL: node.URL(), Username: "weak",
				Password: "secret", Logger: slog.New(slog.DiscardHandler)}))}
			before := storetest.Dump(t, node)
			for _, c := range weak.calls() {
				for _, name := range operations {
					if name == c.Name {
						storetest.RequireUnavailable(t, c.Do(t.Context()), name)
						require.Equal(t, before, storetest.Dump(t, node), name)
					}
				}
			}
		})
	}
}

// TestListInPages: one run of the script reads a bounded number of sessions, and a list that doesn't fit into the
// memory of answers is refused before all of it is read.
func TestListInPages(t *testing.T) {
	t.Parallel()
	conn, _ := storetest.Standalone(t)
	h := sessionsHarness{NewSessions(conn)}
	for n := range 2*sessionsPage + 1 {
		h.create(t, n)
	}
	list := func(ids ...string) (page []sessions.Session, remaining []string) {
		t.Helper()
		args := append([]string{h.store.base("ann"), strconv.Itoa(sessionsPage)}, ids...)
		reply, err := redis.NewReply("list",
			listScript.Exec(t.Context(), conn.Bulk(), []string{h.store.set("ann")}, args))
		require.NoError(t, err)
		page, remaining, err = sessionsOf(reply, "ann", func(string) {})
		require.NoError(t, err)
		return page, remaining
	}
	found, remaining := list()
	require.Len(t, found, sessionsPage)
	require.Len(t, remaining, sessionsPage+1)
	require.NoError(t, h.store.Revoke(t.Context(), sessions.Ref{User: "ann", ID: remaining[0]}))
	rotated := sessions.Ref{User: "ann", ID: remaining[1]}
	require.NoError(t, storagetest.ErrorOf(h.store.Rotate(t.Context(), rotated, ref(1<<20).ID, rules)))
	found, none := list(remaining[:sessionsPage]...)
	require.Len(t, found, sessionsPage-2, "one was revoked, and one rotated, meanwhile")
	require.Empty(t, none)

	budget := unsent.New(8 * sessionsPage * listedBytes)
	client := func() string { return "ann" }
	other, answer := budget.Part(client), budget.Part(client)
	require.NoError(t, other.Grow(sessionsPage*listedBytes/2))
	var refused *fault.Error
	require.ErrorAs(t, storagetest.ErrorOf(h.store.List(unsent.With(t.Context(), &answer), "ann")), &refused)
	require.Equal(t, fault.Limited, refused.Kind)
	require.Less(t, answer.Taken(), int64(2*sessionsPage*listedBytes))
}

// TestSlotMove: while the slot of a user moves, a session never appears as ended.
func TestSlotMove(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	h := sessionsHarness{NewSessions(c.Connect(t, redis.Options{Timeout: 100 * time.Millisecond}))}
	for n := 1; n <= 20; n++ {
		h.create(t, n)
	}
	move := c.OpenMove(t, "ann")
	for moved := 1; moved > 0; moved = move.MoveKeys(t, 4) {
		all, err := h.store.List(t.Context(), "ann")
		require.True(t, err == nil && len(all) == 20 || isUnavailable(err), "%d: %v", len(all), err)
		for n := 1; n <= 20; n += 7 {
			_, err := h.store.Check(t.Context(), ref(n), rules)
			require.True(t, err == nil || isUnavailable(err), "%v", err)
		}
		_, err = h.store.Create(t.Context(), sessions.Draft{Ref: ref(100 + moved), New: sessions.New{Username: "Ann"}},
			rules)
		require.True(t, err == nil || isUnavailable(err), "%v", err)
	}
	move.CloseSlot(t)
	slow := sessionsHarness{NewSessions(c.Connect(t, redis.Options{}))}
	for n := 1; n <= 20; n++ {
		require.NoError(t, storagetest.ErrorOf(slow.store.Check(t.Context(), ref(n), rules)))
	}
	require.NoError(t, storagetest.ErrorOf(slow.store.RevokeAll(t.Context(), "ann")))
	slow.create(t, 1)
	move = c.OpenMove(t, "ann")
	move.MoveKey(t, slow.store.set("ann")) // it exists already, and the session doesn't yet
	require.ErrorIs(t, storagetest.ErrorOf(h.store.RevokeAll(t.Context(), "ann")), fault.ErrUnavailable)
	require.ErrorIs(t, storagetest.ErrorOf(h.store.List(t.Context(), "ann")), fault.ErrUnavailable)
	for move.MoveKeys(t, 100) > 0 {
		continue
	}
	move.CloseSlot(t)
	count, err := slow.store.RevokeAll(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, 1, count, "it wasn't removed halfway")
	require.ErrorIs(t, storagetest.ErrorOf(slow.store.Check(t.Context(), ref(1), rules)), sessions.ErrNotFound)
}

// TestSessionsOfAnApplication: a session that an application has written itself has its token as its ID. No list shows
// it, and it ends with all sessions of its user.
func TestSessionsOfAnApplication(t *testing.T) {
	t.Parallel()
	const token = "eyJhbGci.eyJi.c"
	h := sessionsHarness{NewSessions(connectPlain(t))}
	h.create(t, 1)
	prefix, users := h.store.conn.Prefix(), h.store.set("ann")
	require.Equal(t, prefix+"user_sessions:ann", users)
	theirs := prefix + "session:ann:" + token
	require.NoError(t, storagetest.ErrorOf(h.do(t.Context(), "HSET", theirs, "user_id", "ann", "created_at",
		"1640995200.5", "last_activity", "1640995200.5")))
	require.NoError(t, storagetest.ErrorOf(h.do(t.Context(), "SADD", users, token)))
	h.create(t, 2)
	found, err := h.store.List(t.Context(), "ann")
	require.NoError(t, err)
	ids := []string{found[0].ID, found[1].ID}
	slices.Sort(ids)
	require.Equal(t, []string{ref(1).ID, ref(2).ID}, ids)
	require.Len(t, found, 2)
	n, err := h.store.RevokeAll(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n64, err := h.do(t.Context(), "EXISTS", theirs)
	require.NoError(t, err)
	require.Zero(t, n64)
}

func TestDecoding(t *testing.T) {
	t.Parallel()
	right := []string{`{'OK', 'Ann', '1', '2', '', '{}', 3}`}
	wrong := []string{`{'OK'}`, `{'OK', 'Ann', '1', '2', '', '', 3, 4}`}
	storetest.RequireDecoded(t, map[string]func(redis.Reply) error{
		"session":   func(r redis.Reply) error { return storagetest.ErrorOf(sessionOf(r, ref(1))) },
		"revokeall": func(r redis.Reply) error { return storagetest.ErrorOf(countOf(r)) },
		"list": func(r redis.Reply) error {
			_, _, err := sessionsOf(r, "ann", func(string) {})
			return err
		},
	}, map[string][]string{
		"session": right, "revokeall": {`{'OK', 7}`},
		"list": {`{'OK', {}}`, `{'OK', {'other'}, 'id', 'Ann', '1', '2', '', 3}`},
	}, map[string][]string{
		"session": wrong, "revokeall": {`{'OK'}`, `{'OK', 'x'}`},
		"list": {`{'OK'}`, `{'OK', 'id'}`, `{'OK', {}, 'id'}`, `{'OK', {}, 'id', 'Ann', '1', '2', '', 3, 'id'}`},
	})
	storetest.RequireRefusals(t, sessionRefusals, map[string]error{"UNKNOWN": sessions.ErrNotFound})
}

func isUnavailable(err error) bool { return errors.Is(err, fault.ErrUnavailable) }
