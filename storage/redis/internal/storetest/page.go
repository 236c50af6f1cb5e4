package storetest

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
)

// Section returns the text under a heading of docs/redis/<page>.md, up to the next heading of the same or a higher level.
func Section(t testing.TB, page, heading string) string {
	t.Helper()
	path := "docs/redis/" + page + ".md"
	text, err := fs.ReadFile(os.DirFS(root(t)), path)
	require.NoError(t, err)
	_, after, found := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	require.True(t, found, "%s has no %q", path, heading)
	level := strings.IndexByte(heading, ' ')
	next := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+level)) + `} `)
	if end := next.FindStringIndex(after); end != nil {
		after = after[:end[0]]
	}
	return after
}

// Table returns the rows of the first table in a text, as cells. Backquotes around a whole cell are taken off.
func Table(t testing.TB, text string) (header []string, rows [][]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !isRow {
			if header != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case header == nil:
			header = cells
		case strings.Trim(strings.Join(cells, ""), "-:") != "":
			require.Len(t, cells, len(header), "%q", line)
			rows = append(rows, cells)
		}
	}
	require.NotEmpty(t, rows)
	return header, rows
}

// Step is a step of an example of a page.
type Step struct {
	Title string
	At    string             // number in the heading
	Keys  map[string]StepKey // keys in Redis after it
}

// StepKey is a row of a step's table.
type StepKey struct{ Value, TTL string }

// Steps returns the steps of an example. heading matches their headings; its groups are the number and the title. A
// step's table has the keys that it changes, and "gone" in place of the value of those that it removes. A step that
// changes none has no table.
func Steps(t testing.TB, page, section string, heading *regexp.Regexp) []Step {
	t.Helper()
	var steps []Step
	keys := map[string]StepKey{}
	for _, m := range heading.FindAllStringSubmatch(Section(t, page, section), -1) {
		var rows [][]string
		if step := Section(t, page, m[0]); strings.Contains(step, "\n|") {
			var header []string
			header, rows = Table(t, step)
			require.Equal(t, []string{"Key", "Value", "TTL"}, header[:3])
		}
		for _, cells := range rows {
			key := strings.Trim(cells[0], "`")
			if cells[1] == "gone" {
				require.Contains(t, keys, key, "%s removes it", m[2])
				delete(keys, key)
				continue
			}
			value := strings.TrimSuffix(strings.TrimPrefix(cells[1], "`"), "`")
			keys[key] = StepKey{Value: value, TTL: cells[2]}
		}
		steps = append(steps, Step{At: m[1], Title: m[2], Keys: maps.Clone(keys)})
	}
	return steps
}

// KeyRow is a row of a key table.
type KeyRow struct {
	Key, Kind                  string
	ChangedBy, RenewedBy, Read []string
}

// KeyRows returns the rows of the key table under a heading of a page.
func KeyRows(t testing.TB, page, heading string) []KeyRow {
	t.Helper()
	header, rows := Table(t, Section(t, page, heading))
	require.Equal(t, []string{"Key", "Type", "Value", "Ends", "Changed by", "Renewed by", "Read by"}, header)
	list := func(cell string) []string {
		return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' })
	}
	var found []KeyRow
	for _, cells := range rows {
		require.NotEmpty(t, cells[2], "%s has a value", cells[0])
		require.NotEmpty(t, cells[3], "%s has an end", cells[0])
		found = append(found, KeyRow{
			Key: strings.Trim(cells[0], "`"), Kind: cells[1],
			ChangedBy: list(cells[4]), RenewedBy: list(cells[5]), Read: list(cells[6]),
		})
	}
	return found
}

// GoFiles parses the package without its tests.
func GoFiles(t testing.TB) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
		}
	}
	return files
}

// RequireStatuses expects a file of the package to name all statuses that the scripts return, and no others, besides
// those that all scripts have and those that another package decodes.
func RequireStatuses(t testing.TB, file string, scripts []luatest.File, elsewhere ...string) {
	t.Helper()
	known := map[string]bool{}
	for _, status := range elsewhere {
		known[status] = true
	}
	ast.Inspect(GoFiles(t)[file], func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && statusLiteral.MatchString(literal.Value) {
			known[strings.Trim(literal.Value, `"`)] = true
		}
		return true
	})
	returned := map[string]bool{}
	for _, f := range scripts {
		for _, status := range f.Statuses() {
			if s := redis.Status(status); s != redis.OK && s != redis.Again && s != redis.Moving {
				returned[status] = true
			}
		}
	}
	require.Equal(t, returned, known)
}

var statusLiteral = regexp.MustCompile(`^"[A-Z_]+"$`)

// RequireOneCaller expects each script to be run by the exported method of its name, and by no other. named has the
// methods that have another name, by script.
func RequireOneCaller(t testing.TB, scripts []luatest.File, named map[string]string) {
	t.Helper()
	want := map[string][]string{}
	for _, f := range scripts {
		want[f.Stem()+"Script"] = []string{cmp.Or(named[f.Stem()], strings.ToUpper(f.Stem()[:1])+f.Stem()[1:])}
	}
	require.Equal(t, want, Callers(t, slices.Collect(maps.Values(named))...))
}

