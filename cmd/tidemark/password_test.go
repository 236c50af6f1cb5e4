package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestPasswordFileIsReadAgain: a service logs in with a password that its file has got since the start.
func TestPasswordFileIsReadAgain(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	admin := func(command ...string) { require.NoError(t, n.Do(t, command...).Error()) }
	admin("ACL", "SETUSER", "svc", "on", ">first", "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	s := startServer(t, "--redis", n.URL(), "--redis-username", "svc", "--redis-password-file", file)
	require.NoError(t, os.WriteFile(file, []byte("second\n"), 0o600))
	admin("ACL", "SETUSER", "svc", "resetpass", ">second")
	admin("CLIENT", "KILL", "USER", "svc")
	eventually(t, func() bool {
		status, _ := s.request(t, http.MethodPut, s.url+"/v1/channels/x/messages/m1", "1")
		return status == http.StatusCreated
	})
}

// TestPasswordFilesOfOtherRedis: the Redis of tickets, of sessions and of caches have files of their own, which are read
// again, too.
func TestPasswordFilesOfOtherRedis(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	admin := func(command ...string) { require.NoError(t, n.Do(t, command...).Error()) }
	dir, args := t.TempDir(), []string{"--redis", n.URL()}
	set := func(of, password string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, of), []byte(password+"\n"), 0o600))
		admin("ACL", "SETUSER", of, "on", "resetpass", ">"+password, "~*", "&*", "+@all")
	}
	all := []string{"tickets", "sessions", "cache"}
	for _, of := range all {
		set(of, "first")
		args = append(args, "--"+of+"-redis", "redis://"+of+":wrong@"+n.Addr(),
			"--"+of+"-redis-password-file", filepath.Join(dir, of))
	}
	s := startServer(t, args...)
	calls := map[string]struct{ method, path, body string }{
		"tickets":  {http.MethodPost, "/v1/tickets", `{}`},
		"sessions": {http.MethodPost, "/v1/users/ann/sessions", `{"username":"Ann"}`},
		"cache":    {http.MethodPut, "/v1/cache/author-followers/1", `[1]`},
	}
	for _, of := range all {
		set(of, "second")
		admin("CLIENT", "KILL", "USER", of)
		eventually(t, func() bool {
			status, _ := s.request(t, calls[of].method, s.url+calls[of].path, calls[of].body)
			return status/100 == 2
		})
	}
}
