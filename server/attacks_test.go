package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/wire"
)

const everything = `[{"actions":["publish","subscribe","describe","ticket","queue","admin"]}]`

// TestOtherChannels uses credentials for the channel "mine" on others, under every name and path that may be taken for
// it.
func TestOtherChannels(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "good", `[{"actions":["publish","subscribe","describe"],"channels":["mine"],"subscribers":["s"]}]`)
	h.as("good")
	require.Equal(t, 201, h.do("PUT", "/v1/channels/mine/subscribers/s", "").status)
	require.Equal(t, 201, h.do("PUT", "/v1/channels/%6Din%65/messages/a", "1").status, "the same name")
	before := h.keys()
	for _, name := range []string{
		"other", "Mine", "MINE", "min", "mine2", "mine.", "mine..", ".mine", "mine-", "mine:s", "mine,other", "*", "m*",
		"{sub}",
		"mine%2E", "mine%2e%2e", "mine%2Fother", "mine%252Fother", "%6D%69%6E%65%2E", "mine%00", "mine%20", "%20mine",
		"mine;x", "mine%3Fx",
		"mine/../other", "mine/%2e%2e/other", "./mine", "../channels/other", "/mine", "/other", "other/",
		"mine%2F..%2Fother", "mine%5C..%5Cother", "м\u0456ne", "mine%E2%80%8B",
	} {
		for _, call := range []string{
			"POST /v1/channels/NAME/messages 1", "PUT /v1/channels/NAME/messages/b 1",
			"PUT /v1/channels/NAME/subscribers/s", "DELETE /v1/channels/NAME/subscribers/s",
			"GET /v1/channels/NAME/subscribers/s/messages", "POST /v1/channels/NAME/subscribers/s/ack {}",
			"POST /v1/channels/NAME/subscribers/s/next {}",
			"GET /v1/channels/NAME", "HEAD /v1/channels/NAME",
			"PUT /channel/NAME/message/b 1", "PUT /channel/NAME/subscription/polling/s",
			"GET /channel/NAME/subscription/polling/s",
			"DELETE /channel/NAME/subscription/polling/s",
			"DELETE /channel/NAME/subscription/polling/s/message?ackHandle=x",
		} {
			method, path, body := cut(strings.ReplaceAll(call, "NAME", name))
			got := h.do(method, path, body, header{"X-Http-Method-Override", "GET"},
				header{"X-Original-Url", "/v1/channels/mine"})
			require.Contains(t, []int{400, 403, 404, 405}, got.status, "%s: %s", path, got.body)
		}
	}
	for _, call := range []string{ // other subscribers of the channel
		"GET /v1/channels/mine/subscribers/S/messages", "PUT /v1/channels/mine/subscribers/s%3A2",
		"DELETE /channel/mine/subscription/polling/t", "PUT /channel/mine/subscription/polling/s2",
	} {
		method, path, _ := cut(call)
		require.Equal(t, 403, h.do(method, path, "").status, call)
	}
	require.Equal(t, before, h.keys(), "nothing was written")
}

// TestOtherQueues uses credentials for one queue on others, and on what is in them.
func TestOtherQueues(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, withQueues("other", duel), closed(t, &p))
	p.add(t, "all", everything)
	p.add(t, "duels", `[{"actions":["ticket","queue"],"queues":["duel"]}]`)
	h.as("all")
	match := func(queue string) string {
		first := h.create(`{"queue":"` + queue + `"}`)
		h.create(`{"queue":"` + queue + `"}`)
		return "/v1/matches/" + h.assignment(first).MatchID
	}
	duels, others := match("duel"), match("other")
	require.Len(t, decode[wire.Queues](h.do("GET", "/v1/queues", "")).Queues, 3, "and the default one")

	h.client = servertest.Client(t, false)
	h.as("duels")
	require.Equal(t, 201, h.do("POST", "/v1/tickets", `{"queue":"duel"}`).status)
	require.Equal(t, 200, h.do("GET", "/v1/queues/duel", "").status)
	require.Equal(t, 200, h.do("GET", duels, "").status)
	listed := decode[wire.Queues](h.do("GET", "/v1/queues", "")).Queues
	require.Len(t, listed, 1)
	require.Equal(t, "duel", listed[0].Name)
	for _, call := range []string{
		`POST /v1/tickets {"queue":"other"}`, `POST /v1/tickets {"queue":"nowhere","id":"a"}`, "POST /v1/tickets {}",
		"GET /v1/queues/other", "GET /v1/queues/Duel",
		"GET /v1/queues/nowhere", "GET " + others, "GET " + others + "?queue=other",
	} {
		method, path, body := cut(call)
		h.do(method, path, body).problem(403, fault.SlugNotGranted)
	}
}

