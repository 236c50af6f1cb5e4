package records_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/adopt"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/settings"
	"github.com/tidemark-dev/tidemark/records/site"
	"github.com/tidemark-dev/tidemark/records/tokens"
	"github.com/tidemark-dev/tidemark/storage/redis"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
)

// seal is a sealer that prepends the purpose to the value.
type seal struct{}

func (seal) Seal(value, purpose []byte) ([]byte, error) { return append(purpose, value...), nil }

func (seal) Open(sealed, purpose []byte) ([]byte, error) {
	return []byte(strings.TrimPrefix(string(sealed), string(purpose))), nil
}

type silent struct{}

func (silent) Publish(context.Context, channel.PublishRequest) ([]channel.Published, error) {
	return nil, nil
}

// mover takes over the records of an application that uses a Redis.
type mover struct {
	old, now *redis.Conn // with the prefixes of the application and of the service
	source   *redisrecords.OldRecords
	target   *redisrecords.Adopted
	options  adopt.Options
	settings *settings.Service
	views    *counters.Views
	tokens   *tokens.Service
}

func newMover(t *testing.T, r storagetest.Redis) *mover {
	t.Helper()
	base := redistest.Prefix(t)
	m := &mover{
		old: scanConnect(t, redis.Options{URL: r.URL, KeyPrefix: base + "old:"}),
		now: scanConnect(t, redis.Options{URL: r.URL, KeyPrefix: base + "new:"}),
	}
	m.source = redisrecords.NewOldRecords(m.old)
	m.target = redisrecords.NewAdopted(redisrecords.Instances{Records: m.now, Sessions: m.now, Cache: m.now})
	m.settings = settings.NewService(redisrecords.NewSettings(m.now), silent{})
	m.views = counters.NewViews(redisrecords.NewCounters(m.now), slog.New(slog.DiscardHandler))
	var err error
	m.tokens, err = tokens.New(tokens.Options{Store: redisrecords.NewTokens(m.now), Sealer: seal{}})
	require.NoError(t, err)
	m.options = adopt.Options{Apply: true, Caches: site.Community().Caches, Rate: 1_000_000, Sealer: seal{},
		Providers: tokens.DefaultProviders}
	return m
}

// run takes over what there is, and returns of each kind "name keys adopted present refused removed".
func (m *mover) run(t *testing.T, o adopt.Options) (kinds []string, report adopt.Report) {
	t.Helper()
	return m.runFrom(t, m.source, o)
}

func (m *mover) runFrom(t *testing.T, s adopt.Source, o adopt.Options) (kinds []string, report adopt.Report) {
	t.Helper()
	report, err := adopt.Run(t.Context(), s, m.target, o)
	require.NoError(t, err)
	for _, k := range report.Kinds {
		kinds = append(kinds, fmt.Sprint(k.Name, " ", k.Keys, k.Adopted, k.Present, k.Refused, k.Removed))
	}
	return kinds, report
}

// total returns the views of an ID.
func (m *mover) total(t *testing.T, id string) counters.Total {
	t.Helper()
	totals, err := m.views.Totals(t.Context(), []string{id}, nil)
	require.NoError(t, err)
	return totals[0]
}

// keysOf returns the names of all keys of a connection, without the prefix.
func keysOf(t *testing.T, conn *redis.Conn) (names []string) {
	t.Helper()
	source := redisrecords.NewOldRecords(conn)
	require.NoError(t, source.Pages(t.Context(), func(context.Context, int) error { return nil },
		func(_ context.Context, some []string) error {
			names = append(names, some...)
			return nil
		}))
	return names
}

const author = `{"id":7,"name":"Ann"}`

