package admin_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestHistory: a page polls only what is new, of the server or of a queue, and needs the right to read metrics.
func TestHistory(t *testing.T) {
	t.Parallel()
	var people servertest.People
	closed := servertest.Start(t, servertest.Closed(t, &people)).OnAdmin()
	people.Add(t, "m", `[{"actions":["metrics"]}]`)
	people.Add(t, "q", `[{"actions":["queue"]}]`)
	require.Equal(t, 200, closed.Do("GET", "/v1/history", "", servertest.Bearer("m")).Status)
	closed.Do("GET", "/v1/history", "", servertest.Bearer("q")).Problem(403, fault.SlugNotGranted)
	for _, path := range []string{"/v1/servers", "/v1/problems", "/v1/storage", "/v1/shards"} {
		closed.Do("GET", path, "", servertest.Bearer("m")).Problem(403, fault.SlugNotGranted)
	}

	h := servertest.Start(t, servertest.WithQueues())
	admin, now := h.OnAdmin(), time.Now()
	h.History.Add(now)
	h.Publish("c", "a", "1")
	h.Do("GET", "/v1/channels/none", "")
	h.History.Add(now.Add(overview.Interval))
	first := servertest.Decode[wire.History](admin.Do("GET", "/v1/history", ""))
	require.Equal(t, wire.Column{1}, first.Columns["published"])
	require.Equal(t, wire.Column{1}, first.Errors["404"]["requests"])
	require.Equal(t, []int64{first.Through}, first.Times)
	h.Publish("c", "b", "1")
	h.Publish("c", "d", "1")
	h.History.Add(now.Add(2 * overview.Interval))
	since := "/v1/history?since=" + strconv.FormatInt(first.Through, 10)
	require.Equal(t, wire.Column{2}, servertest.Decode[wire.History](admin.Do("GET", since, "")).Columns["published"])
	duel := servertest.Decode[wire.History](admin.Do("GET", since+"&queue=duel", ""))
	require.Len(t, duel.Columns["tickets"], 1)
	require.NotContains(t, duel.Columns, "published")
	for _, query := range []string{"since=-1", "since=x", "of=duel", "since=1&since=2"} {
		admin.Do("GET", "/v1/history?"+query, "").Problem(400, fault.SlugInvalidQuery)
	}
}

// hourBytes is at most what the first view of the console loads of an hour of history; tools/e2e bounds the rest.
const hourBytes = 30_000

