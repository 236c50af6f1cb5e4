package managed

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

const tailLines = 10

// childLog logs the output of a child. It is for one goroutine.
type childLog struct {
	log     *slog.Logger
	tail    []string // the last lines
	warning string   // the last one: if the child exits by itself, mostly why
}

// forward reads until the last process that may write has ended, whatever the lines contain: a child blocks if its log
// isn't read.
func (c *childLog) forward(ctx context.Context, from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, _, err := lines.ReadLine() // a very long line is read in parts
		if err != nil {
			return
		}
		level, text := parseLine(string(line))
		if text == "" {
			continue
		}
		c.log.Log(ctx, level, "redis log", "line", text)
		if level == slog.LevelWarn {
			c.warning = text
		}
		c.tail = append(c.tail, text)
		if len(c.tail) > tailLines {
			c.tail = c.tail[1:]
		}
	}
}

// A line is like "7103:M 21 Nov 2026 00:40:15.975 # text": process and its role,
// time, level.
var linePattern = regexp.MustCompile(`^\d+:[A-Z] \d+ \w+ \d{4} [\d:.]+ ([.\-*#]) (.*)$`)

// harmless lists the beginnings of lines that Redis 7.0 logs as warnings at every start and stop, although nothing is
// wrong. The advice on overcommit is in docs/deployment.md; a fork that fails is logged as a warning.
var harmless = []string{
	"WARNING Memory overcommit must be enabled!",
	"Reading config from stdin",
	"oO0OoO0OoO0Oo",
	"Redis version=",
	"Valkey version=",
	"Configuration loaded",
	"Server initialized",
	"User requested shutdown",
	"Redis is now ready to exit",
	"Valkey is now ready to exit",
}

// parseLine returns the level of a line for our log, and its text without the parts that our log adds itself.
func parseLine(line string) (slog.Level, string) {
	line = strings.TrimSpace(line)
	found := linePattern.FindStringSubmatch(line)
	if found == nil {
		return slog.LevelDebug, line
	}
	mark, text := found[1], found[2]
	if mark != "#" {
		return slog.LevelDebug, text
	}
	for _, step := range harmless {
		if strings.HasPrefix(text, step) {
			return slog.LevelDebug, text
		}
	}
	return slog.LevelWarn, text
}