// application writes the keys of an application.
var application = []string{
	"HSET session:7:eyJh.eyJi.c user_id 7", "SADD user_sessions:7 eyJh.eyJi.c", "SET 7-ann-eyJh.eyJi.c x",
	"SET oauth_access:7:google ya29", "SET oauth_refresh:7:google 1//0g EX 600", "SET oauth_refresh:7:unknown x",
	"HSET oauth_state:abc provider google", "HSET verification:7:email_change:t user_id 7",
	"SET env_vars:JWT_SECRET s3cr3t", "SET env_vars:FEATURE_X on", "SET env_vars:no:name x", "LPUSH env_vars:LIST x",
	"SET author:id:7 " + strings.ReplaceAll(author, " ", ""), "SET author:slug:ann 7", "SET author:follows-topics:7 [5]",
	"SET topic:id:5 odd", "SET shouts:limit=5 []", "SET search_cache:tea {}", "SET topic_shouts_5 []",
	"SET viewed:1 100", "SET viewed:2 x", "SET viewed:3 9007199254740992",
	"HSET migrated_views_1640995200 456 10 457 20 _timestamp 1640995200 _total 2", "HSET migrated_views_slugs a 456",
	"SET lock:resize:7 1", "HSET state:import:7 step 1", "SET metrics:active:hourly 1", "HSET stats:topics:weekly a 1",
	"SET other:7 x", "SET viewed_by:7 x", "SET migrated_views_odd x",
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), application...)
		before := keysOf(t, m.old)
		require.Len(t, before, len(application))
		dry := m.options
		dry.Apply, dry.Remove = false, true
		kinds, report := m.run(t, dry)
		want := []string{
			"source-session 1 0 0 0 0", "source-user-sessions 1 0 0 0 0", "oauth-access 1 1 0 0 0",
			"oauth-refresh 2 1 0 1 0", "oauth-state 1 0 0 0 0", "verification 1 0 0 0 0", "setting 4 2 0 2 0",
			"viewed 3 1 0 2 0", "migrated-slugs 1 1 0 0 0", "migrated-views 1 1 0 0 0", "lock 1 0 0 0 0",
			"state 1 0 0 0 0", "metric 1 0 0 0 0", "stats 1 0 0 0 0", "author 1 1 0 0 0", "author-slug 1 1 0 0 0",
			"author-follows-topics 1 1 0 0 0", "topic 1 0 0 1 0", "shouts 1 0 0 0 0", "topic-shouts 1 0 0 0 0",
			"search 1 0 0 0 0", "legacy-session 1 0 0 0 0",
		}
		require.Equal(t, want, kinds)
		for _, k := range report.Kinds {
			if k.Note == "" {
				require.Equal(t, k.Keys, k.Adopted+k.Present+k.Refused, k.Name)
			}
			require.Len(t, k.Refusals, int(k.Refused), k.Name)
		}
		require.Empty(t, keysOf(t, m.now), "nothing was changed")

		kinds, _ = m.run(t, m.options)
		require.Equal(t, want, kinds)
		require.ElementsMatch(t, before, keysOf(t, m.old), "nothing was removed")
		secret, err := m.settings.Get(t.Context(), "JWT_SECRET", true)
		require.NoError(t, err)
		require.Equal(t, settings.Setting{Name: "JWT_SECRET", Category: settings.Auth, Secret: true, Value: "s3cr3t"}, secret)
		listed, _, err := m.settings.List(t.Context(), settings.List{})
		require.NoError(t, err)
		require.Equal(t, "[{FEATURE_X features false false on} {JWT_SECRET auth true true }]", fmt.Sprint(listed))
		provider, err := m.tokens.Tokens(t.Context(), tokens.Owner{User: "7", Provider: "google"})
		require.NoError(t, err)
		require.Equal(t, "ya29 1//0g", provider.Access+" "+provider.Refresh)
		require.WithinRange(t, provider.RefreshEnds, time.Now(), time.Now().Add(10*time.Minute), "as long as it had")
		require.WithinRange(t, provider.AccessEnds, time.Now(), time.Now().Add(records.OAuthAccess.TTL))
		require.Equal(t, int64(100), m.total(t, "1").Counted)
		require.Equal(t, int64(10), m.total(t, "456").Migrated)
		value, left := m.cached(t, "author:id:{7}")
		require.Equal(t, author, value)
		require.Positive(t, left, "the application doesn't invalidate it")

		kinds, _ = m.run(t, m.options)
		require.Contains(t, kinds, "setting 4 0 2 2 0")
		require.Contains(t, kinds, "viewed 3 0 1 2 0")
		require.Contains(t, kinds, "author 1 0 1 0 0")
		require.Contains(t, kinds, "migrated-views 1 0 1 0 0")
		m.options.Remove = true
		kinds, _ = m.run(t, m.options)
		require.Contains(t, kinds, "viewed 3 0 1 2 1")
		require.Contains(t, kinds, "oauth-refresh 2 0 1 1 1")
		require.Contains(t, kinds, "migrated-slugs 1 0 1 0 0")
		left9 := keysOf(t, m.old)
		require.Len(t, left9, len(application)-9)
		require.Contains(t, left9, "migrated_views_slugs", "the service has a key of this name")
		for _, name := range keysOf(t, m.now) {
			require.False(t, strings.HasPrefix(name, "adopted:"), name)
		}
	})
}

