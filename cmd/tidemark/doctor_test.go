package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// answer starts a server that calls reply for each command of Redis on its connections, until the test ends. If raw, it
// is called for each line instead. answer returns the server's address.
func answer(t *testing.T, raw bool, reply func(words []string) string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serve := func(conn net.Conn) {
		defer conn.Close() //nolint:errcheck // a test's connection
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			words := []string{lines.Text()}
			if n, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*")); err == nil && !raw {
				for words = nil; len(words) < n && lines.Scan() && lines.Scan(); {
					words = append(words, lines.Text())
				}
			}
			if _, err := io.WriteString(conn, reply(words)); err != nil {
				return
			}
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-ended
	})
	return l.Addr().String()
}

// Servers that aren't Redis, or that answer with control characters or the password.
func TestDoctorWithHostileServers(t *testing.T) {
	t.Parallel()
	always := func(text string) func([]string) string { return func([]string) string { return text } }
	afterPing := func(reply func(words []string) string) func([]string) string {
		return func(words []string) string {
			if words[0] == "PING" {
				return "+PONG\r\n"
			}
			return reply(words)
		}
	}
	for name, c := range map[string]struct {
		raw   bool
		reply func([]string) string
		says  string
	}{
		"control characters": {false, afterPing(always("-ERR \x1b]0;title\a\x1b[2J \u202e\xff\r\n")), `\x1b]0;title\a\x1b[2J`},
		"such as a PONG":     {true, always("-ERR \x1b[2J\r\n"), "a protocol that isn't Redis's"},
		"the password": {false, afterPing(func(words []string) string {
			return "-ERR unknown command, with args beginning with: " + strings.Join(words, " ") + "\r\n"
		}), "unknown command"},
		"HTTP":        {true, always("HTTP/1.1 400 Bad Request\r\n\r\n"), "speaks HTTP, so it is no Redis"},
		"no protocol": {true, always("hello\r\n"), "a protocol that isn't Redis's"},
		"a long line": {false, afterPing(always("-ERR " + strings.Repeat("long ", 100_000) + "\r\n")), "long long"},
		"nothing":     {true, always(""), "connect to redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := answer(t, c.raw, c.reply)
			var out, errs bytes.Buffer
			status := runHere(t.Context(), &out, &errs, []string{"TIDEMARK_REDIS_PASSWORD=s3cret-word"}, "doctor",
				"--redis", address, "--listen", "127.0.0.1:0", "--grpc-listen", "off", "--admin-listen", "off", "--json")
			require.Equal(t, exitFailure, status, "%s%s", out.String(), errs.String())
			require.NotContains(t, out.String()+errs.String(), "s3cret-word")
			require.Less(t, out.Len(), 8<<10)
			var found diagnosis
			require.NoError(t, json.Unmarshal(out.Bytes(), &found))
			require.Equal(t, failure, found.Outcome)
			require.Contains(t, found.Checks[0].Found+found.Checks[0].Remedy, c.says)
			for _, f := range found.Checks {
				require.False(t, strings.ContainsFunc(f.Found+f.Remedy, func(r rune) bool { return !unicode.IsPrint(r) }), f)
			}
		})
	}
}

// A service that asks for certificates of clients is found, and another program with another certificate isn't taken for
// it.
func TestDoctorWithClientCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issue(t, dir, "server", "other")
	withTLS := func(name string) []string {
		return []string{"--tls-cert", filepath.Join(dir, name+".pem"), "--tls-key", filepath.Join(dir, name+"-key.pem"),
			"--tls-client-ca", filepath.Join(dir, "ca.pem")}
	}
	redis := redistest.Start(t, redistest.Options{}).URL()
	s := startServer(t, append(withTLS("server"), "--redis", redis)...)
	address := strings.TrimPrefix(s.url, "https://")
	for name, want := range map[string]struct {
		outcome outcome
		found   string
	}{
		"server": {fine, address + " is in use, and a Tidemark service runs"},
		"other":  {failure, address + " is in use by another program: no Tidemark service was found"},
	} {
		var out, errs bytes.Buffer
		runHere(t.Context(), &out, &errs, nil, append([]string{"doctor", "--redis", redis, "--listen", address,
			"--grpc-listen", "off", "--admin-listen", "off", "--json"}, withTLS(name)...)...)
		var found diagnosis
		require.NoError(t, json.Unmarshal(out.Bytes(), &found), errs.String())
		i := slices.IndexFunc(found.Checks, func(f finding) bool { return f.Check == optionListen })
		require.GreaterOrEqual(t, i, 0, found)
		require.Equal(t, want.outcome, found.Checks[i].Outcome, found)
		require.Equal(t, want.found, found.Checks[i].Found)
	}
}

