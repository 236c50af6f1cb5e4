package sessions_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records/sessions"
	"github.com/tidemark-dev/tidemark/records/site"
)

// memory is an in-memory store for tests of the service. before is called at the start of each operation, and may fail
// it.
type memory struct {
	alive  map[sessions.Ref]sessions.Session
	source map[string]sessions.Found // by token
	ended  bool
	draft  sessions.Draft // the last one
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
	if m.ended && !d.Since.IsZero() {
		return sessions.Session{}, sessions.ErrEnded
	}
	m.alive[d.Ref] = sessions.Session{ID: d.ID, User: d.User, Username: d.Username, Created: d.Created, Device: d.Device,
		AuthData: d.AuthData}
	m.draft = d
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

func (m *memory) RevokeAll(context.Context, string, sessions.Rules) (int, error) {
	return 7, m.begin("revoke all")
}

func (m *memory) List(context.Context, string) ([]sessions.Session, error) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	return []sessions.Session{{ID: "b", LastActivity: at(1)}, {ID: "a", LastActivity: at(1)},
		{ID: "c", LastActivity: at(2)}}, m.begin("list")
}

func (m *memory) Find(_ context.Context, l sessions.Legacy) (sessions.Found, error) {
	if err := m.begin("find"); err != nil {
		return sessions.Found{}, err
	}
	if found, ok := m.source[l.Token]; ok {
		return found, nil
	}
	return sessions.Found{}, sessions.ErrNotFound
}

func (m *memory) Forget(_ context.Context, l sessions.Legacy) error {
	if err := m.begin("forget"); err != nil {
		return err
	}
	delete(m.source, l.Token)
	return nil
}

