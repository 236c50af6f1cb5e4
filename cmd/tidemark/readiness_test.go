package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestReadinessNeedsWrites makes the Redis of the channels, and then each other Redis, refuse writes. Readiness reports
// the refusal, and reads are served.
func TestReadinessNeedsWrites(t *testing.T) {
	t.Parallel()
	var nodes [4]*redistest.Node
	for i := range nodes {
		nodes[i] = redistest.Start(t, redistest.Options{})
	}
	channels, tickets, sessions, cache := nodes[0], nodes[1], nodes[2], nodes[3]
	s := startServer(t, "--redis", channels.URL(), "--tickets-redis", tickets.URL(), "--sessions-redis", sessions.URL(),
		"--cache-redis", cache.URL(), "--redis-timeout", "1s")
	status, body := s.request(t, http.MethodPut, s.url+"/v1/channels/x/subscribers/s", "")
	require.Equal(t, http.StatusCreated, status, body)
	status, body = s.request(t, http.MethodPut, s.url+"/v1/channels/x/messages/m1", "1")
	require.Equal(t, http.StatusCreated, status, body)
	for _, c := range []struct {
		node                    *redistest.Node
		refusal, refuse, accept string
	}{
		{channels, "NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
		{channels, "OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		{tickets, "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		{sessions, "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		{cache, "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
	} {
		require.NoError(t, c.node.Do(t, strings.Fields(c.refuse)...).Error())
		status, body := s.request(t, http.MethodGet, s.url+"/readyz", "")
		require.Equal(t, http.StatusServiceUnavailable, status, body)
		require.Contains(t, body, c.refusal)
		status, body = s.request(t, http.MethodGet, s.url+"/livez", "")
		require.Equal(t, http.StatusOK, status, body)
		status, body = s.request(t, http.MethodGet, s.url+"/v1/channels/x/subscribers/s/messages", "")
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, "m1")
		require.NoError(t, c.node.Do(t, strings.Fields(c.accept)...).Error())
		eventually(t, func() bool { return s.ready(t) })
	}
}

// TestReadinessNeedsScripts takes the right to run scripts away, and then stops each other Redis. Readiness names the
// Redis that fails.
func TestReadinessNeedsScripts(t *testing.T) {
	t.Parallel()
	var nodes [4]*redistest.Node
	for i := range nodes {
		nodes[i] = redistest.Start(t, redistest.Options{})
	}
	names := []string{"channels", "tickets", "sessions", "cache"}
	s := startServer(t, "--redis", nodes[0].URL(), "--tickets-redis", nodes[1].URL(), "--sessions-redis",
		nodes[2].URL(), "--cache-redis", nodes[3].URL(), "--redis-timeout", "1s")
	outOfReach := func() []string {
		status, body := s.request(t, http.MethodGet, s.url+"/readyz", "")
		require.Equal(t, http.StatusServiceUnavailable, status, body)
		var problem client.Problem
		require.NoError(t, json.Unmarshal([]byte(body), &problem), body)
		return problem.OutOfReach
	}
	for i, node := range nodes {
		require.NoError(t, node.Do(t, "ACL", "SETUSER", "default", "-evalsha").Error())
		require.Equal(t, names[i:i+1], outOfReach())
		require.NoError(t, node.Do(t, "ACL", "SETUSER", "default", "+evalsha").Error())
		eventually(t, func() bool { return s.ready(t) })
	}
	nodes[1].Pause(t)
	nodes[3].Pause(t)
	require.Equal(t, []string{"tickets", "cache"}, outOfReach())
}