// A part of a Cluster's slots has no primary.
func TestDoctorWithAClusterInPart(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1})
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no").Error())
		require.NoError(t, n.Do(t, "CLUSTER", "DELSLOTS", "0", "1").Error())
	}
	// a process of its own: the client's goroutines end a second after it is closed
	out, err := exec.CommandContext(t.Context(), "tidemark", "doctor", "--redis", strings.Join(cluster.Addrs(), ","),
		"--listen", "127.0.0.1:0", "--grpc-listen", "off", "--admin-listen", "off").Output()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, exitFailure, failed.ExitCode())
	require.Regexp(t, "(?m)^failure +channels +slots +no primary has the slots 0-1$", string(out))
	require.Regexp(t, "(?m)^ +-> repair the Cluster", string(out))
}

// TestDocumentedSize: docs/sizing.md shows what its example prints.
func TestDocumentedSize(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sizing.md")
	require.NoError(t, err)
	example := regexp.MustCompile("```sh\ntidemark (size .*)\n```\n\n```\n((?s:.*?))```").FindSubmatch(page)
	require.NotNil(t, example)
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, runHere(t.Context(), &out, &errs, nil, strings.Fields(string(example[1]))...))
	require.Equal(t, string(example[2]), out.String())
}

// TestWarningsOfAStorage: the start of a service and /v1/info warn in whole sentences of what doctor finds.
func TestWarningsOfAStorage(t *testing.T) {
	t.Parallel()
	safe := storage.Description{Kind: "cluster", Durability: storage.Durability{Level: storage.DurableEverysec,
		Replicas: 2, MostReplicas: 2, EvictionPolicy: "noeviction"}}
	for _, c := range []struct {
		change func(s *storage.Description)
		want   []string // a part of each warning
	}{
		{func(*storage.Description) {}, nil},
		{func(s *storage.Description) { s.Durability.Level = storage.DurableAlways }, nil},
		{func(s *storage.Description) { s.Durability.EvictionPolicy = "volatile-ttl" },
			[]string{"maxmemory-policy is volatile-ttl"}},
		{func(s *storage.Description) { s.Durability.EvictionPolicy = "unknown" }, []string{"maxmemory-policy is unknown"}},
		{func(s *storage.Description) { s.Durability.Level = storage.DurableMemory }, []string{"loses everything"}},
		{func(s *storage.Description) { s.Durability.Level = storage.DurableSnapshot }, []string{"last snapshot"}},
		// which nobody can change; the level is shown
		{func(s *storage.Description) { s.Durability.Level = storage.DurableUnknown }, nil},
		{func(s *storage.Description) { s.Durability.Replicas = 0 }, []string{"no replica"}},
		{func(s *storage.Description) { s.Durability.Replicas, s.Kind = 0, "managed" }, nil},
		{func(s *storage.Description) {
			s.Durability = storage.Durability{Level: storage.DurableMemory, EvictionPolicy: "allkeys-random"}
		}, []string{"loses everything", "maxmemory-policy is allkeys-random", "no replica"}},
	} {
		s := safe
		c.change(&s)
		warnings := warningsOf(config.Config{}, ofChannels, s)
		require.Len(t, warnings, len(c.want), "%v", warnings)
		for i, part := range c.want {
			require.Contains(t, warnings[i], part)
		}
		require.Empty(t, warningsOf(config.Config{}, another{of: "cache"}, s), "a cache keeps nothing")
	}
	require.Equal(t, []string{
		"neither the append-only file nor snapshots are on: a restart of Redis loses everything; set appendonly yes and " +
			"appendfsync everysec in Redis",
		`maxmemory-policy is a\x1bb; set maxmemory-policy noeviction in Redis: any other deletes tickets, matches and ` +
			"assignments when its memory runs out",
		"there is no replica; add a replica: without one, tickets, matches and assignments are lost with the machine",
	}, warningsOf(config.Config{}, another{of: "tickets"}, storage.Description{Kind: "standalone",
		Durability: storage.Durability{Level: storage.DurableMemory, EvictionPolicy: "a\x1bb"}}))
}