// cached returns a text of the service, and its life.
func (m *mover) cached(t *testing.T, name string) (value string, left time.Duration) {
	t.Helper()
	c, key := m.now.Client(), m.now.Prefix()+name
	value, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
	require.NoError(t, err)
	ms, err := c.Do(t.Context(), c.B().Pttl().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return value, time.Duration(ms) * time.Millisecond
}

// TestAdoptWhileBothRun: the application and the service change records between runs.
func TestAdoptWhileBothRun(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET viewed:1 100", "SET env_vars:FOLLOWS a", "SET env_vars:REMOVED a",
			"SET env_vars:SAME a", "SET env_vars:OWN a", "SET env_vars:CHANGED a", "SET env_vars:BOTH a",
			"SET author:followers:7 [1]", "SET oauth_refresh:7:google a", "SET oauth_refresh:8:google a")
		m.put(t, "SAME", "a")
		m.put(t, "OWN", "b")
		kinds, report := m.run(t, m.options)
		require.Contains(t, kinds, "setting 6 4 1 1 0")
		require.Equal(t, "{env_vars:OWN the service has another value, which stays}",
			fmt.Sprint(report.Kinds[1].Refusals[0]))

		for _, name := range []string{"REMOVED", "SAME"} {
			require.NoError(t, m.settings.Delete(t.Context(), name))
		}
		require.NoError(t, m.tokens.DeleteTokens(t.Context(), tokens.Owner{User: "7", Provider: "google"}))
		m.put(t, "CHANGED", "c")
		m.put(t, "BOTH", "c")
		errs := redisrecords.NewCounters(m.now).Add(t.Context(), counters.Flush{Process: "p", Number: 1},
			[]counters.Count{{ID: "1", Views: 1000}})
		require.NoError(t, errors.Join(errs...))
		write(t, r.Client, m.now.Prefix(), "DEL author:followers:{7}")
		write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 11", "SET env_vars:FOLLOWS b", "SET env_vars:BOTH b",
			"SET oauth_refresh:8:google b")
		m.options.Remove = true
		kinds, _ = m.run(t, m.options)
		require.Equal(t, []string{"oauth-refresh 2 1 1 0 2", "setting 6 1 3 2 4", "viewed 1 1 0 0 1",
			"author-followers 1 0 1 0 1"}, kinds)
		require.ElementsMatch(t, []string{"env_vars:OWN", "env_vars:BOTH"}, keysOf(t, m.old))
		require.Equal(t, int64(1111), m.total(t, "1").Counted)
		require.NotContains(t, keysOf(t, m.now), "author:followers:{7}")
		listed, _, err := m.settings.List(t.Context(), settings.List{Clear: true})
		require.NoError(t, err)
		found := ""
		for _, one := range listed {
			found += one.Name + "=" + one.Value + " "
		}
		require.Equal(t, "BOTH=c CHANGED=c FOLLOWS=b OWN=b ", found)
		_, err = m.tokens.Tokens(t.Context(), tokens.Owner{User: "7", Provider: "google"})
		require.ErrorIs(t, err, tokens.ErrNoTokens)
		provider, err := m.tokens.Tokens(t.Context(), tokens.Owner{User: "8", Provider: "google"})
		require.NoError(t, err)
		require.Equal(t, "b", provider.Refresh)

		write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 5")
		m.options.Remove = false
		m.run(t, m.options)
		require.Equal(t, int64(1116), m.total(t, "1").Counted, "a counter that was removed, and began again")
		write(t, r.Client, m.old.Prefix(), "SET viewed:1 4")
		m.options.Remove = true
		kinds, _ = m.run(t, m.options)
		require.Contains(t, kinds, "viewed 1 0 0 1 0", "the application's Redis has lost a write")
		require.Equal(t, int64(1116), m.total(t, "1").Counted)
	})
}

