package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// TestHealthOfFirstProcess: the health check of an image finds a service that was started with arguments.
func TestHealthOfFirstProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:7001\nmaxWait: never\n"), 0o600))
	const image = "http://127.0.0.1:8080" // by the variable of the image
	for arguments, want := range map[string]string{
		"/usr/bin/tidemark serve":                                              image,
		"/usr/bin/tidemark serve --listen 0.0.0.0:9000":                        "http://127.0.0.1:9000",
		"/sbin/docker-init -- /usr/bin/tidemark serve --insecure --listen=:91": "http://127.0.0.1:91",
		"tidemark serve --admin-listen unix:/tmp/admin.sock":                   "unix:/tmp/admin.sock",
		"tidemark serve --port-offset 5":                                       "http://127.0.0.1:8085",
		"tidemark serve --config " + file:                                      image, // a variable is stronger than the file
		"tidemark shard serve --listen 0.0.0.0:9000":                           image,
		"/sbin/init splash":                                                    image,
		"tidemark":                                                             image,
	} {
		first := filepath.Join(t.TempDir(), "cmdline")
		require.NoError(t, os.WriteFile(first, []byte(strings.ReplaceAll(arguments, " ", "\x00")+"\x00"), 0o600))
		h := healthCommand{first: first, terminal: cli.Terminal{Environ: []string{"TIDEMARK_LISTEN=0.0.0.0:8080"}}}
		service, err := h.ownService()
		require.NoError(t, err, arguments)
		require.Equal(t, want, service.url, arguments)
	}
	first := filepath.Join(t.TempDir(), "cmdline")
	require.NoError(t, os.WriteFile(first, []byte("tidemark\x00serve\x00--config\x00"+file+"\x00"), 0o600))
	service, err := (&healthCommand{first: first}).ownService()
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:7001", service.url)

	require.NoError(t, os.WriteFile(first, []byte("tidemark\x00serve\x00--listen\x00:9000\x00--no-option\x00"), 0o600))
	service, err = (&healthCommand{first: first, config: file}).ownService()
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:7001", service.url, "--config names another service")
}
