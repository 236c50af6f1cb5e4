package server_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

const (
	subscribeS   = `{"type":"subscribe","ref":1,"channel":"c","subscriber":"s"}`
	unsubscribeS = `{"type":"unsubscribe","ref":2,"channel":"c","subscriber":"s"}`
	publishC     = `{"type":"publish","ref":3,"channel":"c","content":1}`
	ping         = `{"type":"ping","ref":9}`
)

func ackS(ref int, handle string) string {
	return fmt.Sprintf(`{"type":"ack","ref":%d,"channel":"c","subscriber":"s","receiptHandle":"%s"}`, ref, handle)
}

func TestSocket(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	s := h.Dial()
	s.Request(ping, "pong")
	s.Request(`{"type":"authenticate","ref":1,"token":"none"}`, "ok")
	s.Request(subscribeS, "ok")
	h.Publish("c", "a", "{\n\"x\": [1]}")
	a := s.Expect("message")
	require.Equal(t, h.Fetch("c", "s").ReceiptHandle, a.ReceiptHandle)
	require.Equal(t, "c s a 1 {\n\"x\": [1]}", fmt.Sprintln(a.Channel, a.Subscriber, a.ID, a.Clock, string(a.Content))[:19])

	other := h.Dial()
	sent := `{"type":"publish","ref":4,"channel":"c","id":"b","content":[1,2]}`
	p := other.Request(sent, "published")
	require.Equal(t, servertest.Frame{Type: "published", Ref: 4, Channel: "c", ID: "b", Clock: 2}, p)
	require.Equal(t, servertest.Frame{Type: "published", Ref: 4, Channel: "c", ID: "b", Clock: 2, Duplicate: true},
		other.Request(sent, "published"))
	require.True(t, other.Request(strings.Replace(sent, "[1,2]", "[1, 2]", 1), "published").Differs)
	require.NotEmpty(t, other.Request(publishC, "published").ID)
	b := s.Expect("message")
	c := s.Expect("message")
	require.Equal(t, "b", b.ID)
	require.EqualValues(t, 3, c.Clock)

	s.Request(ackS(5, b.ReceiptHandle), "acked")
	s.Request(ackS(6, a.ReceiptHandle), "acked")
	s.Request(ackS(7, b.ReceiptHandle), "acked")
	require.Equal(t, c.ID, h.Fetch("c", "s").Messages[0].ID, "acknowledgements out of order and twice")
	s.Send(`{"type":"ack","channel":"c","subscriber":"s","receiptHandle":"` + c.ReceiptHandle + `"}`)
	s.Request(ping, "pong")
	s.Request(unsubscribeS, "ok")
	require.Empty(t, h.Fetch("c", "s").Messages)

	h.Publish("c", "d", "4")
	h.Publish("c", "e", "5")
	s.Request(subscribeS, "ok")
	d := s.Expect("message")
	require.Equal(t, "d", d.ID)
	require.Equal(t, "e", s.Expect("message").ID)
	s.Request(unsubscribeS, "ok")
	s.Request(strings.Replace(subscribeS, "}", `,"window":1,"resume":"`+d.ReceiptHandle+`"}`, 1), "ok")
	e := s.Expect("message")
	require.Equal(t, "e", e.ID)
	h.Publish("c", "f", "6")
	s.Request(ping, "pong")
	s.Request(ackS(8, e.ReceiptHandle), "acked")
	require.Equal(t, "f", s.Expect("message").ID, "the window has room again")

	h.Publish("c", "g", "7")
	h.Publish("c", "h", "8")
	h.Redis.Do(t, "DEL", h.Prefix+"c.{c}.m.7")
	late := h.Dial()
	late.Request(subscribeS, "ok")
	gap := late.Expect("gap")
	require.Equal(t, "expired 1", fmt.Sprint(gap.Reason, " ", gap.Count))
	require.Equal(t, "f", late.Expect("message").ID)
	require.Equal(t, "h", late.Expect("message").ID)

	shown := string(h.OnAdmin().Do("GET", "/metrics", "").Body)
	for _, line := range []string{
		`tidemark_streams{transport="websocket"} 3`, "tidemark_socket_subscriptions 2",
		`tidemark_socket_frames_total{type="publish"} 4`,
	} {
		require.Contains(t, shown, "\n"+line+"\n")
	}
	require.Regexp(t, `tidemark_stream_messages_total{transport="websocket"} \d+`, shown)
}

