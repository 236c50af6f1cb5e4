package admin_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestPolicyOfAChannel shows the rule that applies to a channel, and the defaults where none does.
func TestPolicyOfAChannel(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t).OnAdmin()
	of := func(name string) wire.ChannelPolicy {
		return servertest.Decode[wire.ChannelPolicy](h.Do("GET", "/v1/channels/"+name+"/policy", ""))
	}
	want := wire.ChannelPolicy{Channel: "other", TTLMillis: 60_000, MaxMessageBytes: servertest.MaxMessageBytes}
	require.Equal(t, want, of("other"))
	want.Channel, want.Rule, want.TTLMillis = "life-5m", "life-(?P<ttl>.+)", 300_000
	require.Equal(t, want, of("life-5m"))
	h.Do("GET", "/v1/channels/life-x/policy", "").Problem(400, fault.SlugInvalidPolicy)
	h.Do("GET", "/v1/channels/no%20spaces/policy", "").Problem(400, fault.SlugInvalidChannel)
}

func TestChannelsForOperators(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	h.Subscribe("c", "s")
	for i, id := range []string{"a", "b", "d", "e"} {
		h.Publish("c", id, fmt.Sprint(i+1))
	}
	admin.Play(
		servertest.Exchange{Call: "GET /v1/channels/c/messages?max=2", Status: 200, Answer: `{"channel":"c","epoch":"*",
			"clock":4,"messages":[{"id":"a","clock":1,"content":1,"publishedAt":"*"},
			{"id":"b","clock":2,"content":2,"publishedAt":"*"}],"through":2,"more":true}`},
		servertest.Exchange{Call: "GET /v1/channels/c/messages?after=3", Status: 200, Answer: `{"channel":"c","epoch":"*",
			"clock":4,"messages":[{"id":"e","clock":4,"content":4,"publishedAt":"*"}],"through":4,"more":false}`},
		servertest.Exchange{Call: `POST /v1/channels/c/purge {"through":2}`, Status: 200,
			Answer: `{"channel":"c","epoch":"*","through":2,"purged":2}`},
		servertest.Exchange{Call: `POST /v1/channels/c/purge {"through":2}`, Status: 200,
			Answer: `{"channel":"c","epoch":"*","through":2,"purged":0}`},
		servertest.Exchange{Call: "GET " + servertest.At + "/messages?max=1", Status: 200, Answer: `{"messages":[
			{"id":"d","clock":3,"content":3,"publishedAt":"*"}],"receiptHandle":"*","more":true,"expired":0,"purged":2}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/seek {"to":"latest"}`, Status: 200,
			Answer: `{"channel":"c","subscriber":"s","epoch":"*","mark":4,"lag":0}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/seek {"to":-5}`, Status: 200,
			Answer: `{"channel":"c","subscriber":"s","epoch":"*","mark":2,"lag":2}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/seek {"to":"2000-01-01T00:00:00+01:00"}`, Status: 200,
			Answer: `{"channel":"c","subscriber":"s","epoch":"*","mark":2,"lag":2}`},
		servertest.Exchange{Call: "POST " + servertest.At + `/seek {"to":"earliest"}`, Status: 200,
			Answer: `{"channel":"c","subscriber":"s","epoch":"*","mark":2,"lag":2}`},
		servertest.Exchange{Call: "DELETE /v1/channels/c", Status: 204},
		servertest.Exchange{Call: "DELETE /v1/channels/c", Status: 204},
		servertest.Exchange{Call: "GET /v1/channels/c", Status: 404, Answer: string(fault.SlugNoChannel)},
		servertest.Exchange{Call: "GET " + servertest.At + "/messages", Status: 404, Answer: string(fault.SlugNoSubscriber)},
	)
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/c/messages/a", "1").Status, "the ID isn't remembered")
	for _, call := range []string{"GET /v1/channels", "GET /v1/channels/c/messages", "DELETE /v1/channels/c",
		"POST /v1/channels/c/purge {}", "POST " + servertest.At + "/seek {}"} {
		method, path, body := servertest.Cut(call)
		require.Contains(t, []int{404, 405}, h.Do(method, path, body).Status, "%s on the public listener", call)
	}
}

