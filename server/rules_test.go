package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// ruled is a service whose rules change. The user s and anonymous clients read the channels c and stays by a rule, the
// API key "all" reads everything by its grants.
type ruled struct {
	*servertest.Harness

	t     *testing.T
	guard *access.Guard
}

func startRuled(t *testing.T) ruled {
	t.Helper()
	var p servertest.People
	r := ruled{t: t}
	r.Harness = servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) { r.guard = s.Guard })
	p.Add(t, "all", servertest.Everything)
	p.Known["user"] = &access.Principal{Kind: access.User, Credential: "user", Subject: "s"}
	r.open("c|stays")
	for _, name := range []string{"c", "stays"} {
		for _, subscriber := range []string{"s", "anonymous"} {
			r.Do("PUT", "/v1/channels/"+name+"/subscribers/"+subscriber, "", servertest.Bearer("all")).With(http.StatusCreated)
		}
	}
	return r
}

// open lets everybody read the channels that match a pattern, and no others.
func (r *ruled) open(pattern string) {
	r.t.Helper()
	rules, err := access.CompileRules([]access.ChannelRule{{Pattern: pattern, Readers: []string{"anonymous"}}})
	require.NoError(r.t, err)
	r.guard.SetRules(rules)
}

func (r *ruled) publish(channel string) {
	r.t.Helper()
	r.Do("POST", "/v1/channels/"+channel+"/messages", `{"content":1}`, servertest.Bearer("all")).With(http.StatusCreated)
}

// TestStreamsOfRulesThatChange: a change of the rules ends the event streams that only the rules before allowed.
func TestStreamsOfRulesThatChange(t *testing.T) {
	t.Parallel()
	r := startRuled(t)
	user, all := servertest.Bearer("user"), servertest.Bearer("all")
	const anonymous, tail = "/v1/channels/c/subscribers/anonymous/stream", "/v1/channels/c/stream"
	many := "/v1/stream?sub=stays/s&sub=c/s"
	ended := map[*eventSource]string{
		openEvents(t, r.Harness, anonymous): "credential", openEvents(t, r.Harness, tail): "credential",
		openEvents(t, r.Harness, streamOfS, user): "removed", openEvents(t, r.Harness, many, user): "removed",
	}
	granted := openEvents(t, r.Harness, many, all)
	open := openEvents(t, r.Harness, "/v1/channels/stays/stream")
	for s := range ended {
		s.ping()
	}
	r.open("stays")
	for s, reason := range ended {
		s.ends(reason)
	}
	r.Do("GET", anonymous, "").Problem(http.StatusUnauthorized, fault.SlugNoCredential)
	got := r.Do("GET", many, "", user)
	require.Equal(t, "sub/1", got.Problem(http.StatusForbidden, fault.SlugNotGranted).Field)
	r.publish("c")
	require.Equal(t, "c", granted.message().Channel)
	r.publish("stays")
	require.Equal(t, "stays", granted.message().Channel)
	require.EqualValues(t, 1, open.message().Clock)
}

// TestWaitsOfRulesThatChange is TestStreamsOfRulesThatChange for fetches that wait.
func TestWaitsOfRulesThatChange(t *testing.T) {
	t.Parallel()
	r := startRuled(t)
	single := r.Waiting(t.Context(), 1, "GET /v1/channels/c/subscribers/anonymous/messages?wait=1m")
	open := r.Waiting(t.Context(), 1, "GET /v1/channels/stays/subscribers/anonymous/messages?wait=1m")
	nobody := r.Waiting(t.Context(), 1, `POST /v1/fetch {"wait":"1m","from":[{"channel":"c","subscriber":"anonymous"}]}`)
	r.As("user")
	var waits []<-chan servertest.Answer
	for _, call := range servertest.Waits {
		waits = append(waits, r.Waiting(t.Context(), 1, call))
	}
	many := r.Waiting(t.Context(), 1, `POST /v1/fetch {"wait":"1m","from":[{"channel":"c","subscriber":"s"},`+
		`{"channel":"stays","subscriber":"s"}]}`)
	r.open("stays")
	(<-single).Problem(http.StatusUnauthorized, fault.SlugNoCredential)
	(<-nobody).Problem(http.StatusUnauthorized, fault.SlugNoCredential)
	for i, wait := range waits {
		require.Equal(t, http.StatusForbidden, (<-wait).Status, servertest.Waits[i])
	}
	got := servertest.Decode[servertest.Deliveries](<-many)
	require.Len(t, got.Problems, 1, "the other channels may still be read")
	require.Equal(t, "c", got.Problems[0].Channel)
	require.Equal(t, http.StatusForbidden, got.Problems[0].Status)
	r.publish("stays")
	require.Len(t, servertest.Decode[client.Delivery](<-open).Messages, 1)
}

// TestSocketOfRulesThatChange is TestStreamsOfRulesThatChange for the subscriptions of sockets.
func TestSocketOfRulesThatChange(t *testing.T) {
	t.Parallel()
	r := startRuled(t)
	user, anonymous := r.Dial(servertest.Bearer("user")), r.Dial()
	granted := r.Dial(servertest.Bearer("all"))
	user.Request(subscribeS, "ok")
	user.Request(`{"type":"subscribe","ref":2,"channel":"stays","subscriber":"s"}`, "ok")
	anonymous.Request(`{"type":"subscribe","ref":1,"channel":"c","from":"latest"}`, "ok")
	granted.Request(subscribeS, "ok")
	r.open("stays")
	require.Equal(t, "c", user.Fails(0, fault.SlugNotGranted).Channel)
	require.Equal(t, "c", anonymous.Fails(0, fault.SlugNoCredential).Channel)
	r.publish("c")
	r.publish("stays")
	require.Equal(t, "stays", user.Expect("message").Channel)
	require.Equal(t, "c", granted.Expect("message").Channel)
	anonymous.Request(ping, "pong")
	user.Send(subscribeS)
	user.Fails(1, fault.SlugNotGranted)
	r.open("c|stays")
	user.Request(subscribeS, "ok")
}