// A client needn't wait for the answer to unsubscribe before it subscribes again.
func TestSocketSubscribesAgain(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	s := h.Dial()
	s.Request(subscribeS, "ok")
	for range 100 {
		s.Send(unsubscribeS)
		s.Send(subscribeS)
		require.EqualValues(t, 2, s.Expect("ok").Ref)
		require.EqualValues(t, 1, s.Expect("ok").Ref)
	}
}

// A socket follows channels without a subscriber, too.
func TestSocketTails(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Publish("c", "a", "1")
	s := h.Dial()
	s.Request(`{"type":"subscribe","ref":1,"channel":"c","from":"latest"}`, "ok")
	s.Send(`{"type":"subscribe","ref":2,"channel":"c","from":"earliest"}`)
	s.Fails(2, fault.SlugInvalidSources)
	h.Publish("c", "b", "2")
	b := s.Expect("message")
	require.Equal(t, "c  b", b.Channel+" "+b.Subscriber+" "+b.ID)
	s.Request(`{"type":"unsubscribe","ref":3,"channel":"c"}`, "ok")
	s.Request(`{"type":"subscribe","ref":4,"channel":"c","from":"earliest"}`, "ok")
	require.Equal(t, "a", s.Expect("message").ID)
	require.Equal(t, "b", s.Expect("message").ID)
	other := h.Dial()
	h.Publish("c", "c", "3")
	other.Request(`{"type":"subscribe","ref":5,"channel":"c","from":"latest","resume":"`+b.ReceiptHandle+`"}`, "ok")
	require.Equal(t, "c", other.Expect("message").ID)
	other.Request(`{"type":"unsubscribe","ref":6,"channel":"c"}`, "ok")
	other.Request(`{"type":"subscribe","ref":7,"channel":"c","from":1}`, "ok")
	require.Equal(t, "b", other.Expect("message").ID)
}

// Many publishes may be under way on one socket. Each has its own answer.
func TestSocketPublishesManyAtATime(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	var running, maximum atomic.Int64
	var once sync.Once
	full, release := make(chan struct{}), make(chan struct{})
	h.Store.Intercept(func(_ context.Context, call string) error {
		if call != "Publish" {
			return nil
		}
		n := running.Add(1)
		maximum.Store(max(maximum.Load(), n))
		if n == 64 {
			once.Do(func() { close(full) })
		}
		<-release
		running.Add(-1)
		return nil
	})
	s := h.Dial()
	for ref := 1; ref <= 200; ref++ {
		s.Send(fmt.Sprintf(`{"type":"publish","ref":%d,"channel":"c%d","id":"a","content":%d}`, ref, ref, ref))
	}
	<-full
	close(release)
	answered := map[uint64]string{}
	for range 200 {
		p := s.Expect("published")
		answered[p.Ref] = p.Channel
	}
	require.Len(t, answered, 200)
	require.Equal(t, "c77", answered[77])
	require.LessOrEqual(t, maximum.Load(), int64(64), "then the socket isn't read")
}

