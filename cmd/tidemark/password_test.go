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
