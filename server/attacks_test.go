package server_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestOtherChannels uses credentials for the channel "mine" on others, under every name and path that may be taken for
// it.
func TestOtherChannels(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "good", `[{"actions":["publish","subscribe","describe"],"channels":["mine"],"subscribers":["s"]}]`)
	h.As("good")
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/mine/subscribers/s", "").Status)
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/%6Din%65/messages/a", "1").Status, "the same name")
	before := h.Keys()
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
			method, path, body := servertest.Cut(strings.ReplaceAll(call, "NAME", name))
			got := h.Do(method, path, body, servertest.Header{Name: "X-Http-Method-Override", Value: "GET"},
				servertest.Header{Name: "X-Original-Url", Value: "/v1/channels/mine"})
			require.Contains(t, []int{400, 403, 404, 405}, got.Status, "%s: %s", path, got.Body)
		}
	}
	for _, call := range []string{ // other subscribers of the channel
		"GET /v1/channels/mine/subscribers/S/messages", "PUT /v1/channels/mine/subscribers/s%3A2",
		"DELETE /channel/mine/subscription/polling/t", "PUT /channel/mine/subscription/polling/s2",
	} {
		method, path, _ := servertest.Cut(call)
		require.Equal(t, 403, h.Do(method, path, "").Status, call)
	}
	require.Equal(t, before, h.Keys(), "nothing was written")
}

// TestOtherQueues uses credentials for one queue on other queues and their contents.
func TestOtherQueues(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues("other", servertest.Duel), servertest.Closed(t, &p))
	p.Add(t, "all", servertest.Everything)
	p.Add(t, "duels", `[{"actions":["ticket","queue"],"queues":["duel"]}]`)
	h.As("all")
	match := func(queue string) string {
		first := h.Create(`{"queue":"` + queue + `"}`)
		h.Create(`{"queue":"` + queue + `"}`)
		return "/v1/matches/" + h.Assignment(first).MatchID
	}
	duels, others := match("duel"), match("other")
	require.Len(t, servertest.Decode[wire.Queues](h.Do("GET", "/v1/queues", "")).Queues, 3, "and the default one")

	h.Client = servertest.Client(t, false)
	h.As("duels")
	require.Equal(t, 201, h.Do("POST", "/v1/tickets", `{"queue":"duel"}`).Status)
	require.Equal(t, 200, h.Do("GET", "/v1/queues/duel", "").Status)
	require.Equal(t, 200, h.Do("GET", duels, "").Status)
	listed := servertest.Decode[wire.Queues](h.Do("GET", "/v1/queues", "")).Queues
	require.Len(t, listed, 1)
	require.Equal(t, "duel", listed[0].Name)
	for _, call := range []string{
		`POST /v1/tickets {"queue":"other"}`, `POST /v1/tickets {"queue":"nowhere","id":"a"}`, "POST /v1/tickets {}",
		"GET /v1/queues/other", "GET /v1/queues/Duel",
		"GET /v1/queues/nowhere", "GET " + others, "GET " + others + "?queue=other",
	} {
		method, path, body := servertest.Cut(call)
		h.Do(method, path, body).Problem(403, fault.SlugNotGranted)
	}
}

// TestMethodsAreNotOverridden: a credential that may read can't write by overriding the method.
func TestMethodsAreNotOverridden(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "reader", `[{"actions":["describe"]}]`)
	h.As("reader")
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		h.Do("POST", "/v1/channels/c/messages", "1", servertest.Header{Name: name, Value: "GET"}).Problem(403,
			fault.SlugNotGranted)
		h.Do("GET", "/v1/channels/c", "", servertest.Header{Name: name, Value: "POST"}).Problem(404,
			fault.SlugNoChannel)
	}
	h.Do("GET", "/v1/channels/c?_method=POST", "").Problem(400, fault.SlugInvalidQuery)
}

