package access

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/accesstest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		accesstest.Run(t, func(t testing.TB) accesstest.Harness {
			t.Helper()
			conn := storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)})
			return harness{New(conn)}
		})
	})
}

// harness is a store with its own key prefix.
type harness struct{ store *Store }

func (h harness) Store() accesskeys.Store { return h.store }

func (h harness) Forget(ctx context.Context) error {
	c := h.store.conn.Client()
	return c.Do(ctx, c.B().Del().Key(h.store.all()...).Build()).Error()
}

func TestPage(t *testing.T) {
	t.Parallel()
	scripts, rows := luatest.Scripts(t, "access"), storetest.KeyRows(t, "access", "## Keys")
	k := keys("")
	made := map[string]string{
		"records": k.records(), "revocations": k.revocations(), "ends": k.ends(), "changes": k.changes(),
		"topic":    k.topic(),
		"quotaKey": "access.quota.{<owner>}.<quota>",
	}
	storetest.RequireDocumented(t, made, rows)
	storetest.RequireScripts(t, "access", scripts)
	storetest.RequireUses(t, rows, scripts, map[string][]string{
		"keys": {k.records()}, "revocations": {k.revocations()}, "ends": {k.ends()}, "changes": {k.changes()},
		"topic": {k.topic()}, "full": {made["quotaKey"]},
	}, "watch", "load", "last")
	require.Equal(t, "mm1:access.{registry}.keys", keys("mm1:").records())
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts := luatest.Scripts(t, "access")
	storetest.RequireStatuses(t, "store.go", scripts)
	storetest.RequireOneCaller(t, scripts, map[string]string{"quota": "Take"})
}

