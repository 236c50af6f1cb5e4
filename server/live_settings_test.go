package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
)

// live keeps the settings of a service current until the test ends, and returns them and what changes, as
// "<name>=<value>".
func (h *harness) live(o records.LiveOptions, options ...client.Option) (*records.LiveSettings, <-chan string) {
	h.t.Helper()
	c, err := client.New(h.url, options...)
	require.NoError(h.t, err)
	h.t.Cleanup(c.Close)
	changes := make(chan string, 100)
	o.Changed = func(name string, now *records.Setting) {
		switch {
		case now == nil:
			name += " deleted"
		case now.Value != nil:
			name += "=" + *now.Value
		}
		changes <- name
	}
	l := records.New(c).LiveSettings(o)
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	h.t.Cleanup(func() {
		stop()
		require.ErrorIs(h.t, <-ended, context.Canceled)
	})
	select {
	case <-l.Ready():
	case err := <-ended:
		ended <- err
		require.FailNow(h.t, "ended", "%v", err)
	}
	return l, changes
}

func (h *harness) setting(name, value string) {
	h.t.Helper()
	h.do("PUT", "/v1/settings/"+name, `{"value":"`+value+`"}`).with(200)
}

// awaitChange waits for a change, and drops those before it.
func awaitChange(t *testing.T, changes <-chan string, want string) {
	t.Helper()
	for limit := time.After(time.Minute); ; {
		select {
		case got := <-changes:
			if got == want {
				return
			}
		case <-limit:
			require.FailNow(t, "no "+want)
		}
	}
}

// TestLiveSettings: a process knows each change, also those that it was told nothing of because messages were lost.
func TestLiveSettings(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.setting("LOG_LEVEL", "info")
	h.setting("JWT_SECRET", "hidden")
	l, changes := h.live(records.LiveOptions{})
	require.Len(t, l.All(), 2)
	secret, ok := l.Get("JWT_SECRET")
	require.True(t, ok)
	require.Equal(t, "hidden", *secret.Value)
	logging, onlyLogs := h.live(records.LiveOptions{Category: "logging"})
	require.Len(t, logging.All(), 1)
	h.setting("FEATURE_X", "on")
	awaitChange(t, changes, "FEATURE_X=on")
	h.setting("LOG_LEVEL", "debug")
	awaitChange(t, changes, "LOG_LEVEL=debug")
	awaitChange(t, onlyLogs, "LOG_LEVEL=debug")
	h.do("DELETE", "/v1/settings/FEATURE_X", "").is(204, "")
	awaitChange(t, changes, "FEATURE_X deleted")
	h.publish("settings", "odd", `"no change"`)
	h.publish("settings", "foreign", `{"name":"../keys","category":"logging","event":"put"}`)
	h.publish("settings", "none", `{"name":"NONE","category":"logging","event":"put"}`)

	// The storage loses the channel, and with it a message.
	require.NoError(t, h.redis.Do(t, "SET", h.prefix+"env_vars:{LOG_LEVEL}", "trace").Error())
	for key := range h.keys() {
		if strings.Contains(key, "{settings}") {
			require.NoError(t, h.redis.Do(t, "DEL", key).Error())
		}
	}
	h.setting("FEATURE_Y", "on")
	awaitChange(t, onlyLogs, "LOG_LEVEL=trace")
	awaitChange(t, changes, "FEATURE_Y=on")
	require.Len(t, l.All(), 3)
	require.Len(t, logging.All(), 1)
}

// TestLiveSettingsOfAReader: secrets stay hidden from a client that may not see them, and a put that told nobody is
// found later.
func TestLiveSettingsOfAReader(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "admin", `[{"actions":["read","write","admin"]}]`)
	p.add(t, "reader",
		`[{"actions":["read"],"records":["settings","settings/*"]},{"actions":["subscribe"],"channels":["settings"]}]`)
	p.add(t, "stranger", `[{"actions":["read"],"records":["settings","settings/*"]}]`)
	h.as("admin")
	h.setting("JWT_SECRET", "hidden")
	l, changes := h.live(records.LiveOptions{Refresh: 10 * time.Millisecond}, client.WithToken("reader"))
	secret, ok := l.Get("JWT_SECRET")
	require.True(t, ok && secret.Secret && secret.Value == nil)
	require.NoError(t, h.redis.Do(t, "HSET", h.prefix+"env_vars", "LOG_LEVEL", "public 1").Error())
	require.NoError(t, h.redis.Do(t, "SET", h.prefix+"env_vars:{LOG_LEVEL}", "trace").Error())
	awaitChange(t, changes, "LOG_LEVEL=trace")

	c, err := client.New(h.url, client.WithToken("stranger"))
	require.NoError(t, err)
	defer c.Close()
	require.ErrorIs(t, records.New(c).LiveSettings(records.LiveOptions{}).Run(t.Context()), client.ErrNotGranted)
}