// TestAuthorization sends the header in all forms. It is one, with one token.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "good", servertest.Everything)
	p.Add(t, "a-._~+/b==", servertest.Everything)
	call := func(headers string) servertest.Answer {
		got := h.Raw("GET /v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n")
		got.Body = []byte(strings.TrimSuffix(string(got.Body), "\n"))
		return got
	}
	for _, valid := range []string{"Bearer good", "bearer good", "BEARER   good ", "Bearer a-._~+/b=="} {
		require.Equal(t, 200, call("Authorization: "+valid+"\r\n").Status, valid)
	}
	require.Equal(t, 200, call("aUTHORIZATION: Bearer good\r\n").Status)
	for _, invalid := range []string{
		"", " ", "Bearer", "Bearer ", "Bearer =", "Bearer bad", "good", "Basic Z29vZA==", "Token good", "Bearer\tgood",
		"Bearer good good", "Bearer good, Bearer good",
		"Bearer good,Basic x", "Basic x, Bearer good", `Bearer "good"`, "Bearer g\x80ood", "Bearer good=x",
		"Bearer%20good", "Bearer good\r\nAuthorization: Bearer good",
		"Bearer good\r\nAuthorization:", "\r\nAuthorization: Bearer good", "Bearer good\r\nauthorization: Basic x",
	} {
		got := call("Authorization: " + invalid + "\r\n")
		got.Problem(401, fault.SlugInvalidCredential)
		require.Equal(t, challenges[fault.SlugInvalidCredential], got.Header.Get("WWW-Authenticate"))
	}
	for _, elsewhere := range []string{
		"", "X-Authorization: Bearer good\r\n", "Proxy-Authorization: Bearer good\r\n", "Cookie: access_token=good\r\n",
		"X-Api-Key: good\r\n",
		"Authorization_: Bearer good\r\n", "X-Forwarded-Authorization: Bearer good\r\n",
	} {
		call(elsewhere).Problem(401, fault.SlugNoCredential)
	}
	require.NotEqual(t, 200, call("Authorization : Bearer good\r\n").Status)
	require.NotEqual(t, 200, call("X: y\r\n Authorization: Bearer good\r\n").Status, "a folded line")
}

// browsers is a rule that lets tokens be sent in the query.
var browsers = access.ChannelRule{Pattern: `open[.].*`, QueryToken: true}

// TestTokenInQuery: it is accepted, once, only if a rule of the channel allows it.
func TestTokenInQuery(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p, browsers))
	p.Add(t, "good", servertest.Everything)
	const fetch, old = "/v1/channels/open.c/subscribers/s/messages", "/channel/open.c/subscription/polling/s"
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/open.c/subscribers/s?access_token=good", "").Status)
	for _, query := range []string{
		"access_token=good", "max=1&access_token=good", "access_token=good&max=1", "&access_token=%67ood&",
		"access%5Ftoken=good", "%61ccess_token=good",
	} {
		got := h.Do("GET", fetch+"?"+query, "")
		got.Expect(200, servertest.Nothing)
		require.Equal(t, "private, no-store", got.Header.Get("Cache-Control"))
		require.Equal(t, 200, h.Do("GET", old+"?"+query, "").Status)
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
		got := h.Do("GET", fetch+"?"+query, "")
		got.Problem(status, want)
		require.Equal(t, challenges[want], got.Header.Get("WWW-Authenticate"), query)
	}
	h.Do("GET", fetch+"?access_token=good", "", servertest.Bearer("good")).Problem(400, fault.SlugTokenInQuery)
	for _, call := range []string{
		"GET /v1/channels/c/subscribers/s/messages", "GET /v1/channels/OPEN.c", "GET /v1/channels/a.open.c",
		"GET /v1/info", "GET /v1/queues", "GET /v1/tickets/i",
	} {
		method, path, _ := servertest.Cut(call)
		h.Do(method, path+"?access_token=good", "").Problem(400, fault.SlugTokenInQuery)
	}
	h.OnAdmin().Do("GET", "/metrics?access_token=good", "").Problem(400, fault.SlugTokenInQuery)
	h.Do("POST", "/v1/channels/open.c/messages", "access_token=good",
		servertest.Header{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}).Problem(401,
		fault.SlugNoCredential)
	h.Do("POST", "/v1/channels/open.c/messages", `{"access_token":"good","content":1}`).Problem(401,
		fault.SlugNoCredential)
	require.Equal(t, 200, h.Do("GET", "/livez?access_token=bad", "").Status, "probes look at none")

	anyone := servertest.Start(t)
	anyone.Subscribe("c", "s")
	anyone.Do("GET", servertest.At+"/messages?max=1&access_token=any", "", servertest.Header{Name: "Authorization",
		Value: "nonsense"}).Expect(200, servertest.Nothing)
}