// A bad frame is answered, and the next one is handled.
func TestSocketBadFrames(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Subscribe("d", "s")
	h.Publish("c", "a", "1")
	handle := h.Fetch("c", "s").ReceiptHandle
	forged := "AwGj" + handle[4:]
	s := h.Dial()
	for text, want := range map[string]struct {
		slug  fault.Slug
		field string
		ref   uint64
	}{
		`[]`:                                                            {fault.SlugInvalidBody, "", 0},
		`{}`:                                                            {fault.SlugInvalidBody, "/type", 0},
		`{"type":"ping"}`:                                               {fault.SlugInvalidBody, "/ref", 0},
		`{"type":"ping","ref":0}`:                                       {fault.SlugInvalidBody, "/ref", 0},
		`{"type":"ping","ref":-1}`:                                      {fault.SlugInvalidBody, "/ref", 0},
		`{"type":"ping","ref":9007199254740992}`:                        {fault.SlugInvalidBody, "/ref", 0},
		`{"type":"ping","ref":"1"}`:                                     {fault.SlugInvalidBody, "/ref", 0},
		`{"type":"ping","ref":1,"ref":2}`:                               {fault.SlugInvalidBody, "/ref", 2},
		`{"type":"ping","ref":1,"x":1}`:                                 {fault.SlugInvalidBody, "/x", 1},
		`{"type":"ping","ref":1,"channel":"c"}`:                         {fault.SlugInvalidBody, "/channel", 1},
		`{"type":"message","ref":1}`:                                    {fault.SlugInvalidBody, "/type", 1},
		`{"type":"Ping","ref":1}`:                                       {fault.SlugInvalidBody, "/type", 1},
		`{"type":"publish","ref":1,"content":1}`:                        {fault.SlugInvalidBody, "/channel", 1},
		`{"type":"publish","ref":1,"channel":"c"}`:                      {fault.SlugInvalidBody, "/content", 1},
		`{"type":"publish","ref":1,"channel":null}`:                     {fault.SlugInvalidBody, "/channel", 1},
		`{"type":"publish","ref":1,"channel":"{","content":1}`:          {fault.SlugInvalidChannel, "/channel", 1},
		`{"type":"publish","ref":1,"channel":"c","id":"","content":1}`:  {fault.SlugInvalidMessageID, "/id", 1},
		`{"type":"publish","ref":1,"channel":"c","id":"é","content":1}`: {fault.SlugInvalidMessageID, "/id", 1},
		`{"type":"publish","ref":1,"channel":"c","contentType":"a/b","content":"A"}`: {
			fault.SlugInvalidContent, "/content", 1},
		`{"type":"publish","ref":1,"channel":"c","contentType":"a","content":""}`: {fault.SlugContentType, "/contentType", 1},
		`{"type":"ping","ref":1,"contentType":"a/b"}`:                             {fault.SlugInvalidBody, "/contentType", 1},
		`{"type":"publish","ref":1,"channel":"c","content":"` + strings.Repeat("x", servertest.MaxMessageBytes) + `"}`: {
			fault.SlugMessageTooLarge, "/content", 1},
		strings.Replace(subscribeS, "}", `,"window":0}`, 1):    {fault.SlugInvalidMax, "/window", 1},
		strings.Replace(subscribeS, "}", `,"window":1001}`, 1): {fault.SlugInvalidMax, "/window", 1},
		`{"type":"subscribe","ref":1,"channel":"d","subscriber":"s","resume":"` + handle + `"}`: {
			fault.SlugReceiptChannel, "/resume", 1},
		`{"type":"subscribe","ref":1,"channel":"c","subscriber":"nobody"}`: {fault.SlugNoSubscriber, "", 1},
		`{"type":"subscribe","ref":1,"channel":"c","subscriber":"/"}`:      {fault.SlugInvalidSubscriber, "/subscriber", 1},
		unsubscribeS:    {fault.SlugInvalidSources, "", 2},
		ackS(5, "x"):    {fault.SlugReceiptMalformed, "/receiptHandle", 5},
		ackS(5, forged): {fault.SlugReceiptForged, "/receiptHandle", 5},
		`{"type":"ack","channel":"d","subscriber":"s","receiptHandle":"` + handle + `"}`: {
			fault.SlugReceiptChannel, "/receiptHandle", 0},
	} {
		s.SendBad(text)
		require.Equal(t, want.field, s.Fails(want.ref, want.slug).Problem.Field, text)
		if (want.slug == fault.SlugInvalidBody || want.slug == fault.SlugInvalidMessageID) && want.ref != 2 {
			require.Error(t, servertest.CheckClientFrame(t, text), "docs/asyncapi.yaml doesn't allow it either")
		}
	}
	s.Request(subscribeS, "ok")
	s.Expect("message")
	s.Send(subscribeS)
	s.Fails(1, fault.SlugInvalidSources)
	s.Request(ping, "pong")
}

// subscribeTo returns a subscribe.
func subscribeTo(n int) string {
	return fmt.Sprintf(`{"type":"subscribe","ref":%d,"channel":"c%d","subscriber":"s"}`, n+1, n)
}

// A socket has up to 256 subscriptions. Each 8 of them are one of the client's waits.
func TestSocketOfManySubscriptions(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "good", servertest.Everything)
	h.As("good")
	for n := range 257 {
		h.Subscribe(fmt.Sprint("c", n), "s")
	}
	s := h.Dial(servertest.Bearer("good"))
	for n := range 256 {
		s.Request(subscribeTo(n), "ok")
	}
	s.Send(subscribeTo(256))
	s.Fails(257, fault.SlugInvalidSources)
	h.Publish("c200", "a", "1")
	require.Equal(t, "c200", s.Expect("message").Channel)

	few := h.Dial(limited(t, &p, "waits=2"))
	for n := range 16 {
		few.Request(subscribeTo(n), "ok")
	}
	few.Send(subscribeTo(16))
	few.Fails(17, fault.SlugTooManyWaits)
	few.Request(`{"type":"unsubscribe","ref":99,"channel":"c0","subscriber":"s"}`, "ok")
	few.Request(subscribeTo(17), "ok")
	few.Send(subscribeTo(18))
	few.Fails(19, fault.SlugTooManyWaits)
}