// TestHistoryIsCompressed: an hour of a busy server is short on the network, for clients that accept that.
func TestHistoryIsCompressed(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	admin, now := h.OnAdmin(), time.Now()
	for point := range 362 {
		for n := range point % 5 {
			h.Publish("c", fmt.Sprintf("%d-%d", point, n), "1")
			h.Do("GET", "/v1/channels/none", "")
		}
		h.History.Add(now.Add(time.Duration(point) * overview.Interval))
	}
	plain := admin.Do("GET", "/v1/history", "", servertest.Header{Name: "Accept-Encoding", Value: "identity"})
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	want := servertest.Decode[wire.History](plain)
	require.Len(t, want.Times, 360)
	short := admin.Do("GET", "/v1/history", "", servertest.Header{Name: "Accept-Encoding", Value: "br, gzip"})
	require.Equal(t, "gzip", short.Header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", short.Header.Get("Vary"))
	size, err := strconv.Atoi(short.Header.Get("Content-Length"))
	require.NoError(t, err)
	t.Logf("an hour: %d bytes, compressed %d", len(plain.Body), size)
	require.LessOrEqual(t, size, hourBytes)
	require.JSONEq(t, string(plain.Body), string(short.Body))
	last := "/v1/history?since=" + strconv.FormatInt(want.Times[358], 10)
	poll := admin.Do("GET", last, "", servertest.Header{Name: "Accept-Encoding", Value: "gzip"})
	require.Len(t, servertest.Decode[wire.History](poll).Times, 1, "a short answer is plain")
}

// TestState: the state of servers, problems, Redis and shards is shown.
func TestState(t *testing.T) {
	t.Parallel()
	peer := client.PeerServer{ID: "a", Role: "serve", PID: 1, Listen: []string{}, Leases: []string{"director:duel"}}
	h := servertest.Start(t, func(s *servertest.Setup) {
		var problems overview.Problems
		problems.Report("redis", time.Unix(0, 0), []overview.Problem{{Code: "RedisClock", About: "channels",
			Text: "late", Page: "deployment.md#your-own-redis"}})
		s.Status = &overview.Board{Found: &problems,
			Peers: func() wire.Servers { return wire.Servers{Servers: []client.PeerServer{peer}} }}
	}).OnAdmin()
	require.Equal(t, []client.PeerServer{peer}, servertest.Decode[wire.Servers](h.Do("GET", "/v1/servers", "")).Servers)
	require.Len(t, servertest.Decode[wire.Problems](h.Do("GET", "/v1/problems", "")).Problems, 1)
	h.Do("GET", "/v1/storage", "").Like(200, `{"redis":[]}`)
	h.Do("GET", "/v1/shards", "").Like(200, `{"caches":[]}`)
	h.Do("GET", "/v1/shards?x=1", "").Problem(400, fault.SlugInvalidQuery)
	h.Do("GET", "/v1/servers?x=1", "").Problem(400, fault.SlugInvalidQuery)
}

// TestRefusals: clients beyond a limit, and refused credentials, are listed without the credentials.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var people servertest.People
	h := servertest.Start(t, servertest.Closed(t, &people), func(s *servertest.Setup) {
		s.Clients.Limits.Addresses = access.Limits{Requests: access.Rate{Count: 12, Per: time.Hour}}
	})
	people.Add(t, "reader", `[{"actions":["subscribe"]}]`)
	people.Add(t, "root", `[{"actions":["admin"]}]`)
	secret := "tmk_3f7kq2mzv5xw4yab_secretsecretsecretsecret"
	for range 2 {
		h.Do("GET", "/v1/channels/"+secret, "", servertest.Bearer(secret)).Problem(401, fault.SlugInvalidCredential)
	}
	h.Do("PUT", "/v1/channels/c/messages/a", "1").Problem(401, fault.SlugNoCredential)
	h.Do("PUT", "/v1/channels/c/messages/a", "1", servertest.Bearer("reader")).Problem(403, fault.SlugNotGranted)
	got := h.OnAdmin().Do("GET", "/v1/access", "", servertest.Bearer("root"))
	require.NotContains(t, string(got.Body), "secretsecret")
	found := servertest.Decode[wire.RecentAccess](got)
	require.Empty(t, found.Limited)
	require.Len(t, found.Refused, 3)
	granted, missing, invalid := found.Refused[0], found.Refused[1], found.Refused[2]
	require.Equal(t, []string{"127.0.0.1", "key:reader", "not-granted", "PUT", "/v1/channels/c/messages/a"},
		[]string{granted.Client, granted.Principal, granted.Problem, granted.Method, granted.Path})
	require.Contains(t, granted.Reason, "publish")
	require.Equal(t, "credentials-missing", missing.Problem)
	require.Equal(t, "credentials-invalid", invalid.Problem)
	require.Equal(t, 2, invalid.Refusals.Count)
	require.Empty(t, invalid.Principal)

	who := func() servertest.Answer { return h.Do("GET", "/v1/whoami", "", servertest.Bearer("reader")) }
	who().Like(200, `{"kind":"key","principal":"key:reader","actions":["subscribe"],
		"grants":[{"actions":["subscribe"]}]}`)
	for who().Status == 200 { // until the limit
	}
	people.Known["local"] = access.Local()
	again := h.OnAdmin().Do("GET", "/v1/access", "", servertest.Bearer("local"))
	limited := servertest.Decode[wire.RecentAccess](again).Limited
	require.Len(t, limited, 1)
	require.Equal(t, wire.LimitedClient{Client: "127.0.0.1", Of: "address", Limit: "requests", Value: "12/h",
		Refusals: limited[0].Refusals}, limited[0])
	require.Equal(t, 1, limited[0].Refusals.Count)
	h.Do("GET", "/v1/whoami", "", servertest.Bearer("local")).Like(200, `{"kind":"admin","principal":"admin","grants":[],
		"actions":["publish","subscribe","describe","ticket","queue","direct","backfill","read","write","metrics","admin"]}`)
	require.Equal(t, "open", servertest.Decode[wire.Whoami](servertest.Start(t).Do("GET", "/v1/whoami", "")).Kind)
}

// TestSurvey: a person starts a survey of keys, sees its result, and can cancel it.
func TestSurvey(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	show := func() keyspace.Survey { return servertest.Decode[keyspace.Survey](admin.Do("GET", "/v1/survey", "")) }
	require.Equal(t, keyspace.StateNone, show().State)
	require.Equal(t, 204, admin.Do("DELETE", "/v1/survey", "").Status)
	for range 30 {
		h.Do("POST", "/v1/users/7/sessions", `{"username":"ann"}`).With(201)
	}
	admin.Do("POST", "/v1/survey?rate=1", "").With(200)
	require.Equal(t, 204, admin.Do("DELETE", "/v1/survey", "").Status)
	require.Contains(t, []keyspace.State{keyspace.StateCanceled, keyspace.StateDone}, show().State)
	admin.Do("POST", "/v1/survey?rate=1000000&largest=2", "").With(200)
	require.Eventually(t, func() bool { return show().State == keyspace.StateDone }, time.Minute, time.Millisecond)
	done := show()
	require.Equal(t, done.Seen, done.Total)
	require.Len(t, done.Redis, 1)
	kinds := map[string]int64{}
	for _, k := range done.Redis[0].Kinds {
		kinds[k.Name] = k.Keys
		require.LessOrEqual(t, len(k.Largest), 2)
	}
	require.Positive(t, kinds["session"])
	for _, query := range []string{"rate=0", "rate=1000001", "largest=101", "x=1"} {
		admin.Do("POST", "/v1/survey?"+query, "").Problem(400, fault.SlugInvalidQuery)
	}
}