func (m *mover) put(t *testing.T, name, value string) {
	t.Helper()
	_, err := m.settings.Put(t.Context(), settings.New{Name: name, Value: value})
	require.NoError(t, err)
}

// hooked calls a function once, after records of Discours.io were first read.
type hooked struct {
	*redisrecords.OldRecords
	once func()
}

func (h *hooked) Read(ctx context.Context, keys []string, most int) ([]adopt.Text, error) {
	texts, err := h.OldRecords.Read(ctx, keys, most)
	if once := h.once; once != nil {
		h.once = nil
		once()
	}
	return texts, err
}

// TestAdoptTwiceAtOnce: a run has read records, and another run, the application and the service change them before it
// writes.
func TestAdoptTwiceAtOnce(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		for range 2 { // the second time with something that was taken over before
			write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 100")
			before := m.total(t, "1").Counted
			m.runFrom(t, &hooked{m.source, func() {
				write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 5")
				m.run(t, m.options)
				write(t, r.Client, m.now.Prefix(), "INCRBY viewed:{1} 1000")
			}}, m.options)
			require.Equal(t, before+1105, m.total(t, "1").Counted)
		}

		write(t, r.Client, m.old.Prefix(), "SET env_vars:A x")
		kinds, _ := m.runFrom(t, &hooked{m.source, func() { m.put(t, "A", "own") }},
			adopt.Options{Apply: true, Caches: site.Community().Caches, Kinds: []string{"setting"}})
		require.Equal(t, []string{"setting 1 0 0 1 0"}, kinds)
		found, err := m.settings.Get(t.Context(), "A", true)
		require.NoError(t, err)
		require.Equal(t, "own", found.Value)

		m.options.Remove = true
		m.runFrom(t, &hooked{m.source, func() { write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 7") }}, m.options)
		require.Equal(t, int64(2217), m.total(t, "1").Counted)
		require.Equal(t, []string{"env_vars:A"}, keysOf(t, m.old))
	})
}

// TestAdoptImports: the imports of the service stay, and the latest one counts.
func TestAdoptImports(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		for _, at := range []int64{2000, 3000} {
			_, err := m.views.Import(t.Context(), counters.Part{At: at, Total: 1, Views: map[string]int64{"1": at}})
			require.NoError(t, err)
		}
		write(t, r.Client, m.now.Prefix(), "HSET migrated_views_slugs a 1 b 2")
		write(t, r.Client, m.old.Prefix(), "HSET migrated_views_1000 1 7", "HSET migrated_views_2000 1 2000 _total 1",
			"HSET migrated_views_3000 1 8", "HSET migrated_views_4000 1 x", "HSET migrated_views_5000 _total 1",
			"HSET migrated_views_slugs a 1 b 3 c 3")
		m.options.Remove = true
		kinds, report := m.run(t, m.options)
		require.Equal(t, []string{"migrated-slugs 1 0 0 1 0", "migrated-views 5 1 1 3 2"}, kinds)
		require.Equal(t, "the service has other IDs for 1 of its 3 slugs, which stay", report.Kinds[0].Refusals[0].Reason)
		require.ElementsMatch(t, []string{"migrated_views_3000", "migrated_views_4000", "migrated_views_5000",
			"migrated_views_slugs"}, keysOf(t, m.old))
		require.Equal(t, int64(3000), m.total(t, "1").Migrated)
		ids, err := redisrecords.NewCounters(m.now).Resolve(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3"}, ids)

		m.source = redisrecords.NewOldRecords(m.now) // the service's own keys
		before := keysOf(t, m.now)
		kinds, _ = m.run(t, m.options)
		require.Equal(t, []string{"migrated-slugs 1 0 1 0 0"}, kinds)
		require.ElementsMatch(t, before, keysOf(t, m.now))
	})
}