// Frames count as requests, and published bytes as by HTTP. A client that doesn't heed its limit is closed.
// TestSocketAfterReload: new limits apply to the next frame of an open socket, and new rules to the next subscription.
func TestSocketAfterReload(t *testing.T) {
	t.Parallel()
	var p servertest.People
	var guard *access.Guard
	h := servertest.Start(t, servertest.Closed(t, &p, access.ChannelRule{Pattern: "other", Readers: []string{"*"}}),
		func(s *servertest.Setup) { guard = s.Guard })
	p.Known["ann"] = &access.Principal{Kind: access.User, Credential: "ann", Subject: "ann"}
	s := h.Dial(servertest.Bearer("ann"))
	change := func(requests, addresses string) {
		users, err := access.ParseLimits(requests)
		require.NoError(t, err)
		all, err := access.ParseLimits(addresses)
		require.NoError(t, err)
		h.Server.SetLimits(limits.Limits{Users: users, Addresses: all})
	}
	s.Request(ping, "pong")
	for _, rates := range [][2]string{{"requests=2/h", "off"}, {"off", "requests=2/h"}} {
		change(rates[0], rates[1])
		s.Request(ping, "pong")
		s.Request(ping, "pong")
		s.Send(ping)
		s.Fails(9, fault.SlugRateLimited)
	}
	change("off", "off")
	s.Request(ping, "pong")
	rules, err := access.CompileRules([]access.ChannelRule{{Pattern: "open", Readers: []string{"ann"}}})
	require.NoError(t, err)
	subscribe := `{"type":"subscribe","ref":5,"channel":"open","subscriber":"ann"}`
	s.Send(subscribe)
	s.Fails(5, fault.SlugNotGranted)
	guard.SetRules(rules)
	s.Send(subscribe)
	s.Fails(5, fault.SlugNoSubscriber)
}

// duringTake is a store of quotas that calls a function while a request is counted.
type duringTake func()

func (do duringTake) Take(context.Context, limits.Quota, int) (limits.Taken, error) {
	do()
	return limits.Taken{OK: true, Left: 1}, nil
}

// TestSocketOpenedDuringReload: limits that change while the handshake is counted apply to the first frame.
func TestSocketOpenedDuringReload(t *testing.T) {
	t.Parallel()
	var p servertest.People
	var h *servertest.Harness
	users, err := access.ParseLimits("requests=1/h")
	require.NoError(t, err)
	rule := access.ChannelRule{Pattern: "other", Readers: []string{"*"}}
	h = servertest.Start(t, servertest.Closed(t, &p, rule), func(s *servertest.Setup) {
		s.Clients.Limits.Quotas = users
		s.Clients.Limits.Store = duringTake(func() { h.Server.SetLimits(limits.Limits{Users: users}) })
	})
	p.Known["ann"] = &access.Principal{Kind: access.User, Credential: "ann", Subject: "ann"}
	s := h.Dial(servertest.Bearer("ann"))
	s.Request(ping, "pong")
	s.Send(ping)
	s.Fails(9, fault.SlugRateLimited)
}

