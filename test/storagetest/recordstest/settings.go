package recordstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// Most is the number of settings that a store has room for.
const Most = 20

// SettingHarness is a store for a single case, with direct access to its data.
type SettingHarness interface {
	// Store returns the store, which has room for Most settings.
	Store() records.SettingStore
	// Lose removes the value of a setting, as an interrupted delete does.
	Lose(ctx context.Context, name string) error
	// Age moves the marks of all settings into the past.
	Age(ctx context.Context, d time.Duration) error
}

var settingCases = []storagetest.Case[*settingSubject]{
	{Name: "a setting is kept", Notice: "a setting is lost", Run: settingKeeps},
	{Name: "a setting is as secret as it was", Notice: "a secret is shown after its value was changed",
		Run: staysSecret},
	{Name: "what nobody marked is secret", Notice: "a value that another program wrote is shown", Run: unmarked},
	{Name: "readers never see a secret as public", Notice: "a list shows a secret while it is written",
		Run: neverShown},
	{Name: "a delete can be repeated", Notice: "a delete that ended in its middle can't be completed", Run: deletes},
	{Name: "puts and deletes may race", Notice: "a setting has a value, and no list shows it", Run: races},
	{Name: "settings are bounded", Notice: "a loop fills the storage with settings", Run: settingBounded},
	{Name: "what was deleted makes room", Notice: "names that were used once can't be replaced by others",
		Run: makesRoom},
	{Name: "values are any text", Notice: "a certificate is changed when it is stored", Run: anyText},
}

// RunSettings runs all cases as parallel subtests of t, each on a harness of its own.
func RunSettings(t *testing.T, open func(t testing.TB) SettingHarness) {
	t.Helper()
	storagetest.Run(t, settingCases, func(t testing.TB) *settingSubject {
		h := open(t)
		return &settingSubject{t: t, h: h, store: h.Store()}
	})
}

// settingSubject is a store, with the calls that cases make. An unexpected error fails the case.
type settingSubject struct {
	t     testing.TB
	h     SettingHarness
	store records.SettingStore
}

func (s *settingSubject) put(name, value string, want records.Secrecy) records.Secrecy {
	s.t.Helper()
	is, err := s.store.Put(s.t.Context(), records.SettingPut{Name: name, Value: value, Want: want, Usual: records.Public})
	require.NoError(s.t, err)
	return is
}

func (s *settingSubject) delete(name string) {
	s.t.Helper()
	require.NoError(s.t, s.store.Delete(s.t.Context(), name))
}

// read returns settings as "<value> <secrecy>", and "" for one that doesn't exist.
func (s *settingSubject) read(names ...string) []string {
	s.t.Helper()
	found, err := s.store.Read(s.t.Context(), names)
	require.NoError(s.t, err)
	require.Len(s.t, found, len(names))
	var all []string
	for _, f := range found {
		text := ""
		if f.Exists {
			text = f.Value + " " + string(f.Is)
		}
		all = append(all, text)
	}
	return all
}

func (s *settingSubject) names() []string {
	s.t.Helper()
	names, err := s.store.Names(s.t.Context())
	require.NoError(s.t, err)
	require.True(s.t, slices.IsSorted(names))
	return names
}

func settingKeeps(s *settingSubject) {
	require.Empty(s.t, s.names())
	require.Equal(s.t, []string{""}, s.read("B"))
	require.Equal(s.t, records.Public, s.put("B", "1", ""))
	s.put("A", "", records.Secret)
	s.put("B", "2", "")
	require.Equal(s.t, []string{"2 public", "", " secret"}, s.read("B", "C", "A"))
	require.Equal(s.t, []string{"A", "B"}, s.names())
	found, err := s.store.Read(s.t.Context(), nil)
	require.NoError(s.t, err)
	require.Empty(s.t, found)
}

func staysSecret(s *settingSubject) {
	is, err := s.store.Put(s.t.Context(), records.SettingPut{Name: "A", Value: "1", Usual: records.Secret})
	require.NoError(s.t, err)
	require.Equal(s.t, records.Secret, is)
	require.Equal(s.t, records.Secret, s.put("A", "2", ""), "although it isn't usual")
	require.Equal(s.t, records.Public, s.put("A", "3", records.Public))
	require.Equal(s.t, records.Public, s.put("A", "4", ""))
	require.Equal(s.t, records.Secret, s.put("A", "5", records.Secret))
	require.Equal(s.t, []string{"5 secret"}, s.read("A"))
}

