package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/keyset"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// worked matches a worked table of docs/records.md, docs/records or testdata/worked: its title, the flags of the service,
// and its rows below the head.
var worked = regexp.MustCompile(
	`(?m)^<!-- worked: ([^,]*?)(?:, (--.*?))? -->\n\| request \| answer \| in Redis afterwards \|\n\|---\|---\|---\|\n((?:\|.*\n)+)`)

// TestWorkedTables runs each worked table of the pages, on a service and a Redis of its own, row by row.
//
// A request is an HTTP request, "admin" and one to the admin listener, a command of the program, or a Redis command. An
// answer is a status and a body, or what is printed, with single spaces. The third column has Redis commands and their
// replies: `command` → `reply`, separated by <br>. <name> in an answer or a reply captures what is there, and is what
// was captured afterwards, also in requests; … is anything; "≤ 60" is a number of up to 60 that was 60 at most a minute
// ago. Bars are written \|. <dir> is a folder that has a keyset, keyset.json, and the files of examples/shop; the
// service runs in it.
func TestWorkedTables(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/records/*.md")
	require.NoError(t, err)
	var text strings.Builder
	for _, path := range append(pages, "../../docs/records.md", "testdata/worked/plain_keys.md") {
		page, err := os.ReadFile(path)
		require.NoError(t, err)
		text.Write(page)
	}
	tables := worked.FindAllStringSubmatch(text.String(), -1)
	require.Equal(t, strings.Count(text.String(), "in Redis afterwards |"), len(tables),
		"each worked table has a comment with its title above its head")
	require.NotEmpty(t, tables)
	for _, table := range tables {
		t.Run(table[1], func(t *testing.T) {
			t.Parallel()
			node := redistest.Start(t, redistest.Options{})
			w := &workedTable{node: node, captured: map[string]string{"dir": t.TempDir()}}
			require.NoError(t, keyset.Create(filepath.Join(w.captured["dir"], "keyset.json")))
			require.NoError(t, os.CopyFS(w.captured["dir"], os.DirFS("../../examples/shop")))
			w.server = startServerIn(t, w.captured["dir"],
				append([]string{"--redis", node.URL()}, strings.Fields(w.fill(table[2]))...)...)
			for row := range strings.Lines(table[3]) {
				w.run(t, row)
			}
		})
	}
}

type workedTable struct {
	server   *serverProcess
	node     *redistest.Node
	captured map[string]string
}

var (
	request = regexp.MustCompile(`^(admin )?(GET|POST|PUT|PATCH|DELETE) (/\S*)(?: (.*))?$`)
	looked  = regexp.MustCompile("^`([^`]+)` → `([^`]*)`$")
)

// run runs a row.
func (w *workedTable) run(t *testing.T, row string) {
	t.Helper()
	const escaped = "\x00"
	columns := strings.Split(strings.ReplaceAll(strings.TrimSpace(row), `\|`, escaped), "|")
	require.Len(t, columns, 5, "a row has three columns: %s", row)
	for i := range columns {
		columns[i] = strings.ReplaceAll(strings.TrimSpace(columns[i]), escaped, "|")
	}
	if ask := strings.Trim(columns[1], "`"); ask != "" {
		w.match(t, row, strings.Trim(columns[2], "`"), w.ask(t, w.fill(ask)))
	}
	if columns[3] == "" {
		return
	}
	for check := range strings.SplitSeq(columns[3], "<br>") {
		parts := looked.FindStringSubmatch(strings.TrimSpace(check))
		require.NotNil(t, parts, "not `command` → `reply`: %s", check)
		w.check(t, row, w.fill(parts[1]), parts[2])
	}
}

// check runs a command until its reply is as expected, since some values are written a second later.
func (w *workedTable) check(t *testing.T, row, command, expected string) {
	t.Helper()
	if !strings.HasPrefix(expected, "≤ ") {
		pattern, _ := w.pattern(expected)
		require.Eventually(t, func() bool { return pattern.MatchString(w.redis(t, command)) }, 20*time.Second,
			20*time.Millisecond,
			"%s\nwants: %s", row, w.fill(expected))
	}
	w.match(t, row, expected, w.redis(t, command))
}

// ask sends a request, and returns its answer.
func (w *workedTable) ask(t *testing.T, text string) string {
	t.Helper()
	if args, ok := strings.CutPrefix(text, "tidemark "); ok {
		return w.command(t, strings.Fields(args))
	}
	parts := request.FindStringSubmatch(text)
	if parts == nil {
		return w.redis(t, text)
	}
	base := w.server.url
	if parts[1] != "" {
		base = w.server.admin
	}
	status, body := w.server.request(t, parts[2], base+parts[3], parts[4])
	return strings.TrimSpace(strconv.Itoa(status) + " " + strings.TrimSpace(body))
}

// command runs the program, and returns its output, on one line.
func (w *workedTable) command(t *testing.T, args []string) string {
	t.Helper()
	var out, problems strings.Builder
	environ := []string{"TIDEMARK_SERVER=" + w.server.url, "TIDEMARK_ADMIN=" + w.server.admin,
		"TIDEMARK_REDIS=" + w.node.URL()}
	require.Zero(t, runHere(t.Context(), &out, &problems, environ, args...), "%s: %s", args, &problems)
	return strings.Join(strings.Fields(out.String()), " ")
}

// redis runs a command, and returns its reply as text: lists with spaces between their items, maps and sets in order.
func (w *workedTable) redis(t *testing.T, command string) string {
	t.Helper()
	reply, err := w.node.Do(t, strings.Fields(command)...).ToAny()
	var none interface{ IsNil() bool }
	if errors.As(err, &none) && none.IsNil() {
		return "(nil)"
	}
	require.NoError(t, err, command)
	return plainReply(reply, strings.HasPrefix(command, "SMEMBERS ") || strings.HasPrefix(command, "KEYS "))
}

func plainReply(reply any, unordered bool) string {
	var items []string
	switch reply := reply.(type) {
	case nil:
		return "(nil)"
	case []any:
		for _, item := range reply {
			items = append(items, plainReply(item, false))
		}
	case map[string]any:
		for field, value := range reply {
			items = append(items, field+" "+plainReply(value, false))
		}
		unordered = true
	default:
		return fmt.Sprint(reply)
	}
	if unordered {
		slices.Sort(items)
	}
	return strings.Join(items, " ")
}

var name = regexp.MustCompile(`<([a-zA-Z]\w*)>`)

// fill inserts the captured values.
func (w *workedTable) fill(text string) string {
	return name.ReplaceAllStringFunc(text, func(match string) string {
		if value, ok := w.captured[strings.Trim(match, "<>")]; ok {
			return value
		}
		return match
	})
}

// match compares text with the expected text, and captures values.
func (w *workedTable) match(t *testing.T, row, expected, got string) {
	t.Helper()
	if limit, ok := strings.CutPrefix(expected, "≤ "); ok {
		n, err := strconv.Atoi(got)
		require.NoError(t, err, "%s: %s", row, got)
		limit, err := strconv.Atoi(limit)
		require.NoError(t, err, row)
		require.LessOrEqual(t, n, limit, row)
		require.Greater(t, n, limit-60, row)
		return
	}
	pattern, names := w.pattern(expected)
	found := pattern.FindStringSubmatch(got)
	require.NotNil(t, found, "%s\nwants: %s\ngot:   %s", row, w.fill(expected), got)
	for i, name := range names {
		w.captured[name] = found[i+1]
	}
}

// pattern returns an expression for the expected text, and the names of its captures.
func (w *workedTable) pattern(expected string) (_ *regexp.Regexp, names []string) {
	pattern, rest := "", w.fill(expected)
	for rest != "" {
		at := name.FindStringSubmatchIndex(rest)
		if at == nil {
			at = []int{len(rest), len(rest), 0, 0}
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(rest[:at[0]]), "…", ".*")
		if at[0] < len(rest) {
			pattern, names = pattern+"(.+?)", append(names, rest[at[2]:at[3]])
		}
		rest = rest[at[1]:]
	}
	return regexp.MustCompile(`(?s)^` + pattern + `$`), names
}