func TestSocketLimits(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	few := limited(t, &p, "requests=3/h")
	s := h.Dial(few)
	s.Request(ping, "pong")
	s.Request(ping, "pong")
	s.Send(ping)
	f := s.Fails(9, fault.SlugRateLimited)
	require.Positive(t, f.Problem.RetryAfter)
	h.Do("GET", "/v1/info", "", few).Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
	for range 254 {
		s.Send(ping)
		s.Fails(9, fault.SlugRateLimited)
	}
	s.Send(ping)
	s.Fails(9, fault.SlugRateLimited)
	s.Ends("flood", websocket.StatusPolicyViolation)

	large := h.Dial(limited(t, &p, "requests=5/h"))
	large.SendBad(`{"type":"` + strings.Repeat("x", 48<<10) + `","ref":9}`)
	large.Fails(9, fault.SlugInvalidBody)
	large.Send(ping)
	large.Fails(9, fault.SlugRateLimited)

	p.Add(t, "some", servertest.Everything)
	mine := h.Dial(servertest.Bearer("some"))
	others := strings.TrimPrefix(limited(t, &p, "requests=1/h").Value, "Bearer ")
	mine.Send(`{"type":"authenticate","ref":7,"token":"` + others + `"}`)
	mine.Fails(7, fault.SlugNotGranted)
	mine.Send(`{"type":"authenticate","ref":7,"token":"` + others + `"}`)
	mine.Fails(7, fault.SlugRateLimited)

	for _, control := range []byte{0x89, 0x8a} {
		many := limited(t, &p, "requests=3/h")
		conn := h.Connect(handshakeOf("Authorization: "+many.Value+"\r\n"+offered) +
			strings.Repeat(string([]byte{control, 0x80, 0, 0, 0, 0}), 300))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		var got []byte
		for !strings.Contains(string(got), "\x03\xf0flood") {
			b := make([]byte, 512)
			n, err := conn.Read(b)
			require.NoError(t, err, "%q", got)
			got = append(got, b[:n]...)
		}
		require.NoError(t, conn.Close())
	}

	bytes := h.Dial(limited(t, &p, "publishedBytes=10/h"))
	bytes.Request(`{"type":"publish","ref":3,"channel":"c","content":12345678}`, "published")
	bytes.Send(`{"type":"publish","ref":4,"channel":"c","content":123}`)
	bytes.Fails(4, fault.SlugRateLimited)
	bytes.Request(`{"type":"publish","ref":5,"channel":"c","content":1}`, "published")
}

// The credential comes in the header, in a frame, or in the query where rules allow it.
func TestSocketCredentials(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p, browsers, access.ChannelRule{Pattern: ".*"}))
	p.Add(t, "good", servertest.Everything)
	p.Add(t, "again", servertest.Everything)
	p.Known["again"].Credential = "good" // the same key
	p.Add(t, "narrow", `[{"actions":["publish"],"channels":["c"]}]`)
	p.Known["narrow"].Credential = "good"
	p.Add(t, "other", servertest.Everything)
	for _, name := range []string{"c", "open.c"} {
		h.Do("PUT", "/v1/channels/"+name+"/subscribers/s", "", servertest.Bearer("good")).With(http.StatusCreated)
	}
	authenticate := func(token string) string { return `{"type":"authenticate","ref":7,"token":"` + token + `"}` }

	s := h.Dial()
	s.Send(subscribeS)
	s.Fails(1, fault.SlugNoCredential)
	s.Send(publishC)
	s.Fails(3, fault.SlugNoCredential)
	s.Send(ackS(4, "x"))
	s.Fails(4, fault.SlugNoCredential)
	s.Send(authenticate("bad"))
	s.Fails(7, fault.SlugInvalidCredential)
	s.Request(authenticate("good"), "ok")
	s.Request(subscribeS, "ok")
	s.Send(authenticate("other"))
	s.Fails(7, fault.SlugNotGranted)
	s.Request(authenticate("again"), "ok")
	s.Request(authenticate("narrow"), "ok")
	require.Equal(t, "c", s.Fails(0, fault.SlugNotGranted).Channel, "the subscription has ended")
	s.Send(subscribeS)
	s.Fails(1, fault.SlugNotGranted)
	s.Request(publishC, "published")

	s = h.DialPath("/v1/socket?access_token=good")
	s.Request(`{"type":"subscribe","ref":1,"channel":"open.c","subscriber":"s"}`, "ok")
	for _, text := range []string{subscribeS, publishC, ackS(5, "x")} {
		s.Send(text)
		s.Fails(wire.RefOf([]byte(text)), fault.SlugTokenInQuery)
	}
	s.Request(authenticate("good"), "ok")
	s.Request(subscribeS, "ok")

	h.Do("GET", "/v1/socket", "", servertest.Bearer("bad")).Problem(http.StatusUnauthorized, fault.SlugInvalidCredential)
	h.Do("GET", "/v1/socket?access_token=good", "", servertest.Bearer("good")).Problem(http.StatusBadRequest,
		fault.SlugTokenInQuery)
}