func unmarked(s *settingSubject) {
	s.put("A", "1", "")
	require.NoError(s.t, s.h.Age(s.t.Context(), time.Hour))
	s.delete("A")
	require.Empty(s.t, s.names(), "its mark is gone")
	s.put("A", "1", records.Secret)
	require.NoError(s.t, s.h.Lose(s.t.Context(), "A"))
	require.Equal(s.t, []string{""}, s.read("A"), "a mark without a value is no setting")
}

// neverShown changes a setting between secret and public during reads.
func neverShown(s *settingSubject) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for ctx.Err() == nil {
				found, err := s.store.Read(s.t.Context(), []string{"A"})
				if err != nil {
					return err
				}
				if found[0].Value == "secret" && found[0].Is == records.Public {
					return fmt.Errorf("a secret is shown")
				}
			}
			return nil
		})
	}
	for range 100 {
		s.put("A", "secret", records.Secret)
		s.put("A", "public", records.Public)
	}
	cancel()
	require.NoError(s.t, g.Wait())
	require.Equal(s.t, []string{"public public"}, s.read("A"))
}

func deletes(s *settingSubject) {
	s.put("A", "1", "")
	s.put("B", "2", "")
	require.NoError(s.t, s.h.Age(s.t.Context(), time.Hour))
	require.NoError(s.t, s.h.Lose(s.t.Context(), "A"))
	for range 2 {
		s.delete("A")
		require.Equal(s.t, []string{"B"}, s.names())
	}
	require.Equal(s.t, records.Secret, s.put("A", "3", records.Secret))
	s.delete("A")
	require.Equal(s.t, []string{"", "2 public"}, s.read("A", "B"))
}

// races puts and deletes the same setting concurrently. Whatever the outcome, a setting with a value is listed.
func races(s *settingSubject) {
	for range 20 {
		require.NoError(s.t, s.h.Age(s.t.Context(), time.Hour))
		var g errgroup.Group
		for n := range 8 {
			g.Go(func() error {
				if n%2 == 0 {
					return s.store.Delete(s.t.Context(), "A")
				}
				_, err := s.store.Put(s.t.Context(), records.SettingPut{Name: "A", Value: "1", Usual: records.Public})
				return err
			})
		}
		require.NoError(s.t, g.Wait())
		if s.read("A")[0] != "" {
			require.Equal(s.t, []string{"A"}, s.names())
		}
	}
}

func (s *settingSubject) fill() {
	s.t.Helper()
	for n := range Most {
		s.put(fmt.Sprint("S", n), "1", "")
	}
}

func settingBounded(s *settingSubject) {
	s.fill()
	_, err := s.store.Put(s.t.Context(), records.SettingPut{Name: "MORE", Value: "1", Usual: records.Public})
	require.ErrorIs(s.t, err, records.ErrManySettings)
	require.Equal(s.t, []string{""}, s.read("MORE"))
	s.put("S1", "2", "")
	require.Len(s.t, s.names(), Most)
}

func makesRoom(s *settingSubject) {
	s.fill()
	s.delete("S1")
	require.NoError(s.t, s.h.Age(s.t.Context(), time.Hour))
	require.NoError(s.t, s.h.Lose(s.t.Context(), "S2"))
	s.put("MORE", "1", "")
	s.put("EVEN_MORE", "1", "")
	require.Len(s.t, s.names(), Most)
	require.Equal(s.t, []string{"1 public", "", "", "1 public"}, s.read("S0", "S1", "S2", "MORE"))
}

func anyText(s *settingSubject) {
	values := map[string]string{
		"EMPTY": "", "LINES": "-----BEGIN-----\r\n\tä\n", "BRACES": "{}:%", "LONG": strings.Repeat("x", 16<<10),
		"ZERO": "\x00",
	}
	for name, value := range values {
		s.put(name, value, "")
	}
	for name, value := range values {
		require.Equal(s.t, []string{value + " public"}, s.read(name))
	}
}
