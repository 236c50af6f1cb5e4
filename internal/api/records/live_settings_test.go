package records_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// live keeps the settings of a service current until the test ends, and returns them and their changes, as
// "<name>=<value>".
func live(h *servertest.Harness, o records.LiveOptions, options ...client.Option) (*records.LiveSettings,
	<-chan string) {
	h.TB.Helper()
	c, err := client.New(h.URL, options...)
	require.NoError(h.TB, err)
	h.TB.Cleanup(c.Close)
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
	ctx, stop := context.WithCancel(context.WithoutCancel(h.TB.Context()))
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	h.TB.Cleanup(func() {
		stop()
		require.ErrorIs(h.TB, <-ended, context.Canceled)
	})
	select {
	case <-l.Ready():
	case err := <-ended:
		ended <- err
		require.FailNow(h.TB, "ended", "%v", err)
	}
	return l, changes
}

func setting(h *servertest.Harness, name, value string) {
	h.TB.Helper()
	h.Do("PUT", "/v1/settings/"+name, `{"value":"`+value+`"}`).With(200)
}

// awaitChange waits for a change, and drops earlier ones.
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

// TestLiveSettings: a process learns of each change, also if its message was lost.
func TestLiveSettings(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	setting(h, "LOG_LEVEL", "info")
	setting(h, "JWT_SECRET", "hidden")
	l, changes := live(h, records.LiveOptions{})
	require.Len(t, l.All(), 2)
	secret, ok := l.Get("JWT_SECRET")
	require.True(t, ok)
	require.Equal(t, "hidden", *secret.Value)
	logging, onlyLogs := live(h, records.LiveOptions{Category: "logging"})
	require.Len(t, logging.All(), 1)
	setting(h, "FEATURE_X", "on")
	awaitChange(t, changes, "FEATURE_X=on")
	setting(h, "LOG_LEVEL", "debug")
	awaitChange(t, changes, "LOG_LEVEL=debug")
	awaitChange(t, onlyLogs, "LOG_LEVEL=debug")
	h.Do("DELETE", "/v1/settings/FEATURE_X", "").Expect(204, "")
	awaitChange(t, changes, "FEATURE_X deleted")
	h.Publish("settings", "odd", `"no change"`)
	h.Publish("settings", "foreign", `{"name":"../keys","category":"logging","event":"put"}`)
	h.Publish("settings", "none", `{"name":"NONE","category":"logging","event":"put"}`)

	// The storage loses the channel, and with it a message.
	require.NoError(t, h.Redis.Do(t, "SET", h.Prefix+"env_vars:{LOG_LEVEL}", "trace").Error())
	for key := range h.Keys() {
		if strings.Contains(key, "{settings}") {
			require.NoError(t, h.Redis.Do(t, "DEL", key).Error())
		}
	}
	setting(h, "FEATURE_Y", "on")
	awaitChange(t, onlyLogs, "LOG_LEVEL=trace")
	awaitChange(t, changes, "FEATURE_Y=on")
	require.Len(t, l.All(), 3)
	require.Len(t, logging.All(), 1)
}

// TestLiveSettingsOfAReader: secrets stay hidden from a client without permission, and a put without a notification is
// found later.
func TestLiveSettingsOfAReader(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "admin", `[{"actions":["read","write","admin"]}]`)
	p.Add(t, "reader",
		`[{"actions":["read"],"records":["settings","settings/*"]},{"actions":["subscribe"],"channels":["settings"]}]`)
	p.Add(t, "stranger", `[{"actions":["read"],"records":["settings","settings/*"]}]`)
	h.As("admin")
	setting(h, "JWT_SECRET", "hidden")
	l, changes := live(h, records.LiveOptions{Refresh: 10 * time.Millisecond}, client.WithToken("reader"))
	secret, ok := l.Get("JWT_SECRET")
	require.True(t, ok && secret.Secret && secret.Value == nil)
	require.NoError(t, h.Redis.Do(t, "HSET", h.Prefix+"env_vars", "LOG_LEVEL", "public 1").Error())
	require.NoError(t, h.Redis.Do(t, "SET", h.Prefix+"env_vars:{LOG_LEVEL}", "trace").Error())
	awaitChange(t, changes, "LOG_LEVEL=trace")

	c, err := client.New(h.URL, client.WithToken("stranger"))
	require.NoError(t, err)
	defer c.Close()
	require.ErrorIs(t, records.New(c).LiveSettings(records.LiveOptions{}).Run(t.Context()), client.ErrNotGranted)
}