// TestMethodsAreNotOverridden: what may read can't write, whatever else it says.
func TestMethodsAreNotOverridden(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "reader", `[{"actions":["describe"]}]`)
	h.as("reader")
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		h.do("POST", "/v1/channels/c/messages", "1", header{name, "GET"}).problem(403, fault.SlugNotGranted)
		h.do("GET", "/v1/channels/c", "", header{name, "POST"}).problem(404, fault.SlugNoChannel)
	}
	h.do("GET", "/v1/channels/c?_method=POST", "").problem(400, fault.SlugInvalidQuery)
}

// TestAuthorization sends the header in all forms. It is one, with one token.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "good", everything)
	p.add(t, "a-._~+/b==", everything)
	call := func(headers string) answer {
		got := h.raw("GET /v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n")
		got.body = []byte(strings.TrimSuffix(string(got.body), "\n"))
		return got
	}
	for _, valid := range []string{"Bearer good", "bearer good", "BEARER   good ", "Bearer a-._~+/b=="} {
		require.Equal(t, 200, call("Authorization: "+valid+"\r\n").status, valid)
	}
	require.Equal(t, 200, call("aUTHORIZATION: Bearer good\r\n").status)
	for _, invalid := range []string{
		"", " ", "Bearer", "Bearer ", "Bearer =", "Bearer bad", "good", "Basic Z29vZA==", "Token good", "Bearer\tgood",
		"Bearer good good", "Bearer good, Bearer good",
		"Bearer good,Basic x", "Basic x, Bearer good", `Bearer "good"`, "Bearer g\x80ood", "Bearer good=x",
		"Bearer%20good", "Bearer good\r\nAuthorization: Bearer good",
		"Bearer good\r\nAuthorization:", "\r\nAuthorization: Bearer good", "Bearer good\r\nauthorization: Basic x",
	} {
		got := call("Authorization: " + invalid + "\r\n")
		got.problem(401, fault.SlugInvalidCredential)
		require.Equal(t, challenges[fault.SlugInvalidCredential], got.header.Get("WWW-Authenticate"))
	}
	for _, elsewhere := range []string{
		"", "X-Authorization: Bearer good\r\n", "Proxy-Authorization: Bearer good\r\n", "Cookie: access_token=good\r\n",
		"X-Api-Key: good\r\n",
		"Authorization_: Bearer good\r\n", "X-Forwarded-Authorization: Bearer good\r\n",
	} {
		call(elsewhere).problem(401, fault.SlugNoCredential)
	}
	require.NotEqual(t, 200, call("Authorization : Bearer good\r\n").status)
	require.NotEqual(t, 200, call("X: y\r\n Authorization: Bearer good\r\n").status, "a folded line")
}

// browsers is a rule that lets tokens be sent in the query.
var browsers = access.ChannelRule{Pattern: `open[.].*`, QueryToken: true}

// TestTokenInQuery: it is taken where a rule of the channel allows it, once, and nowhere else.
func TestTokenInQuery(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, withQueues(), closed(t, &p, browsers))
	p.add(t, "good", everything)
	const fetch, old = "/v1/channels/open.c/subscribers/s/messages", "/channel/open.c/subscription/polling/s"
	require.Equal(t, 201, h.do("PUT", "/v1/channels/open.c/subscribers/s?access_token=good", "").status)
	for _, query := range []string{
		"access_token=good", "max=1&access_token=good", "access_token=good&max=1", "&access_token=%67ood&",
		"access%5Ftoken=good", "%61ccess_token=good",
	} {
		got := h.do("GET", fetch+"?"+query, "")
		got.is(200, nothing)
		require.Equal(t, "private, no-store", got.header.Get("Cache-Control"))
		require.Equal(t, 200, h.do("GET", old+"?"+query, "").status)
	}
	for query, want := range map[string]fault.Slug{
		"access_token=good&access_token=good":  fault.SlugTokenInQuery,
		"access_token=good&access%5ftoken=bad": fault.SlugTokenInQuery,
		"access_token=bad":                     fault.SlugInvalidCredential,
		"access_token=":                        fault.SlugInvalidCredential,
		"access_token":                         fault.SlugInvalidCredential,
		"access_token=%zz":                     fault.SlugInvalidCredential,
		"access_token=Bearer+good":             fault.SlugInvalidCredential,
		"access_token=good%00":                 fault.SlugInvalidCredential,
		"Access_Token=good":                    fault.SlugNoCredential, "access_token[]=good": fault.SlugNoCredential,
		"token=good": fault.SlugNoCredential, "x;access_token=good": fault.SlugNoCredential,
	} {
		status := 401
		if want == fault.SlugTokenInQuery {
			status = 400
		}
		got := h.do("GET", fetch+"?"+query, "")
		got.problem(status, want)
		require.Equal(t, challenges[want], got.header.Get("WWW-Authenticate"), query)
	}
	h.do("GET", fetch+"?access_token=good", "", bearer("good")).problem(400, fault.SlugTokenInQuery)
	for _, call := range []string{
		"GET /v1/channels/c/subscribers/s/messages", "GET /v1/channels/OPEN.c", "GET /v1/channels/a.open.c",
		"GET /v1/info", "GET /v1/queues", "GET /v1/tickets/i",
	} {
		method, path, _ := cut(call)
		h.do(method, path+"?access_token=good", "").problem(400, fault.SlugTokenInQuery)
	}
	h.onAdmin().do("GET", "/metrics?access_token=good", "").problem(400, fault.SlugTokenInQuery)
	h.do("POST", "/v1/channels/open.c/messages", "access_token=good",
		header{"Content-Type", "application/x-www-form-urlencoded"}).problem(401, fault.SlugNoCredential)
	h.do("POST", "/v1/channels/open.c/messages", `{"access_token":"good","content":1}`).problem(401,
		fault.SlugNoCredential)
	require.Equal(t, 200, h.do("GET", "/livez?access_token=bad", "").status, "probes look at none")

	anyone := start(t)
	anyone.subscribe("c", "s")
	anyone.do("GET", at+"/messages?max=1&access_token=any", "", header{"Authorization", "nonsense"}).is(200, nothing)
}

