package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReload: the reloadable options change, the others need a restart. The changes show no secret.
func TestReload(t *testing.T) {
	t.Parallel()
	schema := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(schema, []byte(`{"type":"string"}`), 0o600))
	text := `
redis: redis://ann:s3cret@a
channels: [{pattern: a, ttl: 1h, schema: ` + schema + `, readers: [ann]}, {pattern: b}, {pattern: c}]
queues:
  gone: {}
  same: {}
  secret: {assigner: {kind: webhook, url: "http://a/?token=s3cret"}}
  longer: {ticketTTL: 1h}
`
	old, err := load(t, text, nil, nil)
	require.NoError(t, err)
	unchanged, err := old.Reload(old)
	require.NoError(t, err)
	require.Empty(t, unchanged.Changes)
	require.Empty(t, unchanged.Restart)

	require.NoError(t, os.WriteFile(schema, []byte(`{"type":"number"}`), 0o600))
	next, err := load(t, strings.NewReplacer("@a", "@b", "ttl: 1h", "ttl: 2h", "[ann]", "[ann, bob]", "{pattern: b}",
		"{pattern: d}", "gone: {}", "made: {}", "token=s3cret", "token=other-s3cret", "ticketTTL: 1h", "ticketTTL: 2m",
	).Replace(text)+"maxFetch: 5\nchannelTtl: 2h\n", nil, nil)
	require.NoError(t, err)
	done, err := old.Reload(next)
	require.NoError(t, err)
	require.Equal(t, []string{"redis"}, done.Restart)
	require.Equal(t, old.Redis, done.Redis)
	require.Equal(t, next.Matchmaking.Queues, done.Matchmaking.Queues)
	require.Equal(t, old.TicketLife(), done.TicketLife())
	require.Equal(t, 5, done.Limits.DefaultMax)
	var lines []string
	for _, c := range done.Changes {
		require.NotContains(t, c.String(), "s3cret")
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		"channelTtl: 24h -> 2h", "channels[a].readers: ann -> ann, bob", lines[2], "channels[a].ttl: 1h -> 2h",
		"channels[b]: defined -> not set", "channels[d]: not set -> defined", "queues.gone: defined -> not set",
		"queues.longer.ticketTTL: 1h0m0s -> 2m0s", "queues.made: not set -> defined", "queues.secret: xxxxx -> another xxxxx",
		"maxFetch: 1000 -> 5",
	}, lines)
	require.Regexp(t, `^channels\[a\]\.schema: sha256:\w{8} -> sha256:\w{8}$`, lines[2])

	again, err := done.Reload(next)
	require.NoError(t, err)
	require.Empty(t, again.Changes)
	require.Equal(t, []string{"redis"}, again.Restart, "until the restart")
	swapped, err := load(t, "channels: [{pattern: b}, {pattern: a}]", nil, nil)
	require.NoError(t, err)
	before, err := load(t, "channels: [{pattern: a}, {pattern: b}]", nil, nil)
	require.NoError(t, err)
	done, err = before.Reload(swapped)
	require.NoError(t, err)
	require.Equal(t, []Change{{Option: "channels", From: "a, b", To: "b, a"}}, done.Changes)
}

// TestReloadTakesEachLiveOption: no reloadable option stays as it was.
func TestReloadTakesEachLiveOption(t *testing.T) {
	t.Parallel()
	old, err := load(t, `requireCredentials: "on"`, nil, nil)
	require.NoError(t, err)
	next, err := load(t, `
channelTtl: 2h
channelMaxMessages: 7
channelMaxMessageBytes: 1KiB
channelReplicas: 1
channelMaxSubscribers: 7
channels: [{pattern: a, readers: [ann]}]
userLimits: requests=1/s
addressLimits: requests=1/s
quotas: requests=1/s
queues: {a: {}}
maxQueues: 7
maxBatch: 7
maxFetch: 7
fetchBytes: 1KiB
logLevel: debug
requireCredentials: "on"
maxWait: 7s
`, nil, nil)
	require.NoError(t, err)
	for _, o := range serve.options(new(Config)) {
		if o.live {
			require.NotEqual(t, old.values[o.key()], next.values[o.key()], o.key())
		}
	}
	done, err := old.Reload(next)
	require.NoError(t, err)
	require.Equal(t, []string{"maxWait"}, done.Restart)
	require.Equal(t, old.Limits.MaxWait, done.Limits.MaxWait)
	done.values, done.Limits.MaxWait, done.ticketLife = next.values, next.Limits.MaxWait, 0
	done.sources = next.sources
	require.Equal(t, next, done.Config)
}

