package keys_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var publish = json.RawMessage(`[{"actions":["publish"],"channels":["news"]}]`)

func open(t testing.TB, store accesskeys.Store, file string) *accesskeys.Registry {
	t.Helper()
	r, err := accesskeys.New(accesskeys.Options{Store: store, File: file, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, r.Refresh(t.Context()))
	return r
}

func create(t testing.TB, r *accesskeys.Registry, n accesskeys.NewKey) (accesskeys.Key, string) {
	t.Helper()
	if n.Grants == nil {
		n.Grants = publish
	}
	k, text, err := r.Create(t.Context(), n)
	require.NoError(t, err)
	return k, text
}

// pass advances time, and waits until all goroutines are idle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// valid reports whether a registry accepts a credential.
func valid(t testing.TB, r *accesskeys.Registry, text string) bool {
	t.Helper()
	p, err := r.Authenticate(t.Context(), text)
	if err == nil {
		require.False(t, r.Revoked(p))
		return true
	}
	require.Nil(t, p)
	require.True(t, errors.Is(err, access.ErrInvalidCredential) || errors.Is(err, access.ErrRevoked) ||
		errors.Is(err, access.ErrExpired), err)
	return false
}

func TestKeysAreAccepted(t *testing.T) {
	t.Parallel()
	store := newFake()
	first, other := open(t, store, ""), open(t, store, "")
	k, text := create(t, first, accesskeys.NewKey{Description: "shop", Limits: "waits=5", CreatedBy: "admin"})
	require.Regexp(t, `^tmk_[a-z2-7]{16}_[\w-]{43}$`, text)
	require.True(t, first.Accepts(text))
	require.True(t, valid(t, first, text), "at once where it was made")
	require.False(t, valid(t, other, text))
	require.NoError(t, other.Refresh(t.Context()))
	p, err := other.Authenticate(t.Context(), text)
	require.NoError(t, err)
	require.Equal(t, "key:"+k.ID, p.Name())
	require.Equal(t, access.APIKey, p.Kind)
	require.Len(t, p.Grants, 1)
	require.Equal(t, access.Limits{Waits: 5}, p.Limits)
	same, err := other.Authenticate(t.Context(), text)
	require.NoError(t, err)
	require.Same(t, p, same, "requests share it")

	kept := fmt.Sprint(store.records, k)
	require.NotContains(t, kept, text[len(text)-43:], "the secret isn't kept")
	require.Contains(t, string(store.records[k.ID].Value), "shop")
}

// TestForgedKeys: no changed text is accepted as a key.
func TestForgedKeys(t *testing.T) {
	t.Parallel()
	r := open(t, newFake(), "")
	a, textA := create(t, r, accesskeys.NewKey{})
	b, textB := create(t, r, accesskeys.NewKey{})
	secretA := strings.TrimPrefix(textA, "tmk_"+a.ID+"_")
	last := textA[:len(textA)-1]
	for _, forged := range []string{
		"", "tmk_", "tmk_" + a.ID, "tmk_" + a.ID + "_", last, textA + "A", textA + "=", textA + " ", " " + textA,
		textA + "\n",
		strings.ToUpper(textA), "TMK_" + textA[4:], "tmk_" + strings.ToUpper(a.ID) + "_" + secretA,
		"tmk_" + b.ID + "_" + secretA, "tmk_" + a.ID + "_" + strings.TrimPrefix(textB, "tmk_"+b.ID+"_"),
		"tmk_" + a.ID + "_" + strings.Repeat("A", 43), "tmk_" + strings.Repeat("a", 16) + "_" + secretA,
		"tmk_" + a.ID + "-" + secretA, strings.Replace(textA, "_", "\x00", 1), fmt.Sprintf("%x", a.Hash),
		"tmk_" + a.ID + "_" + fmt.Sprintf("%x", a.Hash)[:43],
		textA + strings.Repeat("A", 1<<20), strings.Repeat("tmk_", 1<<18), textA + textA, textA + "," + textB,
	} {
		_, err := r.Authenticate(t.Context(), forged)
		require.ErrorIs(t, err, access.ErrInvalidCredential, "%.80q", forged)
	}
	for text, reason := range map[string]string{
		last: "not all of it", "tmk_" + strings.Repeat("a", 16) + "_" + secretA: "no API key with its ID",
		"tmk_" + b.ID + "_" + secretA: "another secret",
	} {
		_, err := r.Authenticate(t.Context(), text)
		require.ErrorContains(t, err, reason, "for the log")
		require.NotContains(t, err.Error(), secretA)
	}
	for c := byte(0); c < 128; c++ { // the last character has unused bits, which must not be ignored
		if c != textA[len(textA)-1] {
			require.False(t, valid(t, r, last+string(c)), "%q", c)
		}
	}
	require.True(t, valid(t, r, textA))
}

func TestExpiredKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		r := open(t, store, "")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		_, text := create(t, r, accesskeys.NewKey{Expires: time.Now().Add(time.Hour)})
		_, lasting := create(t, r, accesskeys.NewKey{})
		require.True(t, valid(t, r, text))
		pass(time.Hour)
		_, err := r.Authenticate(t.Context(), text)
		require.ErrorIs(t, err, access.ErrExpired)
		pass(accesskeys.ExpiredLife + 2*time.Minute)
		require.True(t, valid(t, r, lasting))
		require.Equal(t, 1, r.Counts().Keys, "it is forgotten a week later")
		stop()
		require.NoError(t, <-done)
	})
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	r := open(t, newFake(), "")
	long := strings.Repeat("x", 1025)
	grants := func(n int) json.RawMessage {
		return json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(`{"actions":["publish"]},`, n), ",") + "]")
	}
	for _, tt := range []struct {
		field string
		key   accesskeys.NewKey
	}{
		{"description", accesskeys.NewKey{Grants: publish, Description: long}},
		{"description", accesskeys.NewKey{Grants: publish, Description: "\xff"}},
		{"expires", accesskeys.NewKey{Grants: publish, Expires: time.Now()}},
		{"grants", accesskeys.NewKey{}},
		{"grants", accesskeys.NewKey{Grants: json.RawMessage(`{}`)}},
		{"grants", accesskeys.NewKey{Grants: grants(65)}},
		{"grants[0].actions[0]", accesskeys.NewKey{Grants: json.RawMessage(`[{"actions":["all"]}]`)}},
		{"grants[0].channels[1]", accesskeys.NewKey{
			Grants: json.RawMessage(`[{"actions":["publish"],"channels":["news","chat[.].*"]}]`),
		}},
		{"grants[0].action", accesskeys.NewKey{Grants: json.RawMessage(`[{"action":["publish"]}]`)}},
		{"", accesskeys.NewKey{
			Description: long[1:],
			Grants: json.RawMessage(`[{"actions":["publish"],"channels":["` + strings.Repeat(long[:250]+`","`,
				62) + `x"]}]`),
		}},
		{"limits", accesskeys.NewKey{Grants: publish, Limits: "requests=many"}},
	} {
		_, _, err := r.Create(t.Context(), tt.key)
		var clientErr *fault.Error
		require.ErrorAs(t, err, &clientErr, tt.field)
		require.Equal(t, fault.SlugInvalidKey, clientErr.Slug)
		require.Equal(t, tt.field, clientErr.Field, clientErr)
	}
	create(t, r, accesskeys.NewKey{Grants: grants(64)})
	create(t, r, accesskeys.NewKey{Grants: json.RawMessage(`[]`)})
}

