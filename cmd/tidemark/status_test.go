package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// shownBy returns an answer of a server's admin listener.
func shownBy[T any](t *testing.T, s *serverProcess, path string) (v T) {
	t.Helper()
	status, body := s.request(t, http.MethodGet, s.admin+path, "")
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	return v
}

// TestServers: servers on one Redis list each other with what they do alone, until they stop.
func TestServers(t *testing.T) {
	t.Parallel()
	flags := []string{"--redis", redistest.Start(t, redistest.Options{}).URL()}
	process := startServer(t, flags...)
	self := shownBy[wire.Servers](t, process, "/v1/servers").Servers
	require.Len(t, self, 1)
	require.True(t, self[0].Self)
	require.Equal(t, []string{process.url, process.admin}, self[0].Listen)
	require.NotEmpty(t, self[0].Version)
	two := startServer(t, flags...)
	status, body := two.request(t, http.MethodPost, two.url+"/v1/tickets", "{}")
	require.Equal(t, http.StatusCreated, status, body)
	eventually(t, func() bool {
		all := shownBy[wire.Servers](t, process, "/v1/servers").Servers
		return len(all) == 2 && all[1].Listen[0] == two.url && !all[1].Self && all[1].SeenAt.After(all[1].StartedAt) &&
			slices.Contains(slices.Concat(all[0].Leases, all[1].Leases), "director:default")
	})
	two.killed = true
	require.NoError(t, two.End(syscall.SIGTERM))
	eventually(t, func() bool { return len(shownBy[wire.Servers](t, process, "/v1/servers").Servers) == 1 })
}

// TestStateOfRedis: a server examines its Redis, and reports what is wrong with it.
func TestStateOfRedis(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--redis", redistest.Start(t, redistest.Options{}).URL())
	eventually(t, func() bool {
		found := shownBy[wire.StorageStates](t, s, "/v1/storage").Redis
		return len(found) == 1 && len(found[0].Primaries) == 1 && found[0].Primaries[0].UsedMemoryBytes > 0
	})
	var codes []string
	for _, p := range shownBy[wire.Problems](t, s, "/v1/problems").Problems {
		codes = append(codes, p.Code)
		require.Contains(t, p.Docs, "/docs/durability.md")
	}
	require.ElementsMatch(t, []string{"RedisPersistence", "RedisReplicas"}, codes)
}

// TestPages: the pages about checks of Redis exist, with their anchors.
func TestPages(t *testing.T) {
	t.Parallel()
	for check, page := range pages {
		name, anchor, _ := strings.Cut(page, "#")
		text, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err, check)
		heading := strings.ReplaceAll(anchor, "-", " ")
		require.Contains(t, strings.ToLower(string(text)), "# "+heading, check)
	}
}

// TestShardsMissing: shards without nodes are one problem, as urgent as the page of shards says.
func TestShardsMissing(t *testing.T) {
	t.Parallel()
	at := redistest.Start(t, redistest.Options{}).URL()
	var out, diagnostics strings.Builder
	require.Zero(t, run(t.Context(), cli.Terminal{Stdout: &out, Stderr: &diagnostics}, []string{"shards", "layout", "--redis", at,
		"--cache", "topic", "--dc", "east", "--shards", "64"}), "%s%s", &out, &diagnostics)
	s := startServer(t, "--redis", at, "--cache-shards", "topic")
	var found []client.FoundProblem
	eventually(t, func() bool {
		found = slices.DeleteFunc(shownBy[wire.Problems](t, s, "/v1/problems").Problems,
			func(p client.FoundProblem) bool { return p.Code != "TidemarkShardsMissing" })
		return len(found) > 0
	})
	require.Len(t, found, 1)
	require.Equal(t, "topic", found[0].About)
	require.Equal(t, "shards of topic without a node: 64 of 64 (in east: 0-63)", found[0].Text)
	cache := shownBy[wire.ShardedCaches](t, s, "/v1/shards").Caches[0]
	require.Len(t, cache.Missing, 64)
	require.Equal(t, found[0].Severity, cache.Severity)

	// a look at the shards finds at once what has changed
	require.Zero(t, run(t.Context(), cli.Terminal{Stdout: &out, Stderr: &diagnostics}, []string{"shards", "remove", "--redis", at,
		"--cache", "topic", "--dc", "east"}), "%s%s", &out, &diagnostics)
	shownBy[wire.ShardedCaches](t, s, "/v1/shards")
	found = shownBy[wire.Problems](t, s, "/v1/problems").Problems
	require.True(t, slices.ContainsFunc(found, func(p client.FoundProblem) bool {
		return p.Text == "topic has no layout in any data centre: tidemark shards layout"
	}), "%v", found)
}