// TestAdoptIsRepeated: it is stopped at each of its calls, before and after the call was made, and repeated. First the
// application counts meanwhile; then it has stopped, and its keys are removed.
func TestAdoptIsRepeated(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET env_vars:A x", "SET viewed:1 3", "SET viewed:2 7",
			"HSET migrated_views_1000 1 4")
		stopped := &stopping{Adopted: m.target, OldRecords: m.source}
		runs := 0
		for _, m.options.Remove = range []bool{false, true} {
			for calls, err := 0, errStopped; err != nil; calls++ {
				require.ErrorIs(t, err, errStopped)
				if !m.options.Remove {
					write(t, r.Client, m.old.Prefix(), "INCR viewed:1")
					runs++
				}
				stopped.left = calls
				_, err = adopt.Run(t.Context(), stopped, stopped, m.options)
			}
		}
		require.Greater(t, runs, 4)
		require.Empty(t, keysOf(t, m.old))
		require.Equal(t, int64(3+runs), m.total(t, "1").Counted)
		require.Equal(t, counters.Total{ID: "2", Counted: 7}, m.total(t, "2"))
		require.Equal(t, int64(4), m.total(t, "1").Migrated)
		_, err := m.settings.Get(t.Context(), "A", true)
		require.NoError(t, err)
	})
}

// interrupted ends a context after each removal.
type interrupted struct {
	*redisrecords.OldRecords
	cancel context.CancelFunc
}

func (i *interrupted) Remove(ctx context.Context, key, was string) error {
	defer i.cancel()
	return i.OldRecords.Remove(ctx, key, was)
}

// TestAdoptIsInterrupted: a removal that has begun is completed.
func TestAdoptIsInterrupted(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET viewed:1 3", "SET viewed:2 3")
		m.options.Remove = true
		ctx, cancel := context.WithCancel(t.Context())
		report, err := adopt.Run(ctx, &interrupted{m.source, cancel}, m.target, m.options)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, int64(1), report.Kinds[0].Removed)
		require.Len(t, keysOf(t, m.old), 1)
		require.Len(t, keysOf(t, m.now), 1)
	})
}

var errStopped = errors.New("stopped")

// stopping fails after a number of calls that write, every other time after it has made the call.
type stopping struct {
	*redisrecords.Adopted
	*redisrecords.OldRecords
	left int
}

func (s *stopping) call(do func() error) error {
	if s.left--; s.left < 0 {
		return errStopped
	}
	if err := do(); err != nil {
		return err
	}
	if s.left--; s.left < 0 {
		return errStopped
	}
	return nil
}

func (s *stopping) Remove(ctx context.Context, key, was string) error {
	return s.call(func() error { return s.OldRecords.Remove(ctx, key, was) })
}

func (s *stopping) Put(ctx context.Context, of adopt.Ref, was adopt.State, c adopt.Change) error {
	return s.call(func() error { return s.Adopted.Put(ctx, of, was, c) })
}

func (s *stopping) Forget(ctx context.Context, of adopt.Ref, adopted string) error {
	return s.call(func() error { return s.Adopted.Forget(ctx, of, adopted) })
}

func (s *stopping) Import(ctx context.Context, p counters.Part) (done counters.Imported, err error) {
	err = s.call(func() (err error) {
		done, err = s.Adopted.Import(ctx, p)
		return err
	})
	return done, err
}

