package redistest

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
)

// Options describes a private server. The zero value is a plain redis-server.
type Options struct {
	// Args are more redis-server arguments, such as "--maxmemory", "8mb", and override all others. Without them nothing
	// is written to disk, and a restarted server is empty.
	Args []string
	// Password is required from every client.
	Password string
	// Username, with Password, is an ACL user with all rights. The default user is then disabled.
	Username string
	// TLS makes the server accept TLS only, with a certificate of a new CA.
	TLS bool
	// Binary is the server's program. Empty means redis-server from PATH, or valkey-server if there is no redis-server.
	Binary string
	// Primaries is the number of primaries of a cluster. 0 means 3.
	Primaries int
	// Replicas is the number of replicas of each primary of a cluster. 0 means 1, negative means none.
	Replicas int
}

// errNoRedis is the error if no server program is on PATH.
var errNoRedis = errors.New("no redis-server on PATH: run scripts/install-redis.sh, " +
	"or install Redis 7.0 or newer (Debian: redis-server, Homebrew: redis)")

// program returns the path of the server program.
func (o Options) program() (string, error) {
	if o.Binary != "" {
		path, err := exec.LookPath(o.Binary)
		if err != nil {
			return "", fmt.Errorf("find the server program: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoRedis
}

// arguments returns the server's command line, without Args, for a port and directory. certs is nil without TLS.
func (o Options) arguments(port int, dir string, certs *certificates) []string {
	args := []string{
		"--bind", loopback, "--protected-mode", "no", "--daemonize", "no", "--dir", dir, "--logfile", "",
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes",
	}
	if certs == nil {
		args = append(args, "--port", strconv.Itoa(port))
	} else {
		args = append(args, "--port", "0", "--tls-port", strconv.Itoa(port))
		args = append(args, certs.arguments()...)
	}
	return append(args, o.authArguments()...)
}

func (o Options) authArguments() []string {
	switch {
	case o.Password == "":
		return nil
	case o.Username == "":
		return []string{"--requirepass", o.Password, "--masterauth", o.Password}
	default:
		return []string{
			"--user", "default", "off",
			"--user", o.Username, "on", ">" + o.Password, "~*", "&*", "+@all",
			"--masteruser", o.Username, "--masterauth", o.Password,
		}
	}
}