// user returns a user's principal.
func user(subject, jti string, issued time.Time) *access.Principal {
	return &access.Principal{Kind: access.User, Subject: subject, Credential: jti, Issued: issued}
}

func TestRevocations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		first, other := open(t, store, ""), open(t, store, "")
		before, ann := time.Now().Add(-time.Second), "ann"
		_, err := first.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: "j1",
			Until: time.Now().Add(time.Hour)})
		require.NoError(t, err)
		_, err = first.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: ann})
		require.NoError(t, err)
		pass(time.Second)
		require.NoError(t, other.Refresh(t.Context()))
		for _, r := range []*accesskeys.Registry{first, other} {
			require.True(t, r.Revoked(user("bob", "j1", before)))
			require.True(t, r.Revoked(user("bob", "j1", time.Now())), "whenever it was issued")
			require.False(t, r.Revoked(user("bob", "J1", before)))
			require.False(t, r.Revoked(user("j1", "", before)))
			require.True(t, r.Revoked(user(ann, "j2", before)))
			require.True(t, r.Revoked(user(ann, "", time.Time{})), "when it was issued isn't known")
			require.True(t, r.Revoked(&access.Principal{Kind: access.Session, Subject: ann, Issued: before}))
			require.False(t, r.Revoked(user(ann, "j2", time.Now())), "issued since")
			require.False(t, r.Revoked(user("", ann, before)))
			require.False(t, r.Revoked(&access.Principal{Kind: access.TicketHolder, Credential: "j1"}))
			require.False(t, r.Revoked(access.Anonymous()))
			require.False(t, r.Revoked(access.Local()))
		}
		pass(2 * time.Hour)
		require.False(t, first.Revoked(user("bob", "j1", before)), "it has ended")
		require.True(t, first.Revoked(user(ann, "", before)))
	})
}

