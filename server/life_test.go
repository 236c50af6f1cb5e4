package server_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/wire"
)

// redisTime returns the time of the harness's Redis.
func (h *harness) redisTime() time.Time {
	h.t.Helper()
	parts, err := h.redis.Do(h.t, "TIME").AsStrSlice()
	require.NoError(h.t, err)
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	require.NoError(h.t, err)
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	require.NoError(h.t, err)
	return time.Unix(seconds, micros*1000).Truncate(time.Millisecond)
}

// endOf returns when a subscriber's mark expires.
func (h *harness) endOf(channel, subscriber string) time.Time {
	h.t.Helper()
	ms, err := h.redis.Do(h.t, "PEXPIRETIME", h.prefix+"c.{"+channel+"}.r."+subscriber).AsInt64()
	require.NoError(h.t, err)
	return time.UnixMilli(ms)
}

// age makes a subscriber's mark older, but not so old that an idle poll would renew it.
func (h *harness) age(channel, subscriber string, ttl time.Duration) {
	h.t.Helper()
	left := strconv.FormatInt((ttl * 95 / 100).Milliseconds(), 10)
	require.NoError(h.t, h.redis.Do(h.t, "PEXPIRE", h.prefix+"c.{"+channel+"}.r."+subscriber, left).Error())
}

// TestSubscriberLivesForTheWholeTTL holds that a subscriber that has acknowledged, or has got messages, lives for the
// whole TTL from then on, and from the end of a long poll too.
func TestSubscriberLivesForTheWholeTTL(t *testing.T) {
	t.Parallel()
	const (
		name = "life-10m"
		ttl  = 10 * time.Minute
		path = "/v1/channels/" + name + "/subscribers/s"
	)
	h := start(t)
	h.subscribe(name, "s")
	handle := ""
	for what, use := range []func(){
		func() { handle = h.fetch(name, "s").ReceiptHandle },
		func() { require.Equal(t, 204, h.do("POST", path+"/ack", `{"receiptHandle":"`+handle+`"}`).status) },
		func() { handle = h.fetch(name, "s").ReceiptHandle },
		func() {
			h.publish(name, "last", "1")
			require.Equal(t, 200, h.do("POST", path+"/next", `{"receiptHandle":"`+handle+`"}`).status)
		},
	} {
		h.publish(name, "m"+strconv.Itoa(what), "1")
		h.age(name, "s", ttl)
		before := h.redisTime()
		use()
		require.False(t, h.endOf(name, "s").Before(before.Add(ttl)), "call %d leaves the whole TTL", what)
	}

	subscribed := h.redisTime()
	h.subscribe(name, "waits")
	answered := make(chan answer, 1)
	go func() { answered <- h.do("GET", "/v1/channels/"+name+"/subscribers/waits/messages?wait=20s", "") }()
	// Its read has found nothing, and so has given the mark the wait besides the TTL.
	slept := func() bool { return !h.endOf(name, "waits").Before(subscribed.Add(20*time.Second + ttl)) }
	require.Eventually(t, slept, time.Minute, time.Millisecond)
	before := h.redisTime()
	h.publish(name, "news", "1")
	require.Len(t, decode[wire.Delivery](<-answered).Messages, 1)
	require.False(t, h.endOf(name, "waits").Before(before.Add(ttl)), "a long poll that was answered leaves the whole TTL")
}