func TestQuotaKeys(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^p:access\.quota\.\{[\w-]{22}\}\.requests$`, quotaKey("p:", "user:}{"+strings.Repeat("x", 1000),
		"requests"))
	require.Equal(t, quotaKey("", "key:a", "b"), quotaKey("", "key:a", "b"))
	require.NotEqual(t, quotaKey("", "key:a", "b"), quotaKey("", "key:A", "b"))
}

func (h harness) do(t *testing.T, command ...string) string {
	t.Helper()
	c := h.store.conn.Client()
	text, err := c.Do(t.Context(), c.B().Arbitrary(command[0]).Args(command[1:]...).Build()).ToAny()
	require.NoError(t, err, command)
	return fmt.Sprint(text)
}

// Revocations and changes expire. Keys stay.
func TestEndsOfKeys(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := harness{New(l.Conn)}
	k := keys("")
	require.NoError(t, storagetest.ErrorOf(h.store.Create(t.Context(), accesskeys.Record{ID: "a", Value: []byte("{}")},
		10)))
	require.NoError(t,
		storagetest.ErrorOf(h.store.Create(t.Context(), accesskeys.Record{ID: "b", Value: []byte("{}"),
			Until: time.Now().Add(time.Hour)}, 10)))
	for _, life := range []time.Duration{20, 10} {
		token := accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: life.String(),
			Until: time.Now().Add(life * time.Hour)}
		_, _, err := h.store.Revoke(t.Context(), token, 10)
		require.NoError(t, err)
		require.InDelta(t, 44*time.Hour, l.Life(t, k.revocations()), float64(storetest.Patience),
			"a day after the last one")
	}
	require.InDelta(t, 30*24*time.Hour, l.Life(t, k.changes()), float64(storetest.Patience))
	require.Equal(t, "-1", h.do(t, "PTTL", l.Conn.Prefix()+k.records()))
	require.Equal(t, []string{k.changes(), k.ends(), k.records(), k.revocations()}, l.Found(t))
}

// After a fail-over another change can have the position of a lost one.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := harness{New(l.Conn)}
	require.NoError(t, storagetest.ErrorOf(h.store.Create(t.Context(), accesskeys.Record{ID: "a", Value: []byte("{}")},
		10)))
	at, err := h.store.Last(t.Context())
	require.NoError(t, err)
	id, _, _ := strings.Cut(string(at), " ")
	changes := l.Conn.Prefix() + keys("").changes()
	h.do(t, "DEL", changes)
	h.do(t, "XADD", changes, id, "token", "another", "key", "a")
	_, err = h.store.Changes(t.Context(), at)
	require.ErrorIs(t, err, accesskeys.ErrLost)
	now, err := h.store.Last(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, at, now)
}

// Changes are trimmed, and a server too far behind reads everything.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	h := harness{New(l.Conn)}
	token := accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "ann"}
	_, _, err := h.store.Revoke(t.Context(), token, 10)
	require.NoError(t, err)
	at, err := h.store.Last(t.Context())
	require.NoError(t, err)
	changes := l.Conn.Prefix() + keys("").changes()
	h.do(t, "EVAL",
		`for i = 1, 10000 do redis.call('XADD', KEYS[1], '*', 'token', i, 'revoked', 'subject:ann') end return 1`, "1",
		changes)
	_, _, err = h.store.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "bob"}, 10)
	require.NoError(t, err)
	length, err := l.Node.Do(t, "XLEN", changes).AsInt64()
	require.NoError(t, err)
	require.LessOrEqual(t, length, int64(4096+100))
	_, err = h.store.Changes(t.Context(), at)
	require.ErrorIs(t, err, accesskeys.ErrLost)
}

func TestErrorsOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := harness{New(storetest.Connect(t, redis.Options{URL: node.URL()}))}
	token := accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: "a"}
	require.NoError(t, storagetest.ErrorOf(h.store.Create(t.Context(), accesskeys.Record{ID: "a", Value: []byte("{}")},
		10)))
	storetest.FillUp(t, node)
	storetest.RequireFull(t,
		storagetest.ErrorOf(h.store.Create(t.Context(), accesskeys.Record{ID: "b", Value: []byte("{}")}, 10)))
	_, _, err := h.store.Revoke(t.Context(), token, 10)
	require.NoError(t, err, "a full Redis takes revocations")
	_, _, err = h.store.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedKey, Name: "a"}, 10)
	require.NoError(t, err, "and deletions")
	taken, err := NewQuotas(h.store.conn).Take(t.Context(), limits.Quota{Owner: "a", Name: "b", Rate: 1, Burst: 1}, 1)
	require.NoError(t, err)
	require.True(t, taken.OK, "and limits hold")

	storetest.Set(t, node, "maxmemory", "0")
	h.do(t, "HSET", keys("").revocations(), "jti:odd", "not times")
	require.ErrorIs(t, h.store.Each(t.Context(), func(accesskeys.Entry) {}), redis.ErrReply)
	h.do(t, "SET", keys("").changes(), "x")
	_, err = h.store.Last(t.Context())
	require.Error(t, err)
}

// A user of Redis that may not publish changes nothing: every successful change must be notified.
func TestRights(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	require.NoError(t, node.Do(t, "ACL", "SETUSER", "mute", "on", ">secret", "allkeys", "resetchannels",
		"+@all").Error())
	h := harness{New(storetest.Connect(t, redis.Options{URL: node.URL(), Username: "mute", Password: "secret",
		Logger: slog.New(slog.DiscardHandler)}))}
	storetest.RequireUnavailable(t,
		storagetest.ErrorOf(h.store.Create(t.Context(), accesskeys.Record{ID: "a", Value: []byte("{}")}, 10)))
	_, _, err := h.store.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: "a"}, 10)
	storetest.RequireUnavailable(t, err)
	require.Empty(t, storetest.Dump(t, node))
}

func TestDecoding(t *testing.T) {
	t.Parallel()
	storetest.RequireDecoded(t, map[string]func(redis.Reply) error{
		"changes": func(r redis.Reply) error { return storagetest.ErrorOf(changesOf(r, "")) },
		"revoke": func(r redis.Reply) error {
			return func() error { _, _, err := revokedOf(r, accesskeys.Revocation{}); return err }()
		},
		"create": func(r redis.Reply) error { return storagetest.ErrorOf(createdOf(r)) },
		"quota":  func(r redis.Reply) error { return storagetest.ErrorOf(taken(r)) },
	}, map[string][]string{
		"changes": {`{'OK'}`, `{'OK', '1-0', 't', 'key', 'a', '{}'}`, `{'OK', '1-0', 't', 'revoked', 'jti:a', '1 2'}`},
		"create":  {`{'OK', '1-0', 't'}`},
		"revoke":  {`{'OK', 1, 2, '1-0', 't'}`, `{'OK', 0, 0, '', ''}`},
		"quota":   {`{'OK', 1}`, `{'LIMITED', 1, 2}`},
	}, map[string][]string{
		"changes": {`{'OK', '1-0'}`, `{'OK', '1-0', 't', 'what', 'a', ''}`,
			`{'OK', '1-0', 't', 'revoked', 'jti:a', '1'}`},
		"create": {`{'OK'}`, `{'OK', '1-0'}`, `{'OK', '1-0', 't', ''}`},
		"revoke": {`{'OK'}`, `{'OK', 1, 2, '1-0'}`, `{'OK', 'x', 1, '1-0', 't'}`},
		"quota":  {`{'OK'}`, `{'OK', 1, 2}`, `{'LIMITED', 1}`},
	})
	storetest.RequireRefusals(t, refusals, map[string]error{"EXISTS": accesskeys.ErrKeyExists,
		"UNKNOWN": accesskeys.ErrNoKey, "LOST": accesskeys.ErrLost})
}