func TestBadRevocations(t *testing.T) {
	t.Parallel()
	r := open(t, newFake(), "")
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for _, tt := range []struct {
		field string
		what  accesskeys.Revocation
	}{
		{"", accesskeys.Revocation{}},
		{"", accesskeys.Revocation{Kind: accesskeys.RevokedKey, Name: "a"}},
		{"jti", accesskeys.Revocation{Kind: accesskeys.RevokedToken}},
		{"jti", accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: strings.Repeat("x", 257)}},
		{"subject", accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "a\x00"}},
		{"subject", accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "\xff"}},
		{"until", accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "a", Until: in(-time.Second)}},
		{"until", accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "a", Until: in(401 * 24 * time.Hour)}},
	} {
		_, err := r.Revoke(t.Context(), tt.what)
		var clientErr *fault.Error
		require.ErrorAs(t, err, &clientErr, tt.what)
		require.Equal(t, fault.SlugInvalidRevocation, clientErr.Slug)
		require.Equal(t, tt.field, clientErr.Field, clientErr)
	}
	require.Zero(t, r.Counts().Revocations)
}

func TestDeletedKeys(t *testing.T) {
	t.Parallel()
	store := newFake()
	first, other := open(t, store, ""), open(t, store, "")
	k, text := create(t, first, accesskeys.NewKey{})
	require.NoError(t, other.Refresh(t.Context()))
	p, err := other.Authenticate(t.Context(), text)
	require.NoError(t, err)
	ended := 0
	stop := other.Notify(func() { ended++ })
	require.NoError(t, first.Delete(t.Context(), k.ID))
	require.False(t, valid(t, first, text))
	require.False(t, other.Revoked(p))
	require.NoError(t, other.Refresh(t.Context()))
	require.Equal(t, 1, ended, "waits are ended")
	require.True(t, other.Revoked(p))
	_, err = other.Authenticate(t.Context(), text)
	require.ErrorIs(t, err, access.ErrRevoked)
	stop()
	_, err = first.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "a"})
	require.NoError(t, err)
	require.NoError(t, other.Refresh(t.Context()))
	require.Equal(t, 1, ended)
	for _, id := range []string{"", "aaaaaaaaaaaaaaaa", "../x", k.ID + "a"} {
		require.ErrorIs(t, first.Delete(t.Context(), id), accesskeys.ErrNoKey, id)
	}
}

// TestNotifications: with notifications a change is known at once, without them within half a second; the calls to the
// store don't depend on requests.
func TestNotifications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		one, other := open(t, store, ""), open(t, store, "")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- other.Run(ctx) }()
		synctest.Wait()
		_, first := create(t, one, accesskeys.NewKey{})
		synctest.Wait()
		require.True(t, valid(t, other, first))
		store.mute()
		k, second := create(t, one, accesskeys.NewKey{})
		synctest.Wait()
		require.False(t, valid(t, other, second))
		pass(500 * time.Millisecond)
		require.True(t, valid(t, other, second))
		require.NoError(t, one.Delete(t.Context(), k.ID))
		pass(500 * time.Millisecond)
		require.False(t, valid(t, other, second))

		store.fail(fault.ErrUnavailable)
		pass(time.Minute)
		require.True(t, valid(t, other, first), "what is known stays")
		require.False(t, valid(t, other, second))
		store.fail(nil)
		pass(time.Second)
		require.WithinDuration(t, time.Now(), other.Counts().Current, time.Second)
		stop()
		require.NoError(t, <-done)
		require.Equal(t, 2, other.Counts().Loads, "at the start, and with the first change of all")
	})
}