// TestReloadNode: only the log's level changes in a node. Options of services alone aren't listed.
func TestReloadNode(t *testing.T) {
	t.Parallel()
	const text = "shardCache: author\nshardDc: a\nredis: localhost:6379\n"
	old, err := loadFor(t, node, text, nil, nil)
	require.NoError(t, err)
	next, err := loadFor(t, node, text+"logLevel: debug\nshardPingPeriod: 200ms\nmaxFetch: 5\nmaxWait: 1s", nil, nil)
	require.NoError(t, err)
	done := old.ReloadNode(next)
	require.Equal(t, []Change{{Option: "logLevel", From: "info", To: "debug"}}, done.Changes)
	require.Equal(t, []string{"shardPingPeriod"}, done.Restart)
	require.Equal(t, next.Log, done.Log)
	require.Equal(t, old.Shards, done.Shards)
}

// TestReloadReadsNoFilesOfTheRunningConfiguration: an option that needs a restart may name another file, and the one in
// use may be gone.
func TestReloadReadsNoFilesOfTheRunningConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	for _, path := range []string{before, after} {
		require.NoError(t, os.WriteFile(path, []byte(testKey), 0o600))
	}
	old, err := load(t, "receiptKeysFile: "+before, nil, nil)
	require.NoError(t, err)
	next, err := load(t, "maxFetch: 5\nreceiptKeysFile: "+after, nil, nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(before))
	done, err := old.Reload(next)
	require.NoError(t, err)
	require.Equal(t, []string{"receiptKeysFile"}, done.Restart)
	require.Equal(t, []Change{{Option: "maxFetch", From: "1000", To: "5"}}, done.Changes)
}

// TestReloadWithOtherContents: other contents of a file that is read at the start only need a restart.
func TestReloadWithOtherContents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	schema, key := filepath.Join(dir, "schema.json"), filepath.Join(dir, "keys")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(schema, `{"type":"string"}`)
	write(key, testKey)
	text := "receiptKeysFile: " + key + "\nkinds: {notifications: {schema: " + schema + "}}"
	old, err := load(t, text, nil, nil)
	require.NoError(t, err)
	write(schema, `{"type":"number"}`)
	write(key, "MTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	next, err := load(t, text, nil, nil)
	require.NoError(t, err)
	done, err := old.Reload(next)
	require.NoError(t, err)
	require.Equal(t, []string{"kinds", "receiptKeysFile"}, done.Restart)
	require.Equal(t, old.Records.Notifications, done.Records.Notifications)
	require.Equal(t, old.Receipts, done.Receipts)
}

// TestReloadsThatAreRefused: what a running service can't change.
func TestReloadsThatAreRefused(t *testing.T) {
	t.Parallel()
	old, err := load(t, "maxBodyBytes: 1MiB", nil, nil)
	require.NoError(t, err)
	for text, want := range map[string]string{
		"queues: {a: {ticketTTL: 1h}}": "queues.a.ticketTTL: together with assignmentTTL it is 1h1m0s, and the " +
			"channels of tickets live for 11m0s since the start",
		"channels: [{pattern: a, deliver: copies}]": "channels: no rule had deliver: copies when the service started",
		"maxBodyBytes: 4MiB\nchannelMaxMessageBytes: 2MiB": "maxBodyBytes: is smaller than channelMaxMessageBytes: " +
			"such a message could never be received",
	} {
		next, err := load(t, text, nil, nil)
		require.NoError(t, err, text)
		_, err = old.Reload(next)
		require.ErrorContains(t, err, want)
	}
}

// TestWithin: reads that don't end are limited in time and in number, and don't keep later ones from being read.
func TestWithin(t *testing.T) {
	t.Parallel()
	release, want := make(chan struct{}), errors.New("loaded")
	ended := make(chan struct{}, maxReads)
	hang := func() (Config, error) {
		<-release
		ended <- struct{}{}
		return Config{}, nil
	}
	loaded := func() (Config, error) { return Config{}, want }
	for range maxReads {
		_, err := Within(t.Context(), time.Minute, loaded)
		require.ErrorIs(t, err, want)
		_, err = Within(t.Context(), time.Nanosecond, hang)
		require.ErrorIs(t, err, ErrSlow)
	}
	_, err := Within(t.Context(), time.Minute, loaded)
	require.ErrorIs(t, err, ErrSlow)
	close(release)
	for range maxReads {
		<-ended
	}
	require.Eventually(t, func() bool {
		_, err := Within(t.Context(), time.Minute, loaded)
		return errors.Is(err, want)
	}, time.Minute, time.Millisecond)
}

// TestLargeFile: a file has a limited size, and can't expand to many values.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	_, err := load(t, "logLevel: info\n#"+strings.Repeat("x", maxFile), nil, nil)
	require.ErrorContains(t, err, "has more than 1048576 bytes")
	bomb := "a: &a [x]\n"
	for name := 'b'; name < 'i'; name++ {
		bomb += string(name) + ": &" + string(name) + " [" + strings.Repeat("*"+string(name-1)+", ", 9) + "x]\n"
	}
	_, err = load(t, bomb, nil, nil)
	require.ErrorContains(t, err, "the file has more than 100000 values")
}