// A credential that ends closes the socket, unless another one of the same principal has come before.
func TestSocketCredentialEnds(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	for _, name := range []string{"first", "second"} {
		p.Add(t, name, servertest.Everything)
		p.Known[name].Kind, p.Known[name].Subject = access.User, "s"
	}
	h.Do("PUT", servertest.At, "", servertest.Bearer("first")).With(http.StatusCreated)
	ended, renewed := h.Dial(servertest.Bearer("first")), h.Dial(servertest.Bearer("first"))
	for _, s := range []*servertest.Socket{ended, renewed} {
		s.Request(subscribeS, "ok")
	}
	renewed.Request(`{"type":"authenticate","ref":7,"token":"second"}`, "ok")
	p.Revoke("first")
	ended.Ends("credential", 4401)
	h.Do("POST", "/v1/channels/c/messages", `{"content":1}`, servertest.Bearer("second")).With(http.StatusCreated)
	require.Equal(t, "1", string(renewed.Expect("message").Content))
	p.Revoke("second")
	renewed.Ends("credential", 4401)
}

// A credential that ends while its socket is opened ends the socket, and not the service.
func TestSocketCredentialEndsEarly(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	for n := range 50 {
		p.Add(t, fmt.Sprint("early", n), servertest.Everything)
	}
	for n := range 50 {
		credential := fmt.Sprint("early", n)
		conn := h.Connect(handshakeOf("Authorization: Bearer " + credential + "\r\n" + offered))
		p.Revoke(credential)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		_, err := io.ReadAll(conn)
		require.NoError(t, err)
	}
}

// A socket that never sends a credential is closed, unless it does what needs none.
func TestSocketWithoutCredential(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) {
		s.Limits.SocketPatience = time.Millisecond
	})
	h.Dial().Ends("credential", 4401)

	var anyone servertest.People
	h = servertest.Start(t, servertest.Closed(t, &anyone, access.ChannelRule{Pattern: "c", Writers: []string{"anonymous"}}),
		func(s *servertest.Setup) { s.Limits.SocketPatience = time.Hour })
	s := h.Dial()
	s.Request(publishC, "published")
	s.Request(strings.Replace(publishC, ",", ","+strings.Repeat(" ", 20<<10), 1), "published")
	s = h.Dial()
	require.NoError(t, s.Conn.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat(" ", 10<<10))))
	s.Closed(websocket.StatusMessageTooBig)
}

// A socket tells why it ends, and ends a subscription alone if only that can't go on.
func TestSocketEnds(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	s := h.Dial()
	s.Request(subscribeS, "ok")
	h.Do("DELETE", servertest.At, "").With(http.StatusNoContent)
	f := s.Fails(0, fault.SlugNoSubscriber)
	require.Equal(t, "c s", f.Channel+" "+f.Subscriber)
	h.Subscribe("c", "s")
	s.Request(subscribeS, "ok")
	keys, err := h.Redis.Do(t, "KEYS", h.Prefix+"c.{c}.*").AsStrSlice()
	require.NoError(t, err)
	h.Redis.Do(t, append([]string{"DEL"}, keys...)...) // the channel expires
	h.Publish("c", "a", "1")
	s.Fails(0, fault.SlugNoSubscriber)
	entered, release := make(chan struct{}), make(chan struct{})
	h.Store.Intercept(func(_ context.Context, call string) error {
		if call == "Publish" {
			close(entered)
			<-release
		}
		return nil
	})
	s.Send(`{"type":"publish","ref":3,"channel":"d","content":1}`)
	<-entered
	h.Stop()
	awaitDraining(h)
	direct(h, "GET", "/v1/socket").Problem(http.StatusServiceUnavailable, fault.SlugDraining)
	close(release)
	s.Expect("published")
	s.Ends("drain", websocket.StatusGoingAway)
	require.NoError(t, <-h.Stopped)

	h = servertest.Start(t, func(s *servertest.Setup) { s.Limits.StreamAge = time.Millisecond })
	h.Dial().Ends("age", websocket.StatusGoingAway)
}

// A server doesn't wait longer than its grace for a client that doesn't close.
func TestSocketOutlivesGrace(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Grace = 100 * time.Millisecond })
	entered := make(chan struct{})
	h.Store.Intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	s := h.Dial()
	s.Send(publishC)
	<-entered
	h.Stop()
	require.ErrorIs(t, <-h.Stopped, server.ErrGrace)
	for range h.Stopped {
	}
}

// A panic ends the socket, and not the service.
func TestSocketPanic(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Store.Intercept(func(context.Context, string) error { panic("the secret of the handler") })
	s := h.Dial()
	s.Send(publishC)
	s.Ends("internal", websocket.StatusInternalError)
	h.Logs.AwaitMessage(t, "panic in a handler")
}