func TestOperatorsMistakes(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues()).OnAdmin()
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	epoch := servertest.Decode[client.Description](h.Do("GET", "/v1/channels/c", "").With(200)).Epoch
	const purge, seek, position = "POST /v1/channels/c/purge ", "POST " + servertest.At + "/seek ", fault.SlugInvalidPosition
	for _, c := range []struct {
		call   string
		status int
		slug   fault.Slug
		field  string
	}{
		{purge + `{}`, 400, fault.SlugInvalidBody, "/through"},
		{purge + `{"through":null}`, 400, position, "/through"},
		{purge + `{"through":"earliest"}`, 400, position, "/through"},
		{purge + `{"through":1.5}`, 400, position, "/through"},
		{purge + `{"from":1}`, 400, fault.SlugInvalidBody, "/from"},
		{purge + `{"through":2}`, 409, position, "/through"},
		{purge + `{"through":1,"epoch":"x"}`, 400, fault.SlugInvalidBody, "/epoch"},
		{purge + `{"through":1,"epoch":"00000000000000000000000001"}`, 409, fault.SlugOtherLife, "/epoch"},
		{"POST /v1/channels/none/purge " + `{"through":"latest"}`, 404, fault.SlugNoChannel, ""},
		{seek + `{}`, 400, fault.SlugInvalidBody, "/to"},
		{seek + `{"to":null}`, 400, position, "/to"},
		{seek + `{"to":"now"}`, 400, position, "/to"},
		{seek + `{"to":"2026-02-30T00:00:00Z"}`, 400, position, "/to"},
		{seek + `{"to":9007199254740992}`, 400, position, "/to"},
		{seek + `{"to":2}`, 409, position, "/to"},
		{"POST /v1/channels/c/subscribers/none/seek " + `{"to":"latest"}`, 404, fault.SlugNoSubscriber, ""},
		{"GET /v1/channels/c/messages?after=x", 400, position, "after"},
		{"GET /v1/channels/c/messages?after=2", 409, position, "after"},
		{"GET /v1/channels/c/messages?max=1001", 400, fault.SlugInvalidMax, "max"},
		{"GET /v1/channels/none/messages", 404, fault.SlugNoChannel, ""},
		{"GET /v1/channels?prefix=a*", 400, fault.SlugInvalidQuery, "prefix"},
		{"GET /v1/channels?cursor=5", 400, fault.SlugInvalidQuery, "cursor"},
		{"GET /v1/channels?limit=5", 400, fault.SlugInvalidQuery, "limit"},
		{"DELETE /v1/channels/ticket.a", 403, fault.SlugReserved, "channel"},
		{"POST /v1/channels/ticket.a/purge " + `{"through":"latest"}`, 403, fault.SlugReserved, "channel"},
		{"POST /v1/channels/ticket.a/subscribers/player/seek " + `{"to":"latest"}`, 403, fault.SlugReserved, "channel"},
	} {
		method, path, body := servertest.Cut(c.call)
		p := h.Do(method, path, body).Problem(c.status, c.slug)
		require.Equal(t, c.field, p.Field, "%s: %s", c.call, p.Detail)
		require.NotContains(t, p.Detail, "from must", c.call)
	}
	require.Equal(t, 200, h.Do("POST", "/v1/channels/c/purge", `{"through":1,"epoch":"`+epoch+`"}`).Status)
}

// TestListOfChannels reads all pages of the channels with a prefix.
func TestListOfChannels(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	for i := range 300 {
		h.Publish(fmt.Sprintf("some.%03d", i), "a", "1")
	}
	h.Subscribe("other", "s")
	list := func(prefix string) map[string]client.ListedChannel {
		all := map[string]client.ListedChannel{}
		for query := "?prefix=" + prefix; ; {
			page := servertest.Decode[wire.ChannelList](admin.Do("GET", "/v1/channels"+query, "").With(200))
			for _, c := range page.Channels {
				all[c.Channel] = c
			}
			if page.Cursor == "" {
				return all
			}
			query = "?prefix=" + prefix + "&cursor=" + url.QueryEscape(page.Cursor)
		}
	}
	require.Len(t, list("some."), 300)
	others := list("other")
	require.Len(t, others, 1)
	require.EqualValues(t, 1, others["other"].SubscriberCount)
	require.Positive(t, others["other"].TTLMillis)
}

// TestOperatorsNeedAdmin: other actions do not suffice.
func TestOperatorsNeedAdmin(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	h := servertest.Start(t, closedBy(t, r))
	admin, root := h.OnAdmin(), servertest.Bearer(r.rootText)
	made := admin.Do("POST", "/v1/keys", `{"grants":[{"actions":["publish","subscribe","describe"]}]}`, root)
	clerk := servertest.Bearer(servertest.Decode[client.CreatedKey](made.With(201)).Text)
	require.Equal(t, 201, h.Do("PUT", servertest.At, "", clerk).Status)
	for _, call := range []string{"GET /v1/channels", "GET /v1/channels/c/messages", "DELETE /v1/channels/c",
		`POST /v1/channels/c/purge {"through":"latest"}`, "POST " + servertest.At + `/seek {"to":"latest"}`} {
		method, path, body := servertest.Cut(call)
		admin.Do(method, path, body, clerk).Problem(403, fault.SlugNotGranted)
		require.Less(t, admin.Do(method, path, body, root).Status, 300, call)
		if method == "GET" || strings.HasSuffix(path, "/seek") || method == "DELETE" {
			require.Less(t, h.Do("PUT", servertest.At, "", clerk).Status, 300)
		}
	}
}

// TestDetailsOfChannels: a page can have the size, lag and rate of each channel, and be ordered by them.
func TestDetailsOfChannels(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	h.Subscribe("a", "s")
	h.Subscribe("b", "slow")
	for i := range 5 {
		h.Publish("b", fmt.Sprint(i), "1")
	}
	h.Subscribe("b", "fast")
	h.Publish("c", "x", "1")
	names := func(query string) (found []string, all []client.ListedChannel) {
		t.Helper()
		all = servertest.Decode[wire.ChannelList](admin.Do("GET", "/v1/channels"+query, "")).Channels
		for _, listed := range all {
			found = append(found, listed.Channel)
		}
		return found, all
	}
	got, all := names("")
	require.Equal(t, []string{"a", "b", "c"}, got)
	require.Nil(t, all[1].Details)
	_, all = names("?details=true")
	require.Equal(t, &client.ChannelDetails{Messages: 5, Lag: 5, Slowest: "slow"}, all[1].Details)
	require.Equal(t, &client.ChannelDetails{Messages: 1}, all[2].Details)
	require.Equal(t, &client.ChannelDetails{Slowest: "s"}, all[0].Details)
	got, _ = names("?sort=lag")
	require.Equal(t, []string{"b", "a", "c"}, got)
	got, _ = names("?sort=messages")
	require.Equal(t, []string{"b", "c", "a"}, got)
	got, _ = names("?sort=name&prefix=c")
	require.Equal(t, []string{"c"}, got)
	for _, query := range []string{"details=x", "sort=size", "sort="} {
		admin.Do("GET", "/v1/channels?"+query, "").Problem(400, fault.SlugInvalidQuery)
	}
}