// TestLostWrites: after a fail-over, or the loss of all data, the valid keys are those in the store, and all
// revocations that any server knew stay in force, even if only the server that answered knew them and hadn't read them
// yet.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		all, read bool
	}{{}, {all: true}, {read: true}, {all: true, read: true}} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			t.Parallel()
			all, store := tt.all, newFake()
			first, other := open(t, store, ""), open(t, store, "")
			kept, keptText := create(t, first, accesskeys.NewKey{})
			deleted, deletedText := create(t, first, accesskeys.NewKey{})
			require.NoError(t, first.Refresh(t.Context()))
			_, err := first.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "ann"})
			require.NoError(t, err)
			before, changes := map[string]accesskeys.Record{kept.ID: store.records[kept.ID],
				deleted.ID: store.records[deleted.ID]}, 2
			require.NoError(t, first.Delete(t.Context(), deleted.ID))
			lost, lostText := create(t, first, accesskeys.NewKey{})
			require.True(t, valid(t, first, lostText))
			for _, r := range []*accesskeys.Registry{first, other} {
				if tt.read {
					require.NoError(t, r.Refresh(t.Context()))
					require.True(t, valid(t, r, lostText))
				}
			}

			store.lose(func() {
				store.records, store.revoked, store.changes = before, map[string]accesskeys.Revocation{},
					store.changes[:changes]
				if all {
					store.records, store.changes = map[string]accesskeys.Record{}, nil
				}
			})
			later := open(t, store, "")
			require.False(t, later.Revoked(user("ann", "", time.Time{})),
				"a server that starts now knows nothing of it")
			require.Equal(t, !all, valid(t, later, deletedText))
			ended := 0
			defer first.Notify(func() { ended++ })()
			for _, r := range []*accesskeys.Registry{first, other, later} {
				require.NoError(t, r.Refresh(t.Context()))
			}
			require.NotZero(t, ended)
			for _, r := range []*accesskeys.Registry{first, other, later} {
				require.False(t, valid(t, r, deletedText))
				require.False(t, valid(t, r, lostText))
				require.Equal(t, !all, valid(t, r, keptText))
				require.True(t, r.Revoked(user("ann", "", time.Time{})))
			}
			require.NotContains(t, store.has(), lost.ID)
			require.Contains(t, store.has(), "subject:ann")
			require.Contains(t, store.has(), "key:"+deleted.ID)
			reads := store.reads
			require.NoError(t, first.Refresh(t.Context()))
			require.Equal(t, reads, store.reads, "then all is quiet")
		})
	}
}

// TestTheLastChangeIsLost: for each kind of change, with any number of the server's changes that weren't lost.
func TestTheLastChangeIsLost(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *accesskeys.Registry, id string) error{
		"key": func(r *accesskeys.Registry, _ string) error {
			_, _, err := r.Create(t.Context(), accesskeys.NewKey{Grants: publish})
			return err
		},
		"deletion": func(r *accesskeys.Registry, id string) error { return r.Delete(t.Context(), id) },
		"revocation": func(r *accesskeys.Registry, _ string) error {
			_, err := r.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedSubject, Name: "ann"})
			return err
		},
	} {
		for _, others := range []int{0, 300} {
			store := newFake()
			r := open(t, store, "")
			k, _ := create(t, r, accesskeys.NewKey{})
			require.NoError(t, r.Refresh(t.Context()))
			for range others {
				create(t, r, accesskeys.NewKey{})
			}
			require.NoError(t, change(r, k.ID))
			loads := r.Counts().Loads
			store.lose(func() { store.changes = store.changes[:len(store.changes)-1] })
			require.NoError(t, r.Refresh(t.Context()))
			require.Equal(t, loads+1, r.Counts().Loads, "%s after %d others", name, others)
		}
	}
}

// TestWaitsGoOnWhileTheStoreIsReadAgain: a principal stays the same while its key doesn't change.
func TestWaitsGoOnWhileTheStoreIsReadAgain(t *testing.T) {
	t.Parallel()
	store := newFake()
	r := open(t, store, "")
	_, text := create(t, r, accesskeys.NewKey{})
	p, err := r.Authenticate(t.Context(), text)
	require.NoError(t, err)
	require.NoError(t, r.Refresh(t.Context()), "its own change")
	require.False(t, r.Revoked(p))
	loads := r.Counts().Loads
	store.lose(func() { store.changes = nil })
	require.NoError(t, r.Refresh(t.Context()))
	require.Equal(t, loads+1, r.Counts().Loads)
	require.False(t, r.Revoked(p))
}