// handshakeOf returns the text of a handshake.
func handshakeOf(more string) string {
	return "GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + more + "\r\n"
}

const offered = "Sec-WebSocket-Protocol: other, tidemark.v1\r\n"

// Requests that aren't a handshake are refused, and pages of other origins.
func TestSocketHandshake(t *testing.T) {
	t.Parallel()
	const mine = "https://app.example.com"
	h := servertest.Start(t, func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{mine}} })
	header := func(name, value string) servertest.Header { return servertest.Header{Name: name, Value: value} }
	protocol := header("Sec-WebSocket-Protocol", wire.SocketProtocol)
	h.Do("GET", "/v1/socket", "").Problem(http.StatusBadRequest, fault.SlugInvalidRequest)
	h.Do("GET", "/v1/socket?x=1", "").Problem(http.StatusBadRequest, fault.SlugInvalidQuery)
	got := h.Do("GET", "/v1/socket", "", protocol).Problem(http.StatusBadRequest, fault.SlugInvalidRequest)
	require.Contains(t, got.Detail, "Upgrade")
	for _, tt := range []struct {
		text   string
		status int
	}{
		{handshakeOf(""), 400}, {handshakeOf("Sec-WebSocket-Protocol: tidemark.v2\r\n"), 400}, {handshakeOf(offered), 101},
		{strings.Replace(handshakeOf(offered), "Version: 13", "Version: 8", 1), 400},
		{strings.Replace(handshakeOf(offered), "AAAA==", "AA==", 1), 400},
		{handshakeOf(offered + "Origin: " + mine + "\r\nSec-Fetch-Site: cross-site\r\n"), 101},
		{handshakeOf(offered + "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"), 101},
		{handshakeOf(offered + "Origin: " + servertest.Evil + "\r\nSec-Fetch-Site: cross-site\r\n"), 403},
		{handshakeOf(offered + "Origin: " + servertest.Evil + "\r\n"), 403},
		{handshakeOf(offered + "Origin: null\r\n"), 403},
	} {
		require.Equal(t, tt.status, servertest.StatusOn(t, h.Connect(tt.text)), tt.text)
	}
	second := *h
	second.Client = servertest.Client(t, true)
	second.Do("GET", "/v1/socket", "", protocol).Problem(http.StatusBadRequest, fault.SlugInvalidRequest)
}

// rawFrame returns a frame of RFC 6455 with a mask of zeros.
func rawFrame(first byte, payload string) string {
	length := []byte{0x80 | byte(min(len(payload), 126))}
	if len(payload) > 125 {
		length = binary.BigEndian.AppendUint16(length, uint16(len(payload)))
	}
	return string(first) + string(length) + "\x00\x00\x00\x00" + payload
}

// byteString is a string of one byte.
func byteString(b ...byte) string { return string(b) }

// A client that breaks RFC 6455 is told by a close frame, and the connection is closed.
func TestSocketProtocolErrors(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	frame := func(first byte, payload string) string { return byteString(first) + rawFrame('x', payload)[1:] }
	for name, tt := range map[string]struct {
		sent string
		code websocket.StatusCode
	}{
		"without a mask":             {"\x81\x01x", websocket.StatusProtocolError},
		"reserved bit 1":             {frame(0xc1, ping), websocket.StatusProtocolError},
		"reserved bit 3":             {frame(0x91, ping), websocket.StatusProtocolError},
		"unknown opcode":             {frame(0x83, ping), websocket.StatusProtocolError},
		"continues nothing":          {frame(0x80, ping), websocket.StatusProtocolError},
		"a frame within a message":   {frame(0x01, ping) + frame(0x81, ping), websocket.StatusProtocolError},
		"fragmented control frame":   {frame(0x09, "x"), websocket.StatusProtocolError},
		"large control frame":        {frame(0x89, strings.Repeat("x", 126)), websocket.StatusProtocolError},
		"negative length":            {"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", websocket.StatusProtocolError},
		"more than a body":           {"\x81\xff\x00\x00\x00\x00\x00\x20\x00\x00\x00\x00\x00\x00" + strings.Repeat(" ", 2<<20), websocket.StatusMessageTooBig},
		"binary":                     {frame(0x82, ping), websocket.StatusUnsupportedData},
		"no JSON":                    {frame(0x81, `{"type":`), websocket.StatusInvalidFramePayloadData},
		"empty":                      {frame(0x81, ""), websocket.StatusInvalidFramePayloadData},
		"no UTF-8":                   {frame(0x81, `{"type":"ping","ref":1,"channel":"`+"\xff\"}"), websocket.StatusInvalidFramePayloadData},
		"close code that is invalid": {frame(0x88, "\x03\xed"), websocket.StatusProtocolError},
		"close frame of one byte":    {frame(0x88, "\x03"), websocket.StatusProtocolError},
		"close":                      {frame(0x88, "\x03\xe8bye"), websocket.StatusNormalClosure},
	} {
		conn := h.Connect(handshakeOf(offered) + tt.sent)
		require.Equal(t, tt.code, closeCodeOn(t, conn), name)
	}
	// Fragments, a ping between them, and frames that come with the handshake are no errors.
	conn := h.Connect(handshakeOf(offered) + frame(0x01, ping[:5]) + frame(0x89, "p") + frame(0x00, "") +
		frame(0x80, ping[5:]) + frame(0x88, "\x03\xe8"))
	require.Equal(t, websocket.StatusNormalClosure, closeCodeOn(t, conn, "\x8a\x01p", `{"type":"pong","ref":9}`))
}

