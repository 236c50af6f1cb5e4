package sessions_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
)

// memory is an in-memory store for tests of the service. before is called at the start of each operation, and may fail
// it.
type memory struct {
	alive  map[sessions.Ref]sessions.Session
	log    []string
	before func(operation string) error
}

func (m *memory) begin(operation string) error {
	m.log = append(m.log, operation)
	if m.before != nil {
		return m.before(operation)
	}
	return nil
}

func (m *memory) Create(_ context.Context, d sessions.Draft, _ sessions.Rules) (sessions.Session, error) {
	if err := m.begin("create"); err != nil {
		return sessions.Session{}, err
	}
	m.alive[d.Ref] = sessions.Session{ID: d.ID, User: d.User, Username: d.Username, Device: d.Device, AuthData: d.AuthData}
	return m.alive[d.Ref], nil
}

func (m *memory) Check(_ context.Context, of sessions.Ref, _ sessions.Rules) (sessions.Session, error) {
	if err := m.begin("check"); err != nil {
		return sessions.Session{}, err
	}
	if found, ok := m.alive[of]; ok {
		return found, nil
	}
	return sessions.Session{}, sessions.ErrNotFound
}

func (m *memory) Rotate(_ context.Context, of sessions.Ref, newID string, _ sessions.Rules) (sessions.Session, error) {
	if err := m.begin("rotate"); err != nil {
		return sessions.Session{}, err
	}
	next := sessions.Ref{User: of.User, ID: newID}
	if found, ok := m.alive[next]; ok {
		return found, nil
	}
	found, ok := m.alive[of]
	if !ok {
		return sessions.Session{}, sessions.ErrNotFound
	}
	delete(m.alive, of)
	found.ID = newID
	m.alive[next] = found
	return found, nil
}

func (m *memory) Revoke(_ context.Context, of sessions.Ref) error {
	delete(m.alive, of)
	return m.begin("revoke")
}

func (m *memory) RevokeAll(context.Context, string) (int, error) {
	return 7, m.begin("revoke all")
}

func (m *memory) List(context.Context, string) ([]sessions.Session, error) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	return []sessions.Session{{ID: "b", LastActivity: at(1)}, {ID: "a", LastActivity: at(1)},
		{ID: "c", LastActivity: at(2)}}, m.begin("list")
}

func open(t testing.TB, o sessions.Options) (*sessions.Service, *memory) {
	t.Helper()
	m := &memory{alive: map[sessions.Ref]sessions.Session{}}
	o.Store = m
	s, err := sessions.NewService(o)
	require.NoError(t, err)
	return s, m
}

func issue(t testing.TB, s *sessions.Service, user string) sessions.Issued {
	t.Helper()
	issued, err := s.Create(t.Context(), user, sessions.New{Username: "Ann"})
	require.NoError(t, err)
	return issued
}

// TestTokens: a token of one session gives no access to another, and a malformed token causes no call of the store.
func TestTokens(t *testing.T) {
	t.Parallel()
	s, m := open(t, sessions.Options{})
	long := strings.Repeat("x", 128)
	seen := map[string]bool{}
	for _, user := range []string{"ann", "a", "a:b}{", "анна", long} {
		issued := issue(t, s, user)
		require.False(t, seen[issued.Token[:47]])
		seen[issued.Token[:47]] = true
		require.Regexp(t, `^tms_[\w-]{44,215}$`, issued.Token)
		found, err := s.Check(t.Context(), issued.Token)
		require.NoError(t, err)
		require.Equal(t, user, found.User)
		require.Equal(t, issued.ID, found.ID)
		require.True(t, sessions.IsID(issued.ID))
	}
	ann, bob := issue(t, s, "ann").Token, issue(t, s, "bob").Token
	forged := []string{
		ann[:47] + bob[47:], bob[:47] + ann[47:], // another user's part
		ann + "A", ann[:len(ann)-1], strings.ToUpper(ann), "tms_" + strings.Repeat("A", 43) + ann[47:],
	}
	for _, token := range forged {
		_, err := s.Check(t.Context(), token)
		require.ErrorIs(t, err, sessions.ErrNotFound, token)
	}
	m.log = nil
	for _, token := range []string{
		"", "tms_", ann[:47], "tmk_" + ann[4:], ann[:46] + "=" + ann[47:], ann[:46] + "B" + ann[47:],
		ann[:20] + " " + ann[21:], ann + "\n", ann + "=",
		ann[:47] + base64.RawURLEncoding.EncodeToString([]byte("a\x00b")),
		ann[:47] + base64.RawURLEncoding.EncodeToString([]byte("\xff")),
		ann[:47] + base64.RawURLEncoding.EncodeToString([]byte(long+"x")), strings.Repeat(ann, 1000),
		"eyJhbGciOiJIUzI1NiJ9.e30.c2ln", // a JSON Web Token
	} {
		_, err := s.Check(t.Context(), token)
		require.ErrorIs(t, err, sessions.ErrNotFound, token)
		_, err = s.Rotate(t.Context(), token, "")
		require.ErrorIs(t, err, sessions.ErrNotFound, token)
		_, ok := s.Parse(token)
		require.False(t, ok)
		require.Equal(t, strings.HasPrefix(token, sessions.Prefix), s.Accepts(token), "by its prefix")
	}
	require.Empty(t, m.log)
}