// TestWhatNeedsNoCredentials on a closed service: preflights, whose answers let pages read why a request is refused,
// and what doesn't exist.
func TestWhatNeedsNoCredentials(t *testing.T) {
	t.Parallel()
	const mine = "https://app.example.com"
	var p people
	h := start(t, closed(t, &p), func(s *setup) { s.CORS = server.CORS{AllowOrigins: []string{mine}} })
	preflight := h.do("OPTIONS", at+"/ack", "", header{"Origin", mine}, header{"Access-Control-Request-Method", "POST"},
		header{"Access-Control-Request-Headers", "authorization"})
	preflight.is(http.StatusNoContent, "")
	require.Contains(t, preflight.header.Get("Access-Control-Allow-Headers"), "Authorization")
	refused := h.do("GET", "/v1/channels/c", "", header{"Origin", mine})
	refused.problem(401, fault.SlugNoCredential)
	require.Equal(t, mine, refused.header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, refused.header.Get("Access-Control-Expose-Headers"), "Www-Authenticate")
	h.do("GET", "/nothing", "").problem(404, fault.SlugNoPath)
	h.do("GET", "/v1/keys", "").problem(404, fault.SlugNoPath)
	h.do("PATCH", "/v1/info", "").problem(405, fault.SlugMethod)
	h.do("GET", "/channel/c/nothing", "").oldError(404, "")
}

// TestSecretsAreNotTold: no credential, valid or not, is in the log, an answer or the metrics, whatever happens to the
// request.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	const good, bad = "sesame-good", "sesame-bad"
	var p people
	h := start(t, closed(t, &p, browsers))
	p.add(t, good, everything)
	p.known[good].Credential = "id"
	const at = "/v1/channels/open.c"
	var told strings.Builder
	call := func(request string, headers ...header) {
		method, path, body := cut(request)
		got, err := h.try(t.Context(), method, path, strings.NewReader(body), headers...)
		if err == nil {
			_ = got.header.Write(&told)
			told.Write(got.body)
		}
	}
	all := func() {
		for _, token := range []string{good, bad, good + "%zz", "%2573esame-bad"} {
			for _, name := range []string{"access_token", "access%5Ftoken", "max=1&access_token",
				"access_token=x&access_token"} {
				for _, path := range []string{at, at + "/subscribers/s/messages", "/v1/info", "/nothing",
					"/channel/open.c/subscription/polling/s", "/v1/channels/closed"} {
					call("GET " + path + "?" + name + "=" + token)
				}
				call("PUT " + at + "/messages/a?" + name + "=" + token + " {")
				call("PUT " + at + "/messages/a?" + name + "=" + token + " 1")
				call("DELETE " + at + "?" + name + "=" + token)
			}
			call("GET "+at, bearer(token))
			call("PUT "+at+"/messages/a 1", bearer(token))
			call("GET "+at, header{"Authorization", token})
			call("GET "+at, header{"Authorization", "Basic " + token})
		}
	}
	all()
	h.store.fail(fault.ErrUnavailable)
	all()
	h.store.intercept(func(context.Context, string) error { panic("of the store") })
	all()
	h.store.intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	all()
	h.store.fail(nil)
	h.raw("GET /v1/info?access_token=" + bad +
		" HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\nAuthorization: Bearer " + good + "\r\n\r\n")
	told.Write(h.do("GET", "/metrics", "", bearer(good)).body)
	require.NotContains(t, told.String(), "sesame")
	require.Contains(t, h.logs.Text(t), "panic in a handler")
	require.NotContains(t, h.logs.Text(t), "sesame")
}