// closeCodeOn reads up to the close frame, and returns its code. Before it come all of the texts.
func closeCodeOn(t *testing.T, conn net.Conn, texts ...string) websocket.StatusCode {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	require.NoError(t, conn.(*net.TCPConn).CloseWrite()) // else the server waits for the answer to its close frame
	all, err := io.ReadAll(conn)
	if err != nil {
		require.ErrorContains(t, err, "reset", "there are bytes that the server hasn't read")
	}
	_, frames, ok := strings.Cut(string(all), "\r\n\r\n")
	require.True(t, ok, "%q", all)
	for _, text := range texts {
		require.Contains(t, frames, text)
	}
	for len(frames) >= 4 {
		length := int(frames[1])
		if frames[0] == 0x88 {
			return websocket.StatusCode(binary.BigEndian.Uint16([]byte(frames[2:])))
		}
		head := 2
		if length == 126 {
			length, head = int(binary.BigEndian.Uint16([]byte(frames[2:]))), 4
		}
		frames = frames[head+length:]
	}
	t.Fatalf("no close frame: %q", all)
	return 0
}

// A client finds every message and loses none, whatever ends meanwhile: one of two servers, the service, or Redis.
func TestSocketSurvives(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	prefix := redistest.Prefix(t)
	start := func() *servertest.Harness {
		return servertest.Start(t, func(s *servertest.Setup) {
			s.Redis, s.Prefix, s.Timeout = node, prefix, time.Second
		})
	}
	var h *servertest.Harness
	var s, publisher *servertest.Socket
	dial := func(to *servertest.Harness) {
		h, s, publisher = to, to.Dial(), to.Dial()
		s.Request(subscribeS, "ok")
	}
	exchange := func(id string) {
		t.Helper()
		publisher.Request(`{"type":"publish","ref":3,"channel":"c","id":"`+id+`","content":1}`, "published")
		m := s.Expect("message")
		require.Equal(t, id, m.ID)
		s.Request(ackS(4, m.ReceiptHandle), "acked")
	}
	first := start()
	first.Subscribe("c", "s")
	dial(first)
	exchange("a")
	for _, ids := range [][2]string{{"b", "c"}, {"d", "e"}} { // a rolling deploy
		next := start()
		h.Stop()
		s.Ends("drain", websocket.StatusGoingAway)
		publisher.Ends("drain", websocket.StatusGoingAway)
		require.NoError(t, <-h.Stopped)
		next.Publish("c", ids[0], "1") // while the client is away
		dial(next)
		require.Equal(t, ids[0], s.Expect("message").ID)
		exchange(ids[1])
	}

	node.Kill(t)
	publisher.Send(publishC)
	publisher.Fails(3, fault.SlugUnavailable)
	s.Request(ping, "pong")
	node.Restart(t)
	end := time.Now().Add(30 * time.Second)
	for published := false; !published; { // until the connection is made again
		require.True(t, time.Now().Before(end), "Redis serves, and the service doesn't")
		publisher.Send(`{"type":"publish","ref":3,"channel":"c","id":"f","content":1}`)
		published = publisher.Receive().Type == "published"
	}
	f := s.Receive()
	for f.Type == "ping" {
		f = s.Receive()
	}
	require.Equal(t, "f", f.ID, "on the same socket")
	exchange("g")
}