// TestAdoptTokensAgain: the application stores tokens again, or the service's ones end, between runs.
func TestAdoptTokensAgain(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET oauth_refresh:7:google a EX 864000", "SET oauth_refresh:8:google a",
			"SET oauth_access:9:google a", "SET oauth_access:10:google a", "SET oauth_access:11:google a")
		m.run(t, m.options)
		for _, user := range []string{"9", "10"} { // an hour later
			m.passes(t, records.OAuthAccess, user, time.Hour)
		}
		require.NoError(t, m.tokens.DeleteTokens(t.Context(), tokens.Owner{User: "11", Provider: "google"}))
		for _, user := range []string{"7", "8"} {
			m.passes(t, records.OAuthRefresh, user, 8*24*time.Hour)
		}
		write(t, r.Client, m.old.Prefix(), "SET oauth_refresh:7:google a EX 864000", "SET oauth_access:10:google b",
			"SET oauth_access:11:google b")
		m.options.Remove = true
		kinds, report := m.run(t, m.options)
		require.Equal(t, []string{"oauth-access 3 1 0 2 1", "oauth-refresh 2 2 0 0 2"}, kinds)
		require.ElementsMatch(t, []adopt.Refusal{
			{Key: "oauth_access:9:google", Reason: "the service had this value, which has ended or was removed"},
			{Key: "oauth_access:11:google", Reason: "the service had an earlier value, which was removed"},
		}, report.Kinds[0].Refusals)
		require.ElementsMatch(t, []string{"oauth_access:9:google", "oauth_access:11:google"}, keysOf(t, m.old),
			"the only ones that there are")
		for user, days := range map[string]int{"7": 9, "8": 29} {
			provider, err := m.tokens.Tokens(t.Context(), tokens.Owner{User: user, Provider: "google"})
			require.NoError(t, err)
			require.Greater(t, provider.RefreshEnds, time.Now().AddDate(0, 0, days), user)
		}
	})
}

// passes sets the lives of a user's record at Google, and of what was taken over for it, as if a time had passed.
func (m *mover) passes(t *testing.T, of *records.Kind, user string, d time.Duration) {
	t.Helper()
	for _, name := range []string{of.Key(user, "google"), records.Adopted.Key(user, of.Name+":google")} {
		_, left := m.cached(t, name)
		require.Positive(t, left, name)
		c := m.now.Client()
		require.NoError(t, c.Do(t.Context(), c.B().Pexpire().Key(m.now.Prefix()+name).
			Milliseconds((left-d).Milliseconds()).Build()).Error())
	}
}

// TestAdoptRemembers: removals by the service are remembered for as long as runs are repeated.
func TestAdoptRemembers(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET oauth_refresh:7:google a", "SET author:followers:7 [1]")
		m.run(t, m.options)
		require.NoError(t, m.tokens.DeleteTokens(t.Context(), tokens.Owner{User: "7", Provider: "google"}))
		write(t, r.Client, m.now.Prefix(), "DEL author:followers:{7}",
			"EXPIRE adopted:{7}:oauth-refresh:google 600", "EXPIRE adopted:{7}:author-followers 600")
		kinds, _ := m.run(t, m.options)
		require.Equal(t, []string{"oauth-refresh 1 0 0 1 0", "author-followers 1 0 1 0 0"}, kinds)
		for _, name := range []string{"adopted:{7}:oauth-refresh:google", "adopted:{7}:author-followers"} {
			_, left := m.cached(t, name)
			require.Greater(t, left, 29*24*time.Hour, name)
		}
	})
}

