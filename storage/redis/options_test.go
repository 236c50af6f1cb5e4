package redis

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestURL(t *testing.T) {
	t.Parallel()
	type wanted struct {
		addresses      []string
		user, password string
		db             int
		master         string
		tls            bool
		serverName     string
	}
	for text, want := range map[string]wanted{
		"redis://h:1":                  {addresses: []string{"h:1"}},
		"redis://h":                    {addresses: []string{"h:6379"}},
		"redis://:7000":                {addresses: []string{"localhost:7000"}},
		"redis://[::1]:7000":           {addresses: []string{"[::1]:7000"}},
		"redis://[::1]":                {addresses: []string{"[::1]:6379"}},
		"redis://h:1/3":                {addresses: []string{"h:1"}, db: 3},
		"redis://h:1?db=4":             {addresses: []string{"h:1"}, db: 4},
		"redis://h:1/":                 {addresses: []string{"h:1"}},
		"redis://h:1/?db=4":            {addresses: []string{"h:1"}, db: 4},
		"redis://alice:s3cret@h:1":     {addresses: []string{"h:1"}, user: "alice", password: "s3cret"},
		"redis://:s3cret@h:1":          {addresses: []string{"h:1"}, password: "s3cret"},
		"redis://a%40b:s%2F%3A%2C@h:1": {addresses: []string{"h:1"}, user: "a@b", password: "s/:,"},
		"redis://u:p@w@h:1":            {addresses: []string{"h:1"}, user: "u", password: "p@w"},
		"redis://u:p,w@a:1,b:2":        {addresses: []string{"a:1", "b:2"}, user: "u", password: "p,w"},

		"h":                         {addresses: []string{"h:6379"}},
		"h:1":                       {addresses: []string{"h:1"}},
		"::1":                       {addresses: []string{"[::1]:6379"}},
		"[::1]:1,127.0.0.1:2":       {addresses: []string{"[::1]:1", "127.0.0.1:2"}},
		"a:1,b:2,c:3":               {addresses: []string{"a:1", "b:2", "c:3"}},
		"a,b , c:3":                 {addresses: []string{"a:6379", "b:6379", "c:3"}},
		"redis://u:p@a:1,b:2/5":     {addresses: []string{"a:1", "b:2"}, user: "u", password: "p", db: 5},
		"redis://a:1?addr=b&addr=c": {addresses: []string{"a:1", "b:6379", "c:6379"}},

		"redis://a:1,b:2?master_set=mymaster": {addresses: []string{"a:1", "b:2"}, master: "mymaster"},
		"rediss://h:1":                        {addresses: []string{"h:1"}, tls: true, serverName: "h"},
		"rediss://a:1,b:2":                    {addresses: []string{"a:1", "b:2"}, tls: true},
		"rediss://h:1?master_set=mymaster":    {addresses: []string{"h:1"}, tls: true, master: "mymaster"},
		"unix:///run/redis.sock":              {addresses: []string{"/run/redis.sock"}},
		"unix:///run/a%20b.sock?db=2":         {addresses: []string{"/run/a b.sock"}, db: 2},
		"unix://alice:s3cret@/run/tidemark/me": {addresses: []string{"/run/tidemark/me"}, user: "alice",
			password: "s3cret"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c, err := parseURL(text)
			require.NoError(t, err)
			got := wanted{
				addresses: c.InitAddress, user: c.Username, password: c.Password, db: c.SelectDB,
				master: c.Sentinel.MasterSet, tls: c.TLSConfig != nil,
			}
			if got.tls {
				got.serverName = c.TLSConfig.ServerName
			}
			require.Equal(t, want, got)
			require.Equal(t, strings.HasPrefix(text, "unix"), c.DialCtxFn != nil)
		})
	}
}