func TestPages(t *testing.T) {
	t.Parallel()
	r := open(t, newFake(), "")
	for n := range 7 {
		create(t, r, accesskeys.NewKey{})
		_, err := r.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: fmt.Sprint(n)})
		require.NoError(t, err)
	}
	var ids, names []string
	for after := "-"; after != ""; {
		page, next, err := r.Keys(t.Context(), strings.Trim(after, "-"), 3)
		require.NoError(t, err)
		for _, k := range page {
			ids = append(ids, k.ID)
		}
		after = next
	}
	require.Len(t, ids, 7)
	require.IsIncreasing(t, ids)
	for after := "-"; after != ""; {
		page, next, err := r.Revocations(t.Context(), strings.Trim(after, "-"), 3)
		require.NoError(t, err)
		for _, revocation := range page {
			names = append(names, revocation.Name)
		}
		after = next
	}
	require.Equal(t, strings.Split("0123456", ""), names)
}

// line returns a line of the file of keys.
func line(t testing.TB, n accesskeys.NewKey) (k accesskeys.Key, text, line string) {
	t.Helper()
	if n.Grants == nil {
		n.Grants = publish
	}
	k, text, err := accesskeys.Generate(n, time.Now())
	require.NoError(t, err)
	encoded, err := json.Marshal(k)
	require.NoError(t, err)
	return k, text, "- " + string(encoded) + "\n"
}

func TestTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
		a, textA, lineA := line(t, accesskeys.NewKey{Expires: time.Now().Add(time.Hour)})
		b, textB, _ := line(t, accesskeys.NewKey{})
		write("# ours\n" + lineA +
			fmt.Sprintf(
				"- id: %s\n  hash: %x\n  description: shop\n  grants:\n  - actions: [publish]\n    channels: [news, 'chat[.].*']\n  expires: 2100-01-01\n", b.ID, b.Hash))
		store := newFake()
		r := open(t, store, path)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		require.True(t, valid(t, r, textA))
		p, err := r.Authenticate(t.Context(), textB)
		require.NoError(t, err)
		require.Equal(t, 2100, p.Expires.Year())
		require.ErrorIs(t, r.Delete(t.Context(), a.ID), accesskeys.ErrKeyConfigured)
		keys, _, err := r.Keys(t.Context(), "", 10)
		require.NoError(t, err)
		require.Len(t, keys, 2)
		require.True(t, keys[0].Configured && keys[1].Configured)

		ended := false
		defer r.Notify(func() { ended = true })()
		for _, bad := range []string{"[]\n" + lineA, "- id: x\n", "", "{}", "- 1", lineA + lineA, lineA[:20], "- {}",
			"a: b", strings.Replace(lineA, "grants", "Grants", 1)} {
			if bad == "" {
				require.NoError(t, os.Remove(path))
			} else {
				write(bad)
			}
			pass(time.Second)
			require.True(t, valid(t, r, textB), "what can't be used changes nothing: %s", bad)
		}
		write(lineA)
		pass(time.Second)
		require.True(t, ended)
		require.True(t, valid(t, r, textA))
		require.False(t, valid(t, r, textB))
		require.True(t, r.Revoked(p))
		stop()
		require.NoError(t, <-done)
	})
}

// TestAKeyThatChanges: waits with a key end when its grants change, and the key must be presented again.
func TestAKeyThatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		k, text, entry := line(t, accesskeys.NewKey{})
		_, _, other := line(t, accesskeys.NewKey{})
		require.NoError(t, os.WriteFile(path, []byte(entry), 0o600))
		r := open(t, newFake(), path)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		p, err := r.Authenticate(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(entry+other), 0o600))
		pass(time.Second)
		require.False(t, r.Revoked(p), "another key came")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(entry, `"news"`, `"news","more"`, 1)), 0o600))
		pass(time.Second)
		require.True(t, r.Revoked(p))
		now, err := r.Authenticate(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, k.ID, now.Credential)
		require.NotEqual(t, p.Grants, now.Grants)
		stop()
		require.NoError(t, <-done)
	})
}

