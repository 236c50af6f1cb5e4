package assigner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func agonesAt(url string) matchmaking.AssignBy {
	return matchmaking.AssignBy{
		Kind: matchmaking.AssignAgones, URL: url, Timeout: generous,
		Namespace: "games", Selector: map[string]string{"agones.dev/fleet": "duel"},
	}
}

var (
	server = reply{status: 200,
		body: `{"gameServerName":"duel-x7","ports":[{"name":"default","port":7654}],"address":"203.0.113.7","nodeName":"node-1"}`}
	unallocated = reply{status: 429,
		body: `{"code":8,"message":"there is no available GameServer to allocate","details":[]}`}
)

func TestAgonesAllocates(t *testing.T) {
	t.Parallel()
	s := serve(t, server)
	given, err := build(t, agonesAt(s.URL)).Allocate(t.Context(), proposal())
	require.NoError(t, err)
	require.Equal(t, matchmaking.Allocation{
		Connection: "203.0.113.7:7654", Token: "duel-x7",
		Extensions: map[string]json.RawMessage{"gameServerName": json.RawMessage(`"duel-x7"`)},
	}, given)
	calls := s.calls()
	require.Len(t, calls, 1)
	require.Equal(t, "/gameserverallocation", calls[0].path)
	require.NotContains(t, calls[0].header, "Authorization")
	require.JSONEq(t, `{
		"namespace": "games",
		"gameServerSelectors": [
			{"matchLabels": {"agones.dev/fleet": "duel", "tidemark.dev/match": "match-1"}, "gameServerState": "ALLOCATED"},
			{"matchLabels": {"agones.dev/fleet": "duel"}}
		],
		"metadata": {
			"labels": {"tidemark.dev/match": "match-1"},
			"annotations": {"tidemark.dev/match": "match-1", "tidemark.dev/queue": "duel"}
		}
	}`, string(calls[0].body))
}

func TestAgonesReadsAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, connection, extensions, want string }{
		"IPv6": {
			body:       `{"gameServerName":"a","address":"2001:db8::1","ports":[{"name":"default","port":7000}]}`,
			connection: "[2001:db8::1]:7000", extensions: `{"gameServerName":"a"}`,
		},
		"several ports": {
			body:       `{"gameServerName":"a","address":"h","ports":[{"name":"game","port":7000},{"name":"voice","port":7001}],"source":"local","counters":{}}`,
			connection: "h:7000",
			extensions: `{"gameServerName":"a","ports":[{"name":"game","port":7000},{"name":"voice","port":7001}]}`,
		},
		"no ports": {body: `{"gameServerName":"a","address":"h","ports":[]}`, connection: "h",
			extensions: `{"gameServerName":"a"}`},
		"no address": {body: `{"gameServerName":"a"}`, want: "the response has no address for game server a"},
		"no name":    {body: `{"address":"h"}`, want: "the response has no gameServerName"},
		"no JSON":    {body: `hello`, want: "read the response: "},
		"no such port": {body: `{"gameServerName":"a","address":"h","ports":[{"port":70000}]}`,
			want: "read the response: "},
		"empty":         {body: ``, want: "read the response: "},
		"far too large": {body: strings.Repeat(" ", responseBytes+1), want: "the response is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, reply{status: 200, body: c.body})
			given, err := build(t, agonesAt(s.URL)).Allocate(t.Context(), proposal())
			require.Len(t, s.calls(), 1)
			if c.want != "" {
				require.ErrorContains(t, err, "allocate match match-1 by agones: "+c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.connection, given.Connection)
			extensions, err := json.Marshal(given.Extensions)
			require.NoError(t, err)
			require.JSONEq(t, c.extensions, string(extensions))
		})
	}
}

func TestAgonesTriesAgainUntilThereIsAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, unallocated, reply{status: 404}, reply{status: 409}, reply{status: 503}, reply{broken: true}, server)
	given, err := build(t, agonesAt(s.URL)).Allocate(t.Context(), proposal())
	require.NoError(t, err)
	require.Equal(t, "duel-x7", given.Token)
	calls := s.calls()
	require.Len(t, calls, 6)
	for _, c := range calls {
		require.Equal(t, calls[0].body, c.body)
	}
}

func TestAgonesPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ under, want string }{
		{"", "/gameserverallocation"},
		{"/", "/gameserverallocation"},
		{"/allocator", "/allocator/gameserverallocation"},
		{"/gameserverallocation", "/gameserverallocation"},
	} {
		s := serve(t, server)
		_, err := build(t, agonesAt(s.URL+c.under)).Allocate(t.Context(), proposal())
		require.NoError(t, err)
		require.Equal(t, c.want, s.calls()[0].path)
	}
}

func TestAgonesReadsItsTokenForEachCall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("one\n"), 0o600))
	s := serve(t, server)
	by := agonesAt(s.URL)
	by.TokenFile = path
	a := build(t, by)
	for _, token := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
		_, err := a.Allocate(t.Context(), proposal())
		require.NoError(t, err)
	}
	calls := s.calls()
	require.Equal(t, "Bearer one", calls[0].header.Get("Authorization"))
	require.Equal(t, "Bearer two", calls[1].header.Get("Authorization"))

	require.NoError(t, os.Remove(path))
	_, err := New(matchmaking.Definition{Assigner: by}, nil)
	require.ErrorContains(t, err, "assigner.tokenFile: ")
}

func TestAgonesMarksWhatIsReleased(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{status: 503}, server)
	require.NoError(t, build(t, agonesAt(s.URL)).Release(t.Context(), "match-1",
		matchmaking.Allocation{Token: "duel-x7"}))
	calls := s.calls()
	require.Len(t, calls, 2)
	require.JSONEq(t, `{
		"namespace": "games",
		"gameServerSelectors": [
			{"matchLabels": {"agones.dev/fleet": "duel", "tidemark.dev/match": "match-1"}, "gameServerState": "ALLOCATED"}
		],
		"metadata": {"labels": {"tidemark.dev/released": "true"}}
	}`, string(calls[1].body))
}

func TestAgonesReleaseFindsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, unallocated)
	require.NoError(t, build(t, agonesAt(s.URL)).Release(t.Context(), "match-1", matchmaking.Allocation{}))
	require.Len(t, s.calls(), 1)
}

func TestAgonesReleaseNamesTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{status: 403})
	a := build(t, agonesAt(s.URL))
	err := a.Release(t.Context(), "match-1", matchmaking.Allocation{Token: "duel-x7"})
	require.ErrorContains(t, err, "mark game server duel-x7 of match match-1 as released: status 403")
	err = a.Release(t.Context(), "match-1", matchmaking.Allocation{})
	require.ErrorContains(t, err, "mark a game server that match match-1 may have got as released: status 403")
}

func TestMatchLabel(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"01HZZZZZZZZZZZZZZZZZZZZZZ1": "01HZZZZZZZZZZZZZZZZZZZZZZ1",
		"a":                          "a",
		"a:b":                        "",
		"a-":                         "",
		strings.Repeat("x", 63):      strings.Repeat("x", 63),
		strings.Repeat("x", 64):      "",
	} {
		label := matchLabel(id)
		require.Regexp(t, labelValue, label)
		if want == id {
			require.Equal(t, id, label)
		} else {
			require.Len(t, label, 32)
		}
	}
}