func open(t testing.TB, o sessions.Options) (*sessions.Service, *memory) {
	t.Helper()
	m := &memory{alive: map[sessions.Ref]sessions.Session{}, source: map[string]sessions.Found{}}
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
		jwt(`{"user_id":7,"username":"Ann"}`), "7-Ann-" + jwt(`{"user_id":7,"username":"Ann"}`),
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
	s, _ := open(f, sessions.Options{Legacy: true})
	f.Add(issue(f, s, "ann").Token)
	f.Add(jwt(`{"user_id":7,"username":"Ann"}`))
	f.Add("7-Ann-" + jwt(`{"user_id":"7","username":"Ann"}`))
	f.Fuzz(func(t *testing.T, token string) {
		if of, ok := sessions.Parse(token); ok {
			require.NotEmpty(t, of.User)
			require.True(t, sessions.IsID(of.ID))
		}
		if l, ok := sessions.ParseLegacy(token); ok {
			require.Regexp(t, `^\d+$`, l.User)
			require.NotContains(t, l.Username, "{")
			require.True(t, token == l.Token || token == l.User+"-"+l.Username+"-"+l.Token)
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

func jwt(payload string) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + e.EncodeToString([]byte(payload)) + ".c2lnbmF0dXJl"
}

func TestParseLegacy(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"user_id":7,"username":"Ann"}`:             "7 Ann",
		`{"user_id":"17","username":"Ann-Marie é:"}`: "17 Ann-Marie é:",
		`{"user_id":"u_7","username":"Ann"}`:         "", // Discours.io's users are numbers
		`{"user_id":-7,"username":"Ann"}`:            "",
		`{"user_id":7,"username":"c.{x}.mid.f"}`:     "", // a key of a channel
		`{"user_id":7,"username":"Ann}"}`:            "",
		`{"user_id":7,"username":"Ann","iat":1.7e9}`: "7 Ann",
		`{"user_id":7,"username":"Ann","sub":"7"}`:   "", // a token of another kind
		`{"user_id":7}`:                                               "",
		`{"username":"Ann"}`:                                          "",
		`{"user_id":null,"username":"Ann"}`:                           "",
		`{"user_id":[7],"username":"Ann"}`:                            "",
		`{"user_id":7.5,"username":"Ann"}`:                            "",
		`{"user_id":"a:b","username":"Ann"}`:                          "",
		`{"user_id":"{a}","username":"Ann"}`:                          "",
		`{"user_id":"a-b","username":"Ann"}`:                          "",
		`{"user_id":7,"username":"a\nb"}`:                             "",
		`{"user_id":7,"username":"` + strings.Repeat("x", 257) + `"}`: "",
		`[]`: "", `{`: "", ``: "",
	} {
		token := jwt(payload)
		l, ok := sessions.ParseLegacy(token)
		require.Equal(t, want != "", ok, payload)
		if !ok {
			continue
		}
		require.Equal(t, want, l.User+" "+l.Username)
		whole, ok := sessions.ParseLegacy(l.User + "-" + l.Username + "-" + token)
		require.True(t, ok)
		require.Equal(t, l, whole)
		for _, other := range []string{"8-" + l.Username, l.User + "-Bob", l.User, ""} {
			_, ok = sessions.ParseLegacy(other + "-" + token)
			require.False(t, ok, other)
		}
	}
	for _, token := range []string{"metrics:a-b-c", "7-Ann-token", "7-Ann-eyJh", "eyJh.eyJi", "eyJh.eyJi.x.y",
		"eyJh..x", strings.Repeat("x", 9000)} {
		_, ok := sessions.ParseLegacy(token)
		require.False(t, ok, token)
	}
}

// TestForeignKeys: a credential can't name a key of another installation, whatever its prefix and the part of the key
// that a client chose are.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	patterns := []string{"c.{<ch>}.mid.<id>", "c.{<ch>}.r.<subscriber>"}
	for _, k := range site.Community().Caches.Table.Records() {
		if !k.Legacy && len(k.Parts()) > 0 {
			patterns = append(patterns, k.Pattern)
		}
	}
	for _, prefix := range []string{"1-", "mm1-", "1-a-"} {
		user, before, _ := strings.Cut(prefix, "-")
		for _, pattern := range patterns {
			at := strings.LastIndex(pattern, "<")
			username := before + pattern[:at] + "f"
			payload, err := json.Marshal(map[string]string{"user_id": user, "username": username})
			require.NoError(t, err)
			token := jwt(string(payload))
			for _, credential := range []string{token, user + "-" + username + "-" + token} {
				_, ok := sessions.ParseLegacy(credential)
				require.False(t, ok, "%s-%s-<token>", user, username)
			}
		}
	}
}

var errBroken = errors.New("broken")

// TestMove: a session of Discours.io is migrated by its first check. It isn't lost if a process ends at any step, or
// another check runs.
func TestMove(t *testing.T) {
	t.Parallel()
	token := jwt(`{"user_id":7,"username":"Ann","iat":1600000000}`)
	put := func(m *memory) {
		m.source[token] = sessions.Found{Device: []byte("odd"), AuthData: []byte(`{"a":1}`)}
	}
	s, m := open(t, sessions.Options{Legacy: true})
	put(m)
	for _, form := range []string{token, "7-Ann-" + token} {
		found, err := s.Check(t.Context(), form)
		require.NoError(t, err)
		of, _ := s.Parse(form)
		require.Equal(t, sessions.Session{ID: of.ID, User: "7", Username: "Ann", Created: time.Unix(1_600_000_000, 0),
			AuthData: []byte(`{"a":1}`)}, found)
	}
	require.Equal(t, []string{"check", "find", "create", "forget", "check", "forget"}, m.log)
	require.Empty(t, m.source)
	require.NoError(t, s.Revoke(t.Context(), "7", refOf(t, s, token)))
	_, err := s.Check(t.Context(), token)
	require.ErrorIs(t, err, sessions.ErrNotFound)

	for _, step := range []string{"check", "find", "create", "forget"} { // ends there
		s, m := open(t, sessions.Options{Legacy: true})
		put(m)
		m.before = func(operation string) error {
			if operation == step {
				return errBroken
			}
			return nil
		}
		_, err := s.Check(t.Context(), token)
		require.ErrorIs(t, err, errBroken, step)
		m.before = nil
		_, err = s.Check(t.Context(), token)
		require.NoError(t, err, step)
		require.Empty(t, m.source, step)
		require.Len(t, m.alive, 1)
	}
	s, m = open(t, sessions.Options{Legacy: true})
	put(m)
	m.before = func(operation string) error { // another check comes first
		if operation == "find" && !slices.Contains(m.log, "other") {
			m.log = append(m.log, "other")
			_, err := s.Check(t.Context(), token)
			require.NoError(t, err)
		}
		return nil
	}
	_, err = s.Check(t.Context(), token)
	require.NoError(t, err)

	s, m = open(t, sessions.Options{Legacy: true})
	put(m)
	m.ended = true
	_, err = s.Check(t.Context(), token)
	require.ErrorIs(t, err, sessions.ErrNotFound)
	require.Empty(t, m.source)

	s, m = open(t, sessions.Options{Legacy: true})
	put(m)
	const key = "0123456789abcdef"
	next, err := s.Rotate(t.Context(), token, key)
	require.NoError(t, err)
	again, err := s.Rotate(t.Context(), token, key)
	require.NoError(t, err)
	require.Equal(t, next.Token, again.Token)
	require.Empty(t, m.source)
}

func TestSourceTime(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_750_000_000, 0)
	for _, text := range []string{
		"1750000000", "1750000000.9", "1.75e9", "1750000000000", "1750000000999.5", ` "1750000000" `,
		"2025-06-15T15:06:40Z", "2025-06-15T15:06:40.999999", "2025-06-15T15:06:40", "2025-06-15 15:06:40",
		"2025-06-15 18:06:40.5+03:00", "2025-06-15T18:06:40+0300", `"2025-06-15T15:06:40+00:00"`,
	} {
		require.Equal(t, at, sessions.SourceTime(text), text)
	}
	soon := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	for _, text := range []string{"", "0", "-1750000000", "NaN", "Inf", "1e300", "odd", "2025-06-15", "15:06:40",
		"0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", soon, "2999-01-01T00:00:00"} {
		require.Zero(t, sessions.SourceTime(text), text)
	}
}

// TestSourceSessionsAfterAnEnd of all sessions are accepted if they are listed, which no earlier one is if the end has
// emptied the list, and unless there was another end meanwhile. Their own time is that of another clock. Those without
// a time are made now.
func TestSourceSessionsAfterAnEnd(t *testing.T) {
	t.Parallel()
	at, ended, later := time.Unix(1_750_000_000, 0), time.Unix(1_760_000_000, 5e8), time.Unix(1_760_000_001, 0)
	listedSince := ended.Add(time.Millisecond)
	for name, c := range map[string]struct {
		found          sessions.Found
		claims         string
		since, created time.Time
	}{
		"it has a time": {found: sessions.Found{Created: at, Ended: ended}, since: at, created: at},
		"its token has a time": {found: sessions.Found{Listed: true, Ended: ended}, claims: `,"iat":1750000000`, since: at,
			created: at},
		"listed": {found: sessions.Found{Listed: true, Ended: ended, Emptied: true}, since: listedSince},
		"listed, with an earlier time": {found: sessions.Found{Created: at, Listed: true, Ended: ended, Emptied: true},
			since: listedSince, created: at},
		"listed, with an earlier time in its token": {found: sessions.Found{Listed: true, Ended: ended, Emptied: true},
			claims: `,"iat":1750000000`, since: listedSince, created: at},
		"listed, in the same second": {since: listedSince, created: time.Unix(1_760_000_000, 0), found: sessions.Found{
			Created: time.Unix(1_760_000_000, 0), Listed: true, Ended: ended, Emptied: true}},
		"listed, with a later time in its token": {found: sessions.Found{Listed: true, Ended: ended, Emptied: true},
			claims: `,"iat":1760000001`, since: later, created: later},
		"not listed, with an earlier time": {found: sessions.Found{Created: at, Ended: ended, Emptied: true}, since: at,
			created: at},
		"listed, without end":                   {found: sessions.Found{Listed: true}, since: time.Unix(0, 0)},
		"listed, the end didn't empty the list": {found: sessions.Found{Listed: true, Ended: ended}, since: time.Unix(0, 0)},
		"not listed":                            {found: sessions.Found{Ended: ended, Emptied: true}, since: time.Unix(0, 0)},
	} {
		s, m := open(t, sessions.Options{Legacy: true})
		token := jwt(`{"user_id":7,"username":"Ann"` + c.claims + `}`)
		m.source[token] = c.found
		_, err := s.Check(t.Context(), token)
		require.NoError(t, err, name)
		require.Equal(t, c.since, m.draft.Since, name)
		require.Equal(t, c.created, m.draft.Created, name)
	}
}

func refOf(t *testing.T, s *sessions.Service, token string) string {
	t.Helper()
	of, ok := s.Parse(token)
	require.True(t, ok)
	return of.ID
}

// outcomes counts checks.
type outcomes map[sessions.Outcome]int

func (o outcomes) Check(of sessions.Outcome) { o[of]++ }

// TestCountedChecks: each check is counted once, however many calls of the store it needs.
func TestCountedChecks(t *testing.T) {
	t.Parallel()
	counts := outcomes{}
	s, m := open(t, sessions.Options{Legacy: true, Metrics: counts})
	token := jwt(`{"user_id":7,"username":"Ann","iat":1600000000}`)
	m.source[token] = sessions.Found{}
	_, err := s.Check(t.Context(), token)
	require.NoError(t, err)
	_, err = s.Rotate(t.Context(), token, "")
	require.NoError(t, err)
	for _, unknown := range []string{"guessed", jwt(`{"user_id":8,"username":"Ann"}`)} {
		_, err = s.Check(t.Context(), unknown)
		require.ErrorIs(t, err, sessions.ErrNotFound)
	}
	m.before = func(string) error { return fault.ErrUnavailable }
	_, err = s.Check(t.Context(), token)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Equal(t, outcomes{sessions.Valid: 1, sessions.Unknown: 2, sessions.Failed: 1}, counts)
}
