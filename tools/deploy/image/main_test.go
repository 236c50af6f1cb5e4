package main

import (
	"bytes"
	"encoding/pem"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// scripts/check-image.sh runs the tests as root, in a network of their own, in which all ports are free.
var (
	imageFile = flag.String("image", "", "the image to test")
	isManaged = flag.Bool("managed", false, "it has a Redis")
)

// container is an image's files and configuration.
type container struct {
	root   string
	config v1.Config
}

// open unpacks the image.
func open(t *testing.T) container {
	t.Helper()
	image, err := tarball.ImageFromPath(*imageFile, nil)
	require.NoError(t, err)
	file, err := image.ConfigFile()
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	for dir := filepath.Dir(root); dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	files := mutate.Extract(image)
	unpack := exec.Command("tar", "--extract", "--numeric-owner", "--same-owner", "--preserve-permissions", "--directory", root)
	unpack.Stdin = files
	out, err := unpack.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, files.Close())
	null := filepath.Join(root, "dev/null") // every container has it
	require.NoError(t, os.MkdirAll(filepath.Dir(null), 0o755))
	require.NoError(t, syscall.Mknod(null, syscall.S_IFCHR|0o666, 1<<8|3))
	require.NoError(t, os.Chmod(null, 0o666))
	return container{root, file.Config}
}

// command returns a command that runs in the container as its user, with its variables and more.
func (c container) command(t *testing.T, args []string, variables ...string) *exec.Cmd {
	t.Helper()
	uid, gid, _ := strings.Cut(c.config.User, ":")
	user, err := strconv.ParseUint(uid, 10, 32)
	require.NoError(t, err, "the user is not a number, so that Kubernetes can't see that it isn't root")
	group, err := strconv.ParseUint(gid, 10, 32)
	require.NoError(t, err)
	require.NotZero(t, user)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, c.config.Env...), variables...)
	cmd.Dir = c.config.WorkingDir
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: c.root, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}, Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

func (c container) program() []string {
	return append(append([]string{}, c.config.Entrypoint...), c.config.Cmd...)
}

// health returns the command of the health check, which here waits until the service is ready.
func (c container) health() []string {
	return append(append([]string{}, c.config.Healthcheck.Test[1:]...), "--retry-for", "60s")
}

// TestRefusesToStartOpen: without any configuration nobody gets a service that is open to the network.
func TestRefusesToStartOpen(t *testing.T) {
	c := open(t)
	out, err := c.command(t, c.program()).CombinedOutput()
	require.ErrorContains(t, err, "exit status 2", "%s", out)
	require.Contains(t, string(out), "no credentials are required")
	require.Contains(t, string(out), "TIDEMARK_API_KEYS")
}

// TestDataOfRoot: a directory of the host that is mounted is mostly root's. The service says who must have it.
func TestDataOfRoot(t *testing.T) {
	if !*isManaged {
		return // it has no data
	}
	c := open(t)
	data := filepath.Join(c.root, "var/lib/tidemark")
	require.NoError(t, os.Chown(data, 0, 0))
	require.NoError(t, os.Chmod(data, 0o755))
	out, err := c.command(t, c.program(), "TIDEMARK_INSECURE=on").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is of user 0, with mode drwxr-xr-x, and the service runs as user 65532")
	require.Contains(t, string(out), `"chown -R 65532:65532 /var/lib/tidemark"`)
}

// TestServes: the service serves on its port, and the health check sees it. It ends when it is told to.
func TestServes(t *testing.T) {
	c := open(t)
	users, err := os.ReadFile(filepath.Join(c.root, "etc/passwd"))
	require.NoError(t, err)
	require.Contains(t, string(users), "\ntidemark:x:"+strings.Split(c.config.User, ":")[0]+":")
	variables := []string{"TIDEMARK_INSECURE=on"}
	if !*isManaged {
		redis := exec.CommandContext(t.Context(), "redis-server", "--save", "", "--dir", t.TempDir())
		require.NoError(t, redis.Start())
		variables = append(variables, "TIDEMARK_REDIS=redis://127.0.0.1:6379")
	}
	var logged bytes.Buffer
	service := c.command(t, c.program(), variables...)
	service.Stderr = &logged
	t.Cleanup(func() { t.Logf("the service printed:\n%s", logged.String()) })
	require.NoError(t, service.Start())
	require.Equal(t, "CMD", c.config.Healthcheck.Test[0])
	out, err := c.command(t, c.health(), variables...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	answer, err := http.Get("http://127.0.0.1:8080/v1/info") //nolint:noctx // of this machine
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NotContains(t, logged.String(), "other users may read", "the image's own directory")
	require.NoError(t, service.Process.Signal(syscall.SIGTERM))
	require.NoError(t, service.Wait())
	out, err = c.command(t, c.config.Healthcheck.Test[1:], variables...).CombinedOutput()
	require.ErrorContains(t, err, "exit status 1", "%s", out)
}

// TestTrustsAuthorities: the image has the certificates of public authorities where the program reads them.
func TestTrustsAuthorities(t *testing.T) {
	c := open(t)
	bundle := filepath.Join(c.root, "etc/ssl/certs/ca-certificates.crt")
	text, err := os.ReadFile(bundle)
	require.NoError(t, err)
	require.Greater(t, bytes.Count(text, []byte("BEGIN CERTIFICATE")), 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	defer server.Close()
	ask := append(append([]string{}, c.config.Entrypoint...), "health", "--server", server.URL)
	out, err := c.command(t, ask).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "unknown authority")
	added := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(bundle, append(text, added...), 0o644))
	out, err = c.command(t, ask).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