// TestWhatNeedsNoCredentials on a closed service: preflights, whose answers let pages read why a request is refused,
// and unknown paths.
func TestWhatNeedsNoCredentials(t *testing.T) {
	t.Parallel()
	const mine = "https://app.example.com"
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p),
		func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{mine}} })
	preflight := h.Do("OPTIONS", servertest.At+"/ack", "", servertest.Header{Name: "Origin", Value: mine},
		servertest.Header{Name: "Access-Control-Request-Method", Value: "POST"},
		servertest.Header{Name: "Access-Control-Request-Headers", Value: "authorization"})
	preflight.Expect(http.StatusNoContent, "")
	require.Contains(t, preflight.Header.Get("Access-Control-Allow-Headers"), "Authorization")
	refused := h.Do("GET", "/v1/channels/c", "", servertest.Header{Name: "Origin", Value: mine})
	refused.Problem(401, fault.SlugNoCredential)
	require.Equal(t, mine, refused.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, refused.Header.Get("Access-Control-Expose-Headers"), "Www-Authenticate")
	h.Do("GET", "/nothing", "").Problem(404, fault.SlugNoPath)
	h.Do("GET", "/v1/keys", "").Problem(404, fault.SlugNoPath)
	h.Do("PATCH", "/v1/info", "").Problem(405, fault.SlugMethod)
	h.Do("GET", "/channel/c/nothing", "").OldError(404, "")
}

// TestSecretsAreNotTold: no credential, valid or not, appears in the log, an answer or the metrics, whatever the
// outcome of the request.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	const good, bad = "sesame-good", "sesame-bad"
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p, browsers))
	p.Add(t, good, servertest.Everything)
	p.Known[good].Credential = "id"
	const at = "/v1/channels/open.c"
	var logged strings.Builder
	call := func(request string, headers ...servertest.Header) {
		method, path, body := servertest.Cut(request)
		got, err := h.Try(t.Context(), method, path, strings.NewReader(body), headers...)
		if err == nil {
			_ = got.Header.Write(&logged)
			logged.Write(got.Body)
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
			call("GET "+at, servertest.Bearer(token))
			call("PUT "+at+"/messages/a 1", servertest.Bearer(token))
			call("GET "+at, servertest.Header{Name: "Authorization", Value: token})
			call("GET "+at, servertest.Header{Name: "Authorization", Value: "Basic " + token})
		}
	}
	all()
	h.Store.Fail(fault.ErrUnavailable)
	all()
	h.Store.Intercept(func(context.Context, string) error { panic("of the store") })
	all()
	h.Store.Intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	all()
	h.Store.Fail(nil)
	h.Raw("GET /v1/info?access_token=" + bad +
		" HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\nAuthorization: Bearer " + good + "\r\n\r\n")
	logged.Write(h.Do("GET", "/metrics", "", servertest.Bearer(good)).Body)
	require.NotContains(t, logged.String(), "sesame")
	require.Contains(t, h.Logs.Text(t), "panic in a handler")
	require.NotContains(t, h.Logs.Text(t), "sesame")
}

// TestWaitsEndWithTheirCredential: a wait ends when its credential is revoked or expires, with an error, and nothing is
// lost.
func TestWaitsEndWithTheirCredential(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "other", servertest.Everything)
	for i, call := range servertest.Waits {
		p.Add(t, "key", servertest.Everything)
		h.As("other")
		h.Subscribe("c", "s")
		h.As("key")
		answers := h.Waiting(t.Context(), 2, call)
		p.Revoke("nobody")
		p.Revoke("key")
		for range 2 {
			ended((<-answers), fault.SlugRevokedCredential)
		}
		method, path, body := servertest.Cut(call)
		ended(h.Do(method, path, body), fault.SlugRevokedCredential)

		p.Add(t, "short", servertest.Everything)
		p.Known["short"].Expires = time.Now().Add(time.Second)
		h.As("short")
		ended(h.Do(method, path, body), fault.SlugExpiredCredential) // in the middle of it
		ended(h.Do(method, path, body), fault.SlugExpiredCredential) // before it

		h.As("other")
		h.Publish("c", fmt.Sprint("m", i), "1")
		got := h.Fetch("c", "s")
		require.Len(t, got.Messages, 1)
		h.Do("DELETE", servertest.At, "")
		unrevoke(&p)
	}
	h.Logs.Await(t, func(r servertest.Record) bool {
		return r.Attributes["status"] == "401" && r.Attributes["principal"] == "key:key"
	})
}

