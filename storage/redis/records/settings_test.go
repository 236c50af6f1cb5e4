package records

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func TestSettingsPage(t *testing.T) {
	t.Parallel()
	const heading = "## Settings"
	scripts, rows := luatest.Scripts(t, "records/settings"), storetest.KeyRows(t, "records", heading)
	storetest.RequireScripts(t, "records", scripts)
	storetest.RequireUses(t, rows, scripts, map[string][]string{"marks": {"env_vars"}}, "put", "delete", "read",
		"names", "sweep")
	require.Len(t, rows, 2)
	storetest.RequireStatuses(t, "settings.go", scripts)
}

// A put that is interrupted leaves the setting as secret as before, or more so.
func TestPutsThatEndEarly(t *testing.T) {
	t.Parallel()
	storetest.EachErrorReply(t, func(t *testing.T, f storetest.Faulty, text string) {
		s := NewSettings(f.Conn)
		put := func(ctx context.Context, value string, want records.Secrecy) error {
			_, err := s.Put(ctx, records.SettingPut{Name: "A", Value: value, Want: want, Usual: records.Public})
			return err
		}
		require.NoError(t, put(t.Context(), "public", records.Public))
		f.Fail(text, "SET")
		require.Error(t, put(storetest.Shortly(t), "secret", records.Secret))
		f.Recover(t)
		found, err := s.Read(t.Context(), []string{"A"})
		require.NoError(t, err)
		require.Equal(t, records.Secret, found[0].Is, "its value may be on its way")
		require.NoError(t, put(t.Context(), "secret", records.Secret), "a repeat completes it")
		f.Fail(text, "SET")
		require.Error(t, put(storetest.Shortly(t), "public", records.Public))
		f.Recover(t)
		found, err = s.Read(t.Context(), []string{"A"})
		require.NoError(t, err)
		require.Equal(t, records.Secret, found[0].Is, "it is public only when its value is")
	})
}

// A put makes a setting public only if no other put may write a secret value after it, however their steps interleave.
func TestPublicIsForOwnValuesOnly(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	s := NewSettings(l.Conn)
	public := records.SettingPut{Name: "A", Value: "public", Want: records.Public, Usual: records.Secret}
	put := func(p records.SettingPut) records.Secrecy {
		is, err := s.Put(t.Context(), p)
		require.NoError(t, err)
		return is
	}
	for _, want := range []records.Secrecy{records.Secret, ""} {
		secret := records.SettingPut{Name: "A", Value: "secret", Want: records.Secret, Usual: records.Secret}
		put(secret)
		secret.Want = want
		mark, _, err := s.mark(t.Context(), public, "")
		require.NoError(t, err)
		put(secret)
		mark, _, err = s.mark(t.Context(), public, mark)
		require.NoError(t, err)
		require.Equal(t, records.Secret, secrecy(mark), "the other one came in between")
		require.Equal(t, records.Public, put(public))

		secret.Want = records.Secret
		for range 2 { // writes its value later, or never
			require.NoError(t, storagetest.ErrorOf2(s.mark(t.Context(), secret, "")))
		}
		require.Equal(t, records.Secret, put(public), "the secret value may be on its way")
		put(secret)
		require.Equal(t, records.Secret, put(public))
		require.NoError(t, settingsHarness{s, l.Node.Client()}.Age(t.Context(), grace))
		require.Equal(t, records.Public, put(public))
	}
}

// A delete keeps a mark that a put has just written, since its value may still be written.
func TestMarksOfValuesOnTheirWay(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	s := NewSettings(l.Conn)
	require.NoError(t, storagetest.ErrorOf2(s.mark(t.Context(), records.SettingPut{Name: "A", Usual: records.Public}, "")))
	require.NoError(t, s.Delete(t.Context(), "A"))
	require.Equal(t, []string{"env_vars"}, l.Found(t))
	require.NoError(t, settingsHarness{s, l.Node.Client()}.Age(t.Context(), grace))
	require.NoError(t, s.Delete(t.Context(), "A"))
	require.Empty(t, l.Found(t))
}

func TestManySettings(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	s := NewSettings(l.Conn)
	const fill = `
for i = 1, 10000 do
  redis.call('HSET', KEYS[1], 'S' .. i .. string.rep('x', 100), 'public ' .. i)
end
return 1`
	require.NoError(t, l.Node.Do(t, "EVAL", fill, "1", l.Conn.Prefix()+"env_vars").Error())
	names, err := s.Names(t.Context())
	require.NoError(t, err)
	require.Len(t, names, records.MaxSettings)
	require.NoError(t, storagetest.ErrorOf(s.Put(t.Context(), records.SettingPut{Name: "MORE", Usual: records.Public})),
		"the sweep removes them all")
	names, err = s.Names(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"MORE"}, names)
}

func TestSettingsErrorsOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	s := NewSettings(storetest.Connect(t, redis.Options{URL: node.URL(), Logger: slog.New(slog.DiscardHandler)}))
	require.NoError(t, storagetest.ErrorOf(s.Put(t.Context(), records.SettingPut{Name: "A", Usual: records.Public})))
	storetest.FillUp(t, node)
	storetest.RequireFull(t, storagetest.ErrorOf(s.Put(t.Context(), records.SettingPut{Name: "B", Usual: records.Public})))
	require.NoError(t, s.Delete(t.Context(), "A"))
	storetest.Set(t, node, "maxmemory", "0")
	require.NoError(t, node.Do(t, "HSET", "env_vars:{B}", "a", "b").Error())
	require.Error(t, storagetest.ErrorOf(s.Read(t.Context(), []string{"A", "B"})))
	require.NoError(t, node.Do(t, "SET", "env_vars", "x").Error())
	for _, err := range []error{
		storagetest.ErrorOf(s.Names(t.Context())), storagetest.ErrorOf(s.Read(t.Context(), []string{"A"})),
		s.Delete(t.Context(), "A"),
		storagetest.ErrorOf(s.Put(t.Context(), records.SettingPut{Name: "A", Usual: records.Public})),
	} {
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NotContains(t, strings.ToLower(err.Error()), "value of")
	}
}

func TestSettingsDecoding(t *testing.T) {
	t.Parallel()
	storetest.RequireDecoded(t, map[string]func(redis.Reply) error{
		"mark": func(r redis.Reply) error { return storagetest.ErrorOf(markOf(r)) },
	}, map[string][]string{"mark": {`{'OK', 'secret 1'}`, `{'OPEN', 'secret 1 2'}`}},
		map[string][]string{"mark": {`{'OK'}`, `{'OK', '1', '2'}`}})
	storetest.RequireRefusals(t, redis.Refusals{"FULL": records.ErrManySettings},
		map[string]error{"FULL": records.ErrManySettings})
}