// TestURLErrorsHoldNoSecret parses invalid URLs with a password that isn't encoded.
func TestURLErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "empty",
		"http://h:1":                 "scheme",
		"REDIS://h:1":                "scheme",
		"u:s3cret://s3cret@h":        "scheme",
		"redis://":                   "host 1",
		"redis://u:s3cret@":          "host 1",
		"redis://u:s3cret":           "host 1",
		"redis://u:s3cret/@h:1":      "percent-encoded",
		"redis://u:123/s3cret@h:1":   "percent-encoded",
		"redis://u:123?s3cret@h:1":   "percent-encoded",
		"redis://u:123#s3cret@h:1":   "percent-encoded",
		"redis://u:s3cret%@h:1":      "percent-encoded",
		"redis://u:%zzs3cret@h:1":    "percent-encoded",
		"redis://u: s3cret\x7f@h:1":  "percent-encoded",
		"redis://u:s3cret@h:1/x":     "percent-encoded",
		"redis://u:s3cret@h:1?db=x":  "percent-encoded",
		"redis://u:s3cret@h:1/1/2":   "percent-encoded",
		"redis://u:s3cret@h:0":       "host 1",
		"redis://u:s3cret@h:65536":   "host 1",
		"redis://u:s3cret@h:-1":      "host 1",
		"redis://u:s3cret@h:s3cret":  "host 1",
		"redis://u:s3cret@a:b:c":     "host 1",
		"redis://u:s3cret@a:1,":      "host 2",
		"redis://u:s3cret@a:1,,b:1":  "host 2",
		"redis://u:s3cret@a:1,b:x":   "host 2",
		"redis://u:s3cret@a?addr=b:": "host 2",
		"unix://":                    "socket",
		"unix://u:s3cret@":           "socket",
		"unix:///":                   "socket",
		"unix://s3cret/redis.sock":   "socket",
		"unix:///s3cret%":            "socket",
		"unix:///redis.sock?db=x":    "percent-encoded",
		"unix:/run/s3cret.sock":      "host 1",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := Options{URL: text}.client()
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "s3cret")
			require.NotContains(t, err.Error(), "123")
		})
	}
}

func TestOptionsStandInForTheURL(t *testing.T) {
	t.Parallel()
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	c, err := Options{
		URL: "redis://alice:one@h:1?master_set=first", Username: "bob", Password: "two", TLS: config,
		Sentinel: Sentinel{Master: "second", Username: "carol", Password: "three"}, Timeout: 4 * time.Second,
	}.client()
	require.NoError(t, err)
	require.Equal(t, []string{"bob", "two"}, []string{c.Username, c.Password})
	require.Same(t, config, c.TLSConfig)
	require.Same(t, config, c.Sentinel.TLSConfig)
	require.Equal(t, "second", c.Sentinel.MasterSet)
	require.Equal(t, []string{"carol", "three"}, []string{c.Sentinel.Username, c.Sentinel.Password})
	require.True(t, c.DisableRetry, "the store decides what is tried again")
	require.True(t, c.DisableCache)
	require.Equal(t, 2*time.Second, c.Dialer.Timeout)

	c, err = Options{URL: "redis://alice:one@h:1"}.client()
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "one"}, []string{c.Username, c.Password})
	require.Equal(t, rueidis.SentinelOption{}, c.Sentinel)
}

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	o, err := Options{}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, DefaultTimeout, o.Timeout)
	require.Equal(t, DefaultLargeReadBytes, o.LargeReadBytes)

	o, err = Options{Timeout: time.Minute, LargeReadBytes: 1}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, time.Minute, o.Timeout)
	require.Equal(t, 1, o.LargeReadBytes)

	_, err = Options{Timeout: -1}.withDefaults()
	require.ErrorContains(t, err, "timeout")
}

func TestKeyPrefix(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "mm1:", "a.b/c#", "ключ:", `"`} {
		_, err := Options{KeyPrefix: good}.withDefaults()
		require.NoError(t, err, "%q", good)
	}
	for _, bad := range []string{"{", "a}", "{x}", " ", "a b", "a\n", "\x00", "\x7f", "a\tb"} {
		_, err := Options{KeyPrefix: bad}.withDefaults()
		require.ErrorContains(t, err, "key prefix", "%q", bad)
	}
}
