package records_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// fake is an in-memory store that records the order of calls.
type fake struct {
	kept  map[string]records.StoredSetting
	marks []string // names without a value
	calls []string
	fails error // of the publisher
}

func (f *fake) Put(_ context.Context, p records.SettingPut) (records.Secrecy, error) {
	is := p.Want
	if is == "" {
		is = p.Usual
	}
	f.calls = append(f.calls, "put "+p.Name)
	f.kept[p.Name] = records.StoredSetting{Exists: true, Value: p.Value, Is: is}
	return is, nil
}

func (f *fake) Delete(_ context.Context, name string) error {
	f.calls = append(f.calls, "delete "+name)
	delete(f.kept, name)
	return nil
}

func (f *fake) Read(_ context.Context, names []string) ([]records.StoredSetting, error) {
	var found []records.StoredSetting
	for _, name := range names {
		found = append(found, f.kept[name])
	}
	return found, nil
}

func (f *fake) Names(context.Context) ([]string, error) {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(f.kept)), f.marks...))), nil
}

func (f *fake) Publish(_ context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	for _, d := range r.Drafts {
		f.calls = append(f.calls, fmt.Sprintf("%s %s", r.Channel, d.Content))
	}
	return nil, f.fails
}

func newService() (*records.Settings, *fake) {
	f := &fake{kept: map[string]records.StoredSetting{}}
	return records.NewSettings(f, f), f
}

func put(t *testing.T, s *records.Settings, name, value string) records.Setting {
	t.Helper()
	kept, err := s.Put(t.Context(), records.NewSetting{Name: name, Value: value})
	require.NoError(t, err)
	return kept
}

func requireInvalid(t *testing.T, err error, slug fault.Slug, field string) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []any{fault.Invalid, slug, field}, []any{e.Kind, e.Slug, e.Field})
}

func TestChangesArePublished(t *testing.T) {
	t.Parallel()
	s, f := newService()
	put(t, s, "JWT_SECRET", "hidden")
	require.NoError(t, s.Delete(t.Context(), "JWT_SECRET"))
	require.NoError(t, s.Import(t.Context(), []records.NewSetting{{Name: "A"}, {Name: "B"}}))
	require.NoError(t, s.Import(t.Context(), nil))
	require.Equal(t, []string{
		"put JWT_SECRET", `settings {"name":"JWT_SECRET","category":"auth","event":"put"}`,
		"delete JWT_SECRET", `settings {"name":"JWT_SECRET","category":"auth","event":"deleted"}`,
		"put A", "put B", `settings {"name":"A","category":"other","event":"put"}`,
		`settings {"name":"B","category":"other","event":"put"}`,
	}, f.calls)
	f.fails = errors.New("away")
	_, err := s.Put(t.Context(), records.NewSetting{Name: "A"})
	require.ErrorIs(t, err, f.fails, "so that the caller repeats it")
	require.ErrorIs(t, s.Delete(t.Context(), "A"), f.fails)
	f.fails = fault.ErrStorageFull
	require.NoError(t, s.Delete(t.Context(), "A"), "a delete frees memory, and readers notice it later")
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	s, f := newService()
	require.Equal(t, records.Setting{Name: "SMTP_PASSWORD", Category: records.CategoryIntegrations, Secret: true,
		Masked: true}, put(t, s, "SMTP_PASSWORD", "hidden"))
	put(t, s, "LOG_LEVEL", "debug")
	f.kept["FOREIGN"] = records.StoredSetting{Exists: true, Value: "hidden"}
	for _, name := range []string{"SMTP_PASSWORD", "FOREIGN"} {
		masked, err := s.Get(t.Context(), name, false)
		require.NoError(t, err)
		require.Equal(t, records.Setting{Name: name, Category: records.CategoryOf(name), Secret: true, Masked: true},
			masked)
		clear, err := s.Get(t.Context(), name, true)
		require.NoError(t, err)
		require.Equal(t, records.Setting{Name: name, Category: records.CategoryOf(name), Secret: true,
			Value: "hidden"}, clear)
	}
	page, _, err := s.List(t.Context(), records.SettingList{})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(page), "hidden")
	require.Contains(t, fmt.Sprint(page), "debug")
	no := false
	kept, err := s.Put(t.Context(), records.NewSetting{Name: "PUBLIC_KEY", Value: "x", Secret: &no})
	require.NoError(t, err)
	require.False(t, kept.Secret, "its writer said so")
	_, err = s.Get(t.Context(), "NONE", true)
	require.ErrorIs(t, err, records.ErrNoSetting)
}