// TestWaitsEndWithTheirCredential: a wait ends when its credential is revoked or expires, with an error, and nothing is
// lost.
func TestWaitsEndWithTheirCredential(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "other", everything)
	for i, call := range waits {
		p.add(t, "key", everything)
		h.as("other")
		h.subscribe("c", "s")
		h.as("key")
		answers := h.waiting(t.Context(), 2, call)
		p.revoke("nobody")
		p.revoke("key")
		for range 2 {
			(<-answers).ended(fault.SlugRevokedCredential)
		}
		method, path, body := cut(call)
		h.do(method, path, body).ended(fault.SlugRevokedCredential)

		p.add(t, "short", everything)
		p.known["short"].Expires = time.Now().Add(time.Second)
		h.as("short")
		h.do(method, path, body).ended(fault.SlugExpiredCredential) // in the middle of it
		h.do(method, path, body).ended(fault.SlugExpiredCredential) // before it

		h.as("other")
		h.publish("c", fmt.Sprint("m", i), "1")
		got := h.fetch("c", "s")
		require.Len(t, got.Messages, 1)
		h.do("DELETE", at, "")
		p.unrevoke()
	}
	h.logs.Await(t, func(r servertest.Record) bool {
		return r.Attributes["status"] == "401" && r.Attributes["principal"] == "key:key"
	})
}

// TestALateBody: a request that was admitted changes nothing if its credential was revoked before its body came.
func TestALateBody(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "lost", everything)
	p.add(t, "other", everything)
	conn := h.connect("PUT /v1/channels/c/messages/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer lost\r\n" +
		"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
	begun := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	_, err := io.ReadFull(conn, begun)
	require.NoError(t, err)
	require.Contains(t, string(begun), "100 Continue")
	p.revoke("lost")
	_, err = io.WriteString(conn, "1")
	require.NoError(t, err)
	require.Equal(t, 401, statusOn(t, conn))
	h.do("GET", "/v1/channels/c", "", bearer("other")).problem(404, fault.SlugNoChannel)
}

// ended checks that an answer says why the credential is no longer valid.
func (a answer) ended(slug fault.Slug) {
	a.t.Helper()
	require.Equal(a.t, challenges[slug], a.header.Get("WWW-Authenticate"), "%s", a.body)
	if a.header.Get("Content-Type") == wire.MediaProblem {
		a.problem(401, slug)
	} else {
		a.oldError(401, wire.OldCodeRejected)
	}
}

// TestGuesses: an address that sends many invalid credentials is not listened to for a while, but for those that are
// valid and quickly checked: others may be at the address.
func TestGuesses(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "good", everything)
	require.Equal(t, 200, h.do("GET", "/v1/info", "", bearer("good")).status)
	var got answer
	for i := 0; got.status != http.StatusTooManyRequests; i++ {
		require.Less(t, i, 10_000)
		got = h.do("GET", "/v1/info", "", bearer("guess"))
		require.Contains(t, []int{401, 429}, got.status)
	}
	got.problem(429, fault.SlugRateLimited)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	h.do("GET", "/v1/info", "").problem(401, fault.SlugNoCredential)
	require.Equal(t, 200, h.do("GET", "/livez", "").status)
	require.Equal(t, 200, h.do("GET", "/v1/info", "", bearer("good")).status)
	p.unseen.Store(true)
	h.do("GET", "/v1/info", "", bearer("good")).problem(429, fault.SlugRateLimited)
}

// TestExpiredCredentialsAreGuesses if each has to be verified again.
func TestExpiredCredentialsAreGuesses(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "old", everything)
	p.known["old"].Expires = time.Now().Add(-time.Second)
	send := func(times int) (last answer) {
		for range times {
			last = h.do("GET", "/v1/info", "", bearer("old"))
		}
		return last
	}
	const many = 200
	send(many).problem(401, fault.SlugExpiredCredential)
	p.unseen.Store(true)
	require.Eventually(t, func() bool { return send(many).status == 429 }, servertest.Patience, servertest.Step)
}