func FuzzParse(f *testing.F) {
	s, _ := open(f, sessions.Options{})
	f.Add(issue(f, s, "ann").Token)
	f.Fuzz(func(t *testing.T, token string) {
		if of, ok := s.Parse(token); ok {
			require.NotEmpty(t, of.User)
			require.True(t, sessions.IsID(of.ID))
		}
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s, m := open(t, sessions.Options{})
	json := func(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }
	right := sessions.New{Username: strings.Repeat("x", sessions.MaxUsernameBytes),
		Device: json(sessions.MaxDeviceBytes), AuthData: json(sessions.MaxAuthBytes)}
	_, err := s.Create(t.Context(), "ann", right)
	require.NoError(t, err)
	m.log = nil
	for field, change := range map[string][]func(n *sessions.New){
		"username": {func(n *sessions.New) { n.Username = "" }, func(n *sessions.New) { n.Username += "x" },
			func(n *sessions.New) { n.Username = "a\nb" }, func(n *sessions.New) { n.Username = "\xff" }},
		"deviceInfo": {func(n *sessions.New) { n.Device = json(sessions.MaxDeviceBytes + 1) },
			func(n *sessions.New) { n.Device = []byte("{") }, func(n *sessions.New) { n.Device = []byte{} }},
		"authData": {func(n *sessions.New) { n.AuthData = json(sessions.MaxAuthBytes + 1) },
			func(n *sessions.New) { n.AuthData = []byte(`{"a":}`) }},
	} {
		for _, wrong := range change {
			n := right
			wrong(&n)
			_, err := s.Create(t.Context(), "ann", n)
			requireFault(t, err, fault.SlugInvalidSession, field)
		}
	}
	for _, user := range []string{"", strings.Repeat("x", 129), "a\x00", "\xff"} {
		_, err := s.Create(t.Context(), user, right)
		requireFault(t, err, fault.SlugInvalidID, "user")
		requireFault(t, s.Revoke(t.Context(), user, strings.Repeat("0", 64)), fault.SlugInvalidID, "user")
		_, err = s.RevokeAll(t.Context(), user)
		requireFault(t, err, fault.SlugInvalidID, "user")
		_, err = s.List(t.Context(), user)
		requireFault(t, err, fault.SlugInvalidID, "user")
	}
	for _, id := range []string{"", "x", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 62) +
		"G0", strings.Repeat("A", 64)} {
		requireFault(t, s.Revoke(t.Context(), "ann", id), fault.SlugInvalidID, "id")
	}
	require.Empty(t, m.log, "the store is asked nothing")
	for _, o := range []sessions.Options{{TTL: time.Millisecond}, {TTL: sessions.DefaultTTL + 1}, {TTL: -1},
		{PerUser: -1}, {PerUser: sessions.MaxPerUser + 1}} {
		_, err := sessions.NewService(o)
		require.Error(t, err)
	}
}

func requireFault(t *testing.T, err error, slug fault.Slug, field string) {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, [2]string{string(slug), field}, [2]string{string(f.Slug), f.Field})
	require.Equal(t, fault.Invalid, f.Kind)
}

// TestRotate: a rotation whose answer was lost can be repeated by its caller, and by no one else.
func TestRotate(t *testing.T) {
	t.Parallel()
	s, _ := open(t, sessions.Options{})
	const key = "0123456789abcdef"
	old := issue(t, s, "ann").Token
	next, err := s.Rotate(t.Context(), old, key)
	require.NoError(t, err)
	require.NotEqual(t, old, next.Token)
	again, err := s.Rotate(t.Context(), old, key)
	require.NoError(t, err)
	require.Equal(t, next, again)
	for _, other := range []string{"", "0123456789abcdeg"} {
		_, err = s.Rotate(t.Context(), old, other)
		require.ErrorIs(t, err, sessions.ErrNotFound)
	}
	_, err = s.Check(t.Context(), old)
	require.ErrorIs(t, err, sessions.ErrNotFound)
	last, err := s.Rotate(t.Context(), next.Token, "")
	require.NoError(t, err)
	found, err := s.Check(t.Context(), last.Token)
	require.NoError(t, err)
	require.Equal(t, last.ID, found.ID)
	_, err = s.Rotate(t.Context(), old, key)
	require.ErrorIs(t, err, sessions.ErrNotFound, "the one that followed it was rotated, too")
	for _, wrong := range []string{key[1:], strings.Repeat("x", 129)} {
		_, err = s.Rotate(t.Context(), last.Token, wrong)
		requireFault(t, err, fault.SlugInvalidSession, "idempotencyKey")
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s, _ := open(t, sessions.Options{})
	found, err := s.List(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{"c", "a", "b"}, []string{found[0].ID, found[1].ID, found[2].ID},
		"the one that was active last comes first")
	count, err := s.RevokeAll(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, 7, count)
}

// outcomes counts checks.
type outcomes map[sessions.Outcome]int

func (o outcomes) Check(of sessions.Outcome) { o[of]++ }

// TestCountedChecks: each check is counted once, however many calls of the store it needs.
func TestCountedChecks(t *testing.T) {
	t.Parallel()
	counts := outcomes{}
	s, m := open(t, sessions.Options{Metrics: counts})
	token := issue(t, s, "ann").Token
	_, err := s.Check(t.Context(), token)
	require.NoError(t, err)
	for _, unknown := range []string{"guessed", token[:len(token)-1]} {
		_, err = s.Check(t.Context(), unknown)
		require.ErrorIs(t, err, sessions.ErrNotFound)
	}
	m.before = func(string) error { return fault.ErrUnavailable }
	_, err = s.Check(t.Context(), token)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Equal(t, outcomes{sessions.Valid: 1, sessions.Unknown: 2, sessions.Failed: 1}, counts)
}
