package managed

import (
	"fmt"
	"strings"
)

// config returns the child's configuration, which it reads from its standard
// input: nothing of it is left on disk to be edited or to go stale.
//
// There are no snapshots (save ""): the append-only file alone holds all data,
// starts with a snapshot each time that it is rewritten, and has lost less
// after any crash. A snapshot besides would cost a fork and a second copy on
// disk, and would not be read at start-up.
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
		"aof-load-truncated yes", // a crash may cut the last write off
		`save ""`,
		"maxmemory-policy noeviction", // any other could delete a channel's clock
		"crash-memcheck-enabled no",   // it would delay the restart after a crash
	}
	return strings.Join(lines, "\n") + "\n"
}

// quote writes a path, which may hold any byte, as one word of a redis.conf.
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
