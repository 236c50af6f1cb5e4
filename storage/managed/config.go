package managed

import (
	"fmt"
	"strings"
)

// config returns the child's configuration, which the child reads from its
// standard input, so that there is no file that could be edited or become outdated.
//
// There are no snapshots (save ""): the append-only file has all data, begins
// with a snapshot after each rewrite, and loses less in any crash. Separate
// snapshots would cost a fork and a second copy on disk, and would not be read at
// start-up.
func (s *Server) config() string {
	lines := []string{
		"port 0",
		"unixsocket " + quote(s.socket.path),
		"unixsocketperm 600",
		"protected-mode yes",
		"enable-debug-command no",
		"enable-module-command no",
		"enable-protected-configs no",
		"daemonize no",
		"supervised no",
		`logfile ""`,
		"loglevel notice",
		"dir " + quote(s.dataDir),
		"appendonly yes",
		"appendfsync everysec",
		"no-appendfsync-on-rewrite no",
		"aof-load-truncated yes", // a crash may truncate the last write
		`save ""`,
		"maxmemory-policy noeviction", // any other policy could delete a channel's clock
		"crash-memcheck-enabled no",   // it would delay the restart after a crash
	}
	return strings.Join(lines, "\n") + "\n"
}

// quote returns a path, which may contain any byte, as one word of a redis.conf.
func quote(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