// TestAdoptOwnKinds: an application of another site has other cached values. Keys have quotes.
func TestAdoptOwnKinds(t *testing.T) {
	t.Parallel()
	var own []*entities.Kind
	for _, d := range []entities.Definition{
		{Name: "product", Key: "p:{<id>}"}, {Name: "list", Key: "l:{<id>}", IDs: "list"},
		{Name: "search", Key: "s:{<id>}", IDs: "search"}, {Name: "price", Key: "c:{<id>}", TTL: time.Hour},
	} {
		k, err := entities.New(d)
		require.NoError(t, err)
		own = append(own, k)
	}
	caches, err := entities.NewKinds(own)
	require.NoError(t, err)
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		m.options.Caches, m.options.Remove = caches, true
		write(t, r.Client, m.old.Prefix(), `SET p:a"b {}`, `SET p:it's\ {}`, `SET l:limit=5:q="x" {}`, `SET s:Tea"s {}`,
			"SET c:7 {}", "SET author:id:7 "+author)
		kinds, report := m.run(t, m.options)
		require.Equal(t, []string{"product 2 2 0 0 2", "list 1 0 0 0 0", "search 1 0 0 0 0", "price 1 0 0 0 0"}, kinds)
		require.ElementsMatch(t, []string{`p:{a"b}`, `p:{it's\}`}, keysOf(t, m.now))
		require.Equal(t, "the service makes their IDs of parameters; the application's have another form",
			report.Kinds[1].Note)
		require.Equal(t, report.Kinds[1].Note, report.Kinds[2].Note)
		require.Equal(t, "values with a TTL end by themselves", report.Kinds[3].Note)
	})
}

// TestAdoptEmpty: an empty value is a value, whatever its life.
func TestAdoptEmpty(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET env_vars:A ", "SET env_vars:B  EX 600")
		kinds, _ := m.run(t, m.options)
		require.Equal(t, []string{"setting 2 2 0 0 0"}, kinds)
	})
}

// unforgetting has a Forget that fails.
type unforgetting struct{ *redisrecords.Adopted }

func (unforgetting) Forget(context.Context, adopt.Ref, string) error { return errStopped }

// TestAdoptRemovalStops: a removal stops between its two steps, or another run comes in between, and the application
// counts on.
func TestAdoptRemovalStops(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		write(t, r.Client, m.old.Prefix(), "SET viewed:1 100")
		m.run(t, m.options)
		remove := m.options
		remove.Remove = true
		_, err := adopt.Run(t.Context(), m.source, unforgetting{m.target}, remove)
		require.ErrorIs(t, err, errStopped)
		require.Empty(t, keysOf(t, m.old))
		write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 5")
		kinds, _ := m.run(t, m.options)
		require.Equal(t, []string{"viewed 1 1 0 0 0"}, kinds)
		require.Equal(t, int64(105), m.total(t, "1").Counted)

		m.runFrom(t, &removing{m.source, func() {
			write(t, r.Client, m.old.Prefix(), "INCRBY viewed:1 3")
			m.run(t, m.options)
		}}, remove)
		m.run(t, m.options)
		require.Equal(t, int64(108), m.total(t, "1").Counted)
	})
}

// removing calls a function after each removal.
type removing struct {
	*redisrecords.OldRecords
	after func()
}

func (r *removing) Remove(ctx context.Context, key, was string) error {
	err := r.OldRecords.Remove(ctx, key, was)
	r.after()
	return err
}

// importing calls a function after each import.
type importing struct {
	*redisrecords.Adopted
	after func()
}

func (i *importing) Import(ctx context.Context, p counters.Part) (counters.Imported, error) {
	done, err := i.Adopted.Import(ctx, p)
	i.after()
	return done, err
}

// TestAdoptImportChanges: an import that has changed since it was taken over isn't removed.
func TestAdoptImportChanges(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		m := newMover(t, r)
		m.options.Remove = true
		for reason, changes := range map[string][]string{
			"the service has an import of this time with 1 other values": {"HSET migrated_views_1000 1 5"},
			"it isn't a hash": {"DEL migrated_views_1000", "SET migrated_views_1000 x"},
		} {
			write(t, r.Client, m.old.Prefix(), "DEL migrated_views_1000", "HSET migrated_views_1000 1 4")
			report, err := adopt.Run(t.Context(), m.source, &importing{m.target, func() {
				write(t, r.Client, m.old.Prefix(), changes...)
			}}, m.options)
			require.NoError(t, err)
			require.Equal(t, []string{"migrated_views_1000"}, keysOf(t, m.old))
			require.Equal(t, reason, report.Kinds[0].Refusals[0].Reason)
		}
	})
}