// TestAStoredKeyThatChanges is TestAKeyThatChanges for a record that is replaced in the store.
func TestAStoredKeyThatChanges(t *testing.T) {
	t.Parallel()
	store := newFake()
	r := open(t, store, "")
	k, text := create(t, r, accesskeys.NewKey{})
	require.NoError(t, r.Refresh(t.Context()))
	p, err := r.Authenticate(t.Context(), text)
	require.NoError(t, err)
	ended := false
	defer r.Notify(func() { ended = r.Revoked(p) })()
	record := store.records[k.ID]
	record.Value = bytes.Replace(record.Value, []byte(`"news"`), []byte(`"more"`), 1)
	store.records[k.ID] = record
	store.note(k.ID)
	require.NoError(t, r.Refresh(t.Context()))
	require.True(t, ended)
}

// TestAFileThatIsBeingWritten isn't read: without its last lines a grant would be for all channels.
func TestAFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		k, text, _ := line(t, accesskeys.NewKey{})
		whole := fmt.Sprintf("- id: %s\n  hash: %x\n  grants:\n  - actions: [publish]\n    channels: [news]\n", k.ID,
			k.Hash)
		require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
		r := open(t, newFake(), path)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		p, err := r.Authenticate(t.Context(), text)
		require.NoError(t, err)
		for n := range len("    channels: [news]\n") {
			require.NoError(t, os.WriteFile(path, []byte(whole[:len(whole)-n-1]), 0o600))
			pass(time.Second / 2) // one look
			require.False(t, r.Revoked(p), whole[:len(whole)-n-1])
		}
		stop()
		require.NoError(t, <-done)
	})
}

// TestTheFileWins: a key of the file counts although the store has another one with its ID.
func TestTheFileWins(t *testing.T) {
	t.Parallel()
	store := newFake()
	r := open(t, store, "")
	k, stored := create(t, r, accesskeys.NewKey{})
	other, text, entry := line(t, accesskeys.NewKey{})
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text = strings.Replace(text, other.ID, k.ID, 1)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(entry, other.ID, k.ID, 1)), 0o600))
	r = open(t, store, path)
	require.False(t, valid(t, r, stored))
	require.False(t, valid(t, r, text), "the hash is about another ID")
	keys, _, err := r.Keys(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.True(t, keys[0].Configured)

	_, err = accesskeys.New(accesskeys.Options{Store: store, File: path + "x", Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "no such file")
}

// TestBoundedMemory: the memory of a hundred thousand revocations with names of ordinary length.
func TestBoundedMemory(t *testing.T) {
	t.Parallel()
	store := newFake()
	for n := range accesskeys.MaxRevocations {
		name := fmt.Sprintf("7f9c2ba4-e88f-4b61-9a3c-%012d", n)
		store.revoked["jti:"+name] = accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: name, At: time.Now(),
			Until: time.Now().Add(time.Hour)}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := open(t, store, "")
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes for each revocation", (int64(after.HeapAlloc)-int64(before.HeapAlloc))/accesskeys.MaxRevocations)
	require.Equal(t, accesskeys.MaxRevocations, r.Counts().Revocations)
	_, err := r.Revoke(t.Context(), accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: "one more"})
	require.ErrorIs(t, err, accesskeys.ErrTooManyRevocations)

	// A store that repeatedly loses all revocations and gets others doesn't make the server's memory grow.
	for history := range 2 {
		store.lose(func() {
			clear(store.revoked)
			for n := range accesskeys.MaxRevocations {
				name := fmt.Sprint(history, " ", n)
				store.revoked["jti:"+name] = accesskeys.Revocation{Kind: accesskeys.RevokedToken, Name: name,
					At: time.Now(), Until: time.Now().Add(time.Hour)}
			}
			store.changes = []change{{"jti:0 0", store.history}}
		})
		require.NoError(t, r.Refresh(t.Context()))
		require.LessOrEqual(t, r.Counts().Revocations, 2*accesskeys.MaxRevocations)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	r := open(b, newFake(), "")
	for range 1000 {
		create(b, r, accesskeys.NewKey{})
	}
	_, text := create(b, r, accesskeys.NewKey{})
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Authenticate(b.Context(), text)
		if err != nil || r.Revoked(p) {
			b.Fatal(err)
		}
	}
}