func TestPages(t *testing.T) {
	t.Parallel()
	s, f := newService()
	var want []string
	for n := range 250 {
		want = append(want, fmt.Sprintf("LOG_%03d", n))
		put(t, s, want[n], "x")
		put(t, s, fmt.Sprintf("FEATURE_%03d", n), "x")
	}
	f.marks = []string{"LOG_0005", "LOG_9"} // their values are gone
	for limit, pages := range map[int]int{0: 3, 7: 36, 1000: 3} {
		var found []string
		list, n := records.SettingList{Category: records.CategoryLogging, Limit: limit}, 0
		for more := true; more; n++ {
			page, next, err := s.List(t.Context(), list)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), records.MaxSettingsPage)
			for _, setting := range page {
				found = append(found, setting.Name)
			}
			list.After, more = next, next != ""
		}
		require.Equal(t, want, found)
		require.Equal(t, pages, n)
	}
	_, _, err := s.List(t.Context(), records.SettingList{Category: "logs"})
	requireInvalid(t, err, fault.SlugInvalidQuery, "category")
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s, f := newService()
	for _, name := range []string{"", "A B", "A{B}", "A:B", "1A", "-A", ".", "..", "ä", "A\n", "A%", "export", "import",
		strings.Repeat("A", 129)} {
		_, err := s.Put(t.Context(), records.NewSetting{Name: name})
		requireInvalid(t, err, fault.SlugInvalidID, "name")
		requireInvalid(t, s.Delete(t.Context(), name), fault.SlugInvalidID, "name")
		_, err = s.Get(t.Context(), name, true)
		requireInvalid(t, err, fault.SlugInvalidID, "name")
	}
	for _, value := range []string{strings.Repeat("x", 16<<10+1), "\xff"} {
		_, err := s.Put(t.Context(), records.NewSetting{Name: "A", Value: value})
		requireInvalid(t, err, fault.SlugInvalidSetting, "value")
		requireInvalid(t, s.Import(t.Context(), []records.NewSetting{{Name: "A"}, {Name: "B", Value: value}}),
			fault.SlugInvalidSetting, "settings[1].value")
	}
	requireInvalid(t, s.Import(t.Context(), []records.NewSetting{{Name: "A"}, {Name: "B "}}), fault.SlugInvalidID,
		"settings[1].name")
	requireInvalid(t, s.Import(t.Context(), make([]records.NewSetting, records.MaxSettingsPage+1)), fault.SlugInvalidSetting,
		"settings")
	require.Empty(t, f.calls, "nothing is written of an import of which something is wrong")
}

// TestSettingNames has all names of Discours.io, with their expected categories and secrecy.
func TestSettingNames(t *testing.T) {
	t.Parallel()
	for category, names := range map[records.Category]string{
		records.CategoryDatabase: "DB_URL* POSTGRES_HOST POSTGRES_PASSWORD* DATABASE_URL*",
		records.CategoryAuth:     "JWT_SECRET* OAUTH_GOOGLE_CLIENT_ID OAUTH_GOOGLE_CLIENT_SECRET*",
		records.CategoryRedis:    "REDIS_URL* REDIS_HOST REDIS_PORT", records.CategorySearch: "SEARCH_API_KEY* ELASTICSEARCH_URL*",
		records.CategoryIntegrations: "GOOGLE_ANALYTICS_ID SENTRY_DSN* SMTP_HOST SMTP_PASSWORD*",
		records.CategorySecurity:     "CORS_ORIGINS ALLOWED_HOSTS",
		records.CategoryLogging:      "LOG_LEVEL DEBUG", records.CategoryFeatures: "FEATURE_REGISTRATION",
		records.CategoryOther: "DEBUGGER FEATURED LOGO PORT SITE_URL apiKey* api_token* TLS.key* STRIPE_KEYS* KEYBOARD PASSENGERS",
	} {
		for name := range strings.FieldsSeq(names) {
			name, secret := strings.CutSuffix(name, "*")
			require.Equal(t, category, records.CategoryOf(name), name)
			require.Equal(t, secret, records.SecretByName(name), name)
		}
	}
	require.Len(t, records.Categories(), 9)
}