// Callers returns the functions of the package that run each script, by the variable of the script: the exported ones,
// and those that are named.
func Callers(t testing.TB, named ...string) map[string][]string {
	t.Helper()
	callers := map[string][]string{}
	for _, file := range GoFiles(t) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() && !slices.Contains(named, f.Name.Name) {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				script := ok && strings.HasSuffix(id.Name, "Script") && id.Name != "Script" // the type lua.Script
				if script && !slices.Contains(callers[id.Name], f.Name.Name) {
					callers[id.Name] = append(callers[id.Name], f.Name.Name)
				}
				return true
			})
		}
	}
	return callers
}

// RequireDocumented expects each method of keys.go that returns a key to be in made, and the keys of made to be those
// of the page's table. parts are methods that return the beginning of a key.
func RequireDocumented(t testing.TB, made map[string]string, rows []KeyRow, parts ...string) {
	t.Helper()
	var functions, known, keys, documented []string
	for _, d := range GoFiles(t)["keys.go"].Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Type.Results != nil {
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "string" {
				functions = append(functions, f.Name.Name)
			}
		}
	}
	for name, key := range made {
		known, keys = append(known, name), append(keys, key)
	}
	require.ElementsMatch(t, append(known, parts...), functions, "functions of keys.go, and of this test")
	for _, row := range rows {
		documented = append(documented, row.Key)
	}
	require.ElementsMatch(t, keys, documented, "keys that are made, and keys on the page")
}

// RequireUses expects the page's table to say which script uses which key. keysOf says which rows each parameter of the
// scripts' headers is about; others are users that are no scripts.
func RequireUses(t testing.TB, rows []KeyRow, scripts []luatest.File, keysOf map[string][]string, others ...string) {
	t.Helper()
	byKey := map[string]KeyRow{}
	for _, row := range rows {
		byKey[row.Key] = row
	}
	known, used := slices.Clone(others), map[string][]string{}
	for _, f := range scripts {
		known = append(known, f.Stem())
		for _, p := range f.Parameters() {
			keys, isKey := keysOf[p.Name]
			require.True(t, isKey || p.Table == "ARGV", "%s has a key that the page doesn't have: %s", f.Name(), p.Name)
			for _, key := range keys {
				row := byKey[key]
				used[key] = append(used[key], f.Stem())
				require.Contains(t, slices.Concat(row.ChangedBy, row.RenewedBy, row.Read), f.Stem(), "%s uses %s",
					f.Name(), key)
				if p.Table == "KEYS" {
					require.Equal(t, p.Kind, row.Kind, "the type of %s", key)
				}
			}
		}
	}
	for key, row := range byKey {
		for _, user := range slices.Concat(row.ChangedBy, row.RenewedBy, row.Read) {
			require.Contains(t, known, user, key)
			if !slices.Contains(others, user) {
				require.Contains(t, used[key], user, "%s isn't given %s", user, key)
			}
		}
	}
}

var (
	update = flag.Bool("update", false, "write the tables of scripts into docs/redis")
	pages  sync.Mutex // held while a page is written: some have several tables
)

// RequireScripts compares the table of scripts of a page of docs/redis, below a comment with the scripts' folder, with
// the scripts' headers. -update writes the table.
func RequireScripts(t testing.TB, page string, scripts []luatest.File) {
	t.Helper()
	const end = "<!-- end of scripts -->\n"
	begin := "<!-- scripts of " + filepath.Dir(scripts[0].Path) + " -->\n"
	pages.Lock()
	defer pages.Unlock()
	module, err := os.OpenRoot(root(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, module.Close()) }()
	file := "docs/redis/" + page + ".md"
	text, err := module.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "%s has no %q", file, begin)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found, "%s has no %q", file, end)
	want := scriptTable(scripts)
	if *update && table != want {
		require.NoError(t, module.WriteFile(file, []byte(before+begin+want+end+after), 0o600))
		return
	}
	require.Equal(t, want, table, "-update writes it")
}

// scriptTable returns a table of what scripts do, whether they run when Redis is out of memory, and what is answered
// while their slot is half moved.
func scriptTable(scripts []luatest.File) string {
	var b strings.Builder
	b.WriteString("| script | what it does | out of memory | half-moved slot |\n|---|---|---|---|\n")
	for _, f := range scripts {
		memory, slot := "runs", "`ASK`"
		switch f.Flags {
		case "#!lua":
			memory = "refused"
		case "":
			memory = "reads"
		}
		keys := slices.DeleteFunc(f.Parameters(), func(p luatest.Parameter) bool { return p.Table != "KEYS" })
		switch {
		case slices.Contains(f.Statuses(), string(redis.Moving)):
			slot = "`MOVING`"
		case len(keys) > 1 || keys[0].List:
			slot = "`TRYAGAIN`"
		}
		fmt.Fprintf(&b, "| [%s](../../storage/redis/lua/%s) | %s | %s | %s |\n", f.Stem(), f.Path,
			strings.ReplaceAll(f.Summary(), "|", `\|`), memory, slot)
	}
	return b.String()
}

// root returns the folder of the module.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		require.NotEqual(t, filepath.Dir(dir), dir, "no go.mod")
		dir = filepath.Dir(dir)
	}
}
