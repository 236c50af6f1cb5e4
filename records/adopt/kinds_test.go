package adopt

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/site"
)

func TestParse(t *testing.T) {
	t.Parallel()
	community := site.Community().Caches
	all := kindsOf(community)
	for key, want := range map[string]string{
		"env_vars:A:b":                   "setting A:b",
		"viewed:7":                       "viewed 7",
		"oauth_refresh:a:b:google":       "oauth-refresh a:b google",
		"oauth_access:7:vk":              "oauth-access 7 vk",
		"migrated_views_1640995200":      "migrated-views 1640995200",
		"migrated_views_slugs":           "migrated-slugs",
		"author:id:7":                    "author 7",
		"author:slug:a b":                "author-slug a b",
		"author:follows-topics:7":        "author-follows-topics 7",
		"shouts:limit=20:offset=0":       "shouts limit=20:offset=0",
		"topic_shouts_5":                 "topic-shouts 5",
		"session:7:eyJh.eyJi.c":          "source-session 7:eyJh.eyJi.c",
		"7-ann-eyJh.eyJi.c":              "legacy-session",
		"verification:7:email_change:tt": "verification 7:email_change:tt",
		"viewed:":                        "", "viewed": "", "viewed:{7}": "", "viewed_adopted:7": "", "env_vars": "",
		"migrated_views_current": "", "migrated_views_slugs_old": "", "oauth_access:7": "", "other:7": "", "": "",
	} {
		one, ok := all.parse(key)
		require.Equal(t, want != "", ok, key)
		if ok {
			require.Equal(t, want, strings.Join(append([]string{one.kind.of.Name}, one.ref.Parts...), " "))
		}
	}
	for _, k := range community.Table.All() { // none of ours
		if !k.Legacy && strings.Contains(k.Pattern, "{") {
			parts := k.Parts()
			for i := range parts {
				parts[i] = "7"
			}
			_, ok := all.parse(k.Key(parts...))
			require.False(t, ok, k.Name)
		}
	}
}

// TestParseOwnKinds: an application of another site has other cached values. One key may begin like two kinds.
func TestParseOwnKinds(t *testing.T) {
	t.Parallel()
	var own []*entities.Kind
	for name, key := range map[string]string{"product": "p:{<id>}", "price": "p:{<id>}:price", "old": "p:old:{<id>}"} {
		k, err := entities.New(entities.Definition{Name: name, Key: key})
		require.NoError(t, err)
		own = append(own, k)
	}
	caches, err := entities.NewKinds(own)
	require.NoError(t, err)
	for key, want := range map[string]string{
		"p:7": "product 7", "p:7:price": "price 7", "p:old:7": "old 7", "p:": "", "author:id:7": "", "viewed:7": "viewed 7",
	} {
		one, ok := kindsOf(caches).parse(key)
		require.Equal(t, want != "", ok, key)
		if ok {
			require.Equal(t, want, one.kind.of.Name+" "+one.ref.Parts[0])
		}
	}
}

func TestReplaced(t *testing.T) {
	t.Parallel()
	text := func(value string) Text { return Text{Found: true, Value: value} }
	for name, one := range map[string]struct {
		was    State
		adopts bool
		err    error
	}{
		"new":                                {State{}, true, nil},
		"the same":                           {State{Text: text("new")}, false, nil},
		"other":                              {State{Text: text("own")}, false, errDiffers},
		"of another type":                    {State{Text: Text{Found: true, WrongType: true}}, false, errDiffers},
		"taken over":                         {State{text("new"), digest("new"), -1}, false, nil},
		"taken over, then changed":           {State{text("own"), digest("new"), -1}, false, nil},
		"taken over, then removed":           {State{Text{}, digest("new"), -1}, false, nil},
		"taken over, then ended":             {State{Text{}, digest("new"), rememberLife}, false, errEnded},
		"changed at the source":              {State{text("old"), digest("old"), -1}, true, nil},
		"changed here and at the source":     {State{text("own"), digest("old"), -1}, false, errDiffers},
		"removed, and changed at the source": {State{Text{}, digest("old"), -1}, false, errRemoved},
		"ended, and changed at the source":   {State{Text{}, digest("old"), rememberLife}, true, nil},
	} {
		c, err := replaced(Change{Value: "sealed"}, text("new"), one.was.Value, one.was)
		require.Equal(t, one.err, err, name)
		require.Equal(t, one.adopts, c.Writes, name)
	}
}

func TestLives(t *testing.T) {
	t.Parallel()
	c := Change{}.lives(Text{Left: time.Minute}, time.Hour)
	require.Equal(t, []time.Duration{time.Minute, time.Minute + rememberLife}, []time.Duration{c.Life, c.Keep})
	for _, left := range []time.Duration{-1, 2 * time.Hour} {
		c = Change{}.lives(Text{Left: left}, time.Hour)
		require.Equal(t, []time.Duration{time.Hour, time.Hour + rememberLife}, []time.Duration{c.Life, c.Keep})
	}
}

// pages is a source with keys of others.
type pages struct {
	Source
	keys int
}

func (p pages) Count(context.Context) (int64, error) { return int64(p.keys), nil }

func (p pages) Pages(ctx context.Context, wait Wait, do func(context.Context, []string) error) error {
	for range p.keys / atOnce {
		if err := wait(ctx, atOnce); err != nil {
			return err
		}
		if err := do(ctx, []string{"other"}); err != nil {
			return err
		}
	}
	return nil
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, last := time.Now(), int64(0)
		_, err := Run(t.Context(), pages{keys: 30_000}, nil, Options{
			Caches: site.Community().Caches, Rate: 1000, Progress: func(seen, total int64) {
				require.GreaterOrEqual(t, seen, last)
				require.Equal(t, int64(30_000), total)
				last = seen
			}})
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, time.Since(began), "10,000 at once")
		require.Positive(t, last)
	})
}
