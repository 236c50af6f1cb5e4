package redistest

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
)

// Options says how a private server is to be made. The zero value is a plain redis-server.
type Options struct {
	// Args are more redis-server arguments, such as "--maxmemory", "8mb". They come last and so win.
	// Without any, nothing is written to disk, and a server that is restarted is empty.
	Args []string
	// Password is asked from every client.
	Password string
	// Username, together with Password, makes an ACL user who may do everything. The default user is off then.
	Username string
	// TLS makes the server take TLS only, with a certificate of a CA that is made for it.
	TLS bool
	// Binary is the server's program. Empty means redis-server from PATH, or valkey-server where only that
	// is there.
	Binary string
	// Primaries is the number of primaries of a cluster. 0 means 3.
	Primaries int
	// Replicas is the number of replicas that each primary of a cluster has. 0 means 1, negative means none.
	Replicas int
}

// errNoRedis says what to install where neither program was found.
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

// arguments returns the server's command line for a port and directory. certs is nil without TLS.
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
	return append(append(args, o.authArguments()...), o.Args...)
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