// TestALateBody: an admitted request changes nothing if its credential is revoked before its body arrives.
func TestALateBody(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "lost", servertest.Everything)
	p.Add(t, "other", servertest.Everything)
	conn := h.Connect("PUT /v1/channels/c/messages/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer lost\r\n" +
		"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	_, err := io.ReadFull(conn, interim)
	require.NoError(t, err)
	require.Contains(t, string(interim), "100 Continue")
	p.Revoke("lost")
	_, err = io.WriteString(conn, "1")
	require.NoError(t, err)
	require.Equal(t, 401, servertest.StatusOn(t, conn))
	h.Do("GET", "/v1/channels/c", "", servertest.Bearer("other")).Problem(404, fault.SlugNoChannel)
}

// ended checks that an answer says why the credential is no longer valid.
func ended(a servertest.Answer, slug fault.Slug) {
	a.TB.Helper()
	require.Equal(a.TB, challenges[slug], a.Header.Get("WWW-Authenticate"), "%s", a.Body)
	if a.Header.Get("Content-Type") == wire.MediaProblem {
		a.Problem(401, slug)
	} else {
		a.OldError(401, wire.OldCodeRejected)
	}
}

// TestGuesses: an address that sends many invalid credentials is not listened to for a while, but for those that are
// valid and quickly checked: others may be at the address.
func TestGuesses(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "good", servertest.Everything)
	require.Equal(t, 200, h.Do("GET", "/v1/info", "", servertest.Bearer("good")).Status)
	guess := func() (last servertest.Answer) {
		for i := 0; last.Status != http.StatusTooManyRequests; i++ {
			require.Less(t, i, 10_000)
			last = h.Do("GET", "/v1/info", "", servertest.Bearer("guess"))
			require.Contains(t, []int{401, 429}, last.Status)
		}
		return last
	}
	got := guess()
	got.Problem(429, fault.SlugRateLimited)
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	h.Do("GET", "/v1/info", "").Problem(401, fault.SlugNoCredential)
	require.Equal(t, 200, h.Do("GET", "/livez", "").Status)
	require.Equal(t, 200, h.Do("GET", "/v1/info", "", servertest.Bearer("good")).Status)
	p.Unseen.Store(true)
	require.Eventually(t, func() bool { // the address may make another guess after a time
		guess()
		got = h.Do("GET", "/v1/info", "", servertest.Bearer("good"))
		return got.Status != 200
	}, servertest.Patience, servertest.Step)
	got.Problem(429, fault.SlugRateLimited)
}

// TestUnknownKeysAreGuesses while the keys of tokens can't be fetched.
func TestUnknownKeysAreGuesses(t *testing.T) {
	t.Parallel()
	verifier, err := jwt.New(jwt.Options{Keys: []string{"https://issuer.invalid/keys"}, Algorithms: []string{"EdDSA"},
		Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("it is down") })})
	require.NoError(t, err)
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{verifier}})
	require.NoError(t, err)
	h := servertest.Start(t, func(s *servertest.Setup) { s.Guard = guard })
	guess := func(n int) servertest.Answer {
		header := fmt.Sprintf(`{"alg":"EdDSA","kid":"%d"}`, n)
		return h.Do("GET", "/v1/info", "",
			servertest.Bearer(base64.RawURLEncoding.EncodeToString([]byte(header))+".e30.AAAA"))
	}
	last := guess(0)
	last.Problem(503, fault.SlugKeysUnavailable)
	for n := 1; last.Status != http.StatusTooManyRequests; n++ {
		require.Less(t, n, 10_000)
		last = guess(n)
		require.Contains(t, []int{503, 429}, last.Status)
	}
	last.Problem(429, fault.SlugRateLimited)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestExpiredCredentialsAreGuesses if each must be verified again.
func TestExpiredCredentialsAreGuesses(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "old", servertest.Everything)
	p.Known["old"].Expires = time.Now().Add(-time.Second)
	send := func(times int) (last servertest.Answer) {
		for range times {
			last = h.Do("GET", "/v1/info", "", servertest.Bearer("old"))
		}
		return last
	}
	const many = 200
	send(many).Problem(401, fault.SlugExpiredCredential)
	p.Unseen.Store(true)
	require.Eventually(t, func() bool { return send(many).Status == 429 }, servertest.Patience, servertest.Step)
}
