package redis

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// luaFile is a .lua file, cut into its header and its code.
type luaFile struct {
	name      string // publish.lua
	operation bool   // false: a file for operations to include
	lines     int
	header    string // the comment at the top, without the dashes
	code      []string
}

// parameter is a line of a header that tells of a key or an argument.
type parameter struct {
	table      string // KEYS or ARGV
	index      int
	list       bool // it stands for all that follow, too
	name, kind string
}

var parameterLine = regexp.MustCompile(`(?m)^(KEYS|ARGV)\[(\d+)(…?)\] +(\w+) +(\w+) +\S.*$`)

func (f luaFile) parameters() []parameter {
	var found []parameter
	for _, m := range parameterLine.FindAllStringSubmatch(f.header, -1) {
		index, _ := strconv.Atoi(m[2]) // the pattern has digits only
		found = append(found, parameter{table: m[1], index: index, list: m[3] != "", name: m[4], kind: m[5]})
	}
	return found
}

func (f luaFile) text() string { return strings.Join(f.code, "\n") }

// stem is the operation's name.
func (f luaFile) stem() string { return strings.TrimSuffix(f.name, ".lua") }

// readLua reads all .lua files, the operations first.
func readLua(t testing.TB) []luaFile {
	t.Helper()
	var files []luaFile
	for _, dir := range []string{"lua", "lua/include"} {
		names, err := fs.Glob(luaFiles, dir+"/*.lua")
		require.NoError(t, err)
		for _, name := range names {
			text, err := fs.ReadFile(luaFiles, name)
			require.NoError(t, err)
			files = append(files, parseLua(path.Base(name), string(text), dir == "lua"))
		}
	}
	require.Greater(t, len(files), 7)
	return files
}

func parseLua(name, text string, operation bool) luaFile {
	f := luaFile{name: name, operation: operation, lines: strings.Count(text, "\n")}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if strings.HasPrefix(lines[0], "#!") {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
		f.header += strings.TrimPrefix(strings.TrimPrefix(lines[0], "--"), " ") + "\n"
		lines = lines[1:]
	}
	f.code = lines
	return f
}

// operations gives the files that are operations.
func operations(t testing.TB) []luaFile {
	t.Helper()
	return slices.DeleteFunc(readLua(t), func(f luaFile) bool { return !f.operation })
}

// included gives the files that an operation includes, in order.
func included(t testing.TB, f luaFile) []luaFile {
	t.Helper()
	var found []luaFile
	for _, name := range includes("-- " + strings.ReplaceAll(f.header, "\n", "\n-- ")) {
		i := slices.IndexFunc(readLua(t), func(g luaFile) bool { return !g.operation && g.name == name })
		require.GreaterOrEqual(t, i, 0, "%s includes %s, which doesn't exist", f.name, name)
		found = append(found, readLua(t)[i])
	}
	return found
}

// forEach runs a rule on files as subtests.
func forEach(t *testing.T, files []luaFile, rule func(t *testing.T, f luaFile)) {
	t.Helper()
	for _, f := range files {
		dir := "include/"
		if f.operation {
			dir = ""
		}
		t.Run(dir+f.name, func(t *testing.T) {
			t.Parallel()
			rule(t, f)
		})
	}
}

func TestLuaFilesAreExplained(t *testing.T) {
	t.Parallel()
	forEach(t, readLua(t), func(t *testing.T, f luaFile) {
		require.Regexp(t, `^`+regexp.QuoteMeta(f.name)+` [a-z]`, f.header, "it says what it does")
		require.LessOrEqual(t, f.lines, 80)
		if !f.operation {
			require.NotRegexp(t, `\b(KEYS|ARGV)\b`, f.text(), "an include gets what it needs as parameters")
			return
		}
		require.Regexp(t, `(?m)^Returns `, f.header)
		require.Regexp(t, `(?m)^Safe to run twice: yes`, f.header, "the store repeats every script")
	})
}

func TestLuaParametersAreDocumented(t *testing.T) {
	t.Parallel()
	kinds := map[string][]string{"KEYS": {"string", "set", "zset", "hash", "stream"}, "ARGV": {"string", "clock", "ULID", "int"}}
	forEach(t, operations(t), func(t *testing.T, f luaFile) {
		count := map[string]int{}
		documented := f.parameters()
		require.NotEmpty(t, documented)
		require.Len(t, documented, len(regexp.MustCompile(`(?m)^(KEYS|ARGV)`).FindAllString(f.header, -1)),
			"a line of the header can't be read: index, name, type, what it is")
		for i, p := range documented {
			count[p.table]++
			require.Equal(t, count[p.table], p.index, "indices of %s without holes", p.table)
			require.Contains(t, kinds[p.table], p.kind)
			last := i+1 == len(documented) || documented[i+1].table != p.table
			require.True(t, last || !p.list, "only the last can be a list")
		}
		require.LessOrEqual(t, count["ARGV"], 8)
	})
}

var (
	indexed  = regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]`)
	unpacked = regexp.MustCompile(`(?:\{unpack|\bfrom)\((KEYS|ARGV), (\d+)\)`)
	either   = regexp.MustCompile(`\b(KEYS|ARGV)\b`)
)

func TestLuaNamesItsParametersAtTheTop(t *testing.T) {
	t.Parallel()
	forEach(t, operations(t), func(t *testing.T, f luaFile) {
		top := slices.IndexFunc(f.code, func(line string) bool { return !strings.HasPrefix(line, "local ") })
		used := map[parameter]bool{}
		for _, line := range f.code[:top] {
			for p := range parametersOf(line) {
				require.False(t, used[p], "%s[%d] has two names", p.table, p.index)
				used[p] = true
			}
			for name, p := range named(line) {
				i := slices.IndexFunc(f.parameters(), func(q parameter) bool { return q.table == p.table && q.index == p.index })
				require.GreaterOrEqual(t, i, 0, "%s[%d] isn't documented", p.table, p.index)
				require.Contains(t, []string{f.parameters()[i].name, f.parameters()[i].name + "_key"}, name, line)
			}
		}
		documented := map[parameter]bool{}
		for _, p := range f.parameters() {
			documented[parameter{table: p.table, index: p.index, list: p.list}] = true
		}
		require.Equal(t, documented, used, "documented, and used")
		for _, line := range f.code[top:] {
			require.NotRegexp(t, either, line, "below the top only names are used")
		}
	})
}

// parametersOf gives the parameters that a line of code uses.
func parametersOf(line string) map[parameter]bool {
	found := map[parameter]bool{}
	for _, pattern := range []*regexp.Regexp{indexed, unpacked} {
		for _, m := range pattern.FindAllStringSubmatch(line, -1) {
			index, _ := strconv.Atoi(m[2]) // the pattern has digits only
			found[parameter{table: m[1], index: index, list: pattern == unpacked}] = true
		}
	}
	return found
}

// named gives the locals of `local a, b = x, y` that each stand for one parameter.
func named(line string) map[string]parameter {
	names, values, ok := strings.Cut(strings.TrimPrefix(line, "local "), " = ")
	list := strings.Split(names, ", ")
	expressions := splitOutside(values)
	found := map[string]parameter{}
	if !ok || len(list) != len(expressions) {
		return found
	}
	for i, name := range list {
		if uses := slices.Collect(maps.Keys(parametersOf(expressions[i]))); len(uses) == 1 && !strings.Contains(expressions[i], "=") {
			found[name] = uses[0]
		}
	}
	return found
}

// splitOutside splits at commas that aren't inside of brackets.
func splitOutside(text string) []string {
	parts, depth := []string{""}, 0
	for _, r := range text {
		switch {
		case strings.ContainsRune("({[", r):
			depth++
		case strings.ContainsRune(")}]", r):
			depth--
		case r == ',' && depth == 0:
			parts = append(parts, "")
			continue
		}
		parts[len(parts)-1] += string(r)
	}
	return parts
}

var (
	defined = regexp.MustCompile(`(?m)^local (?:function )?(\w+)`)
	called  = regexp.MustCompile(`(?:^|[^\w.:])([a-z_]\w*)\(`)
	word    = regexp.MustCompile(`\w+`)
)

// builtin are Lua's own that scripts call without a table's name in front.
var builtin = []string{"tonumber", "type", "ipairs", "unpack", "pcall", "error", "function", "and", "or", "not", "if", "while", "return"}

func TestLuaIncludesExistAndAreUsed(t *testing.T) {
	t.Parallel()
	everywhere := map[string]bool{}
	for _, f := range operations(t) {
		for _, part := range included(t, f) {
			everywhere[part.name] = true
		}
	}
	forEach(t, readLua(t), func(t *testing.T, f luaFile) {
		if !f.operation {
			require.True(t, everywhere[f.name], "no operation includes it")
			for _, m := range defined.FindAllStringSubmatch(f.text(), -1) {
				require.Greater(t, mentions(t, m[1]), 1, "%s is used nowhere", m[1])
			}
			return
		}
		parts := append(included(t, f), f)
		for i, part := range parts[:len(parts)-1] {
			var later []string
			for _, user := range parts[i+1:] {
				later = append(later, word.FindAllString(user.text(), -1)...)
			}
			require.True(t, slices.ContainsFunc(defined.FindAllStringSubmatch(part.text(), -1), func(m []string) bool {
				return slices.Contains(later, m[1])
			}), "nothing of %s is used", part.name)
		}
		var known []string
		for _, part := range parts {
			for _, line := range part.code {
				known = append(known, localsOf(line)...)
				for _, m := range called.FindAllStringSubmatch(line, -1) {
					require.Contains(t, append(known, builtin...), m[1], "%s calls it, but no include before has it", part.name)
				}
			}
		}
	})
}

// mentions counts how often a name stands in the code of all files.
func mentions(t *testing.T, name string) int {
	t.Helper()
	count := 0
	for _, f := range readLua(t) {
		for _, w := range word.FindAllString(f.text(), -1) {
			if w == name {
				count++
			}
		}
	}
	return count
}

// localsOf gives the names that a line makes: a function and its parameters, or locals.
func localsOf(line string) []string {
	line = strings.TrimSpace(line)
	declared, isLocal := strings.CutPrefix(line, "local ")
	if !isLocal {
		return nil
	}
	declared, _, _ = strings.Cut(declared, "=")
	return word.FindAllString(declared, -1)
}

// What Redis gets of a file is its code alone, and of what it includes no more than it uses.
func TestLuaComesWithoutComments(t *testing.T) {
	t.Parallel()
	forEach(t, operations(t), func(t *testing.T, f luaFile) {
		source, err := scriptSource(luaFiles, f.stem())
		require.NoError(t, err)
		got := strings.Split(strings.TrimSuffix(source, "\n"), "\n")
		if text, _ := fs.ReadFile(luaFiles, "lua/"+f.name); strings.HasPrefix(string(text), "#!") {
			require.Regexp(t, `^#!lua( flags=\S+)?$`, got[0])
			got = got[1:]
		}
		own := codeLines(t, f)
		require.Equal(t, own, got[len(got)-len(own):])
		left := got[:len(got)-len(own)]
		for _, part := range included(t, f) {
			for _, line := range codeLines(t, part) {
				if len(left) > 0 && left[0] == line {
					left = left[1:]
				}
				if name := definition.FindStringSubmatch(line); name != nil {
					uses := len(regexp.MustCompile(`\b`+name[1]+`\b`).FindAllString(source, -1))
					require.Equal(t, slices.Contains(got, line), uses > 1, "%s is there where it is used", name[1])
					require.NotEqual(t, 1, uses, "%s is used before it is defined, or not at all", name[1])
				}
			}
		}
		require.Empty(t, left, "all comes from the parts, in their order")
	})
}

// codeLines gives the lines of a file that aren't comments.
func codeLines(t *testing.T, f luaFile) []string {
	t.Helper()
	var lines []string
	for _, line := range f.code {
		require.NotRegexp(t, `\[=*\[|--\[`, line, "a string or comment of several lines")
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "--") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestScriptSource(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"lua/a.lua":         {Data: []byte("#!lua flags=no-writes\n-- a.lua\n-- include: x.lua y.lua\n\n  -- note\nlocal s = '-- kept'\nreturn s .. y() -- kept\n")},
		"lua/b.lua":         {Data: []byte("-- b.lua\nreturn 1\n")},
		"lua/c.lua":         {Data: []byte("-- include: z.lua\nreturn 1\n")},
		"lua/include/x.lua": {Data: []byte("-- x.lua\nlocal xy = 2\nlocal x = 1\n")},
		"lua/include/y.lua": {Data: []byte("local function y()\n  return x\nend\n\n\nlocal function z()\n  return y() + xy\nend\n")},
	}
	source, err := scriptSource(files, "a")
	require.NoError(t, err)
	require.Equal(t, "#!lua flags=no-writes\nlocal x = 1\nlocal function y()\n  return x\nend\n"+
		"local s = '-- kept'\nreturn s .. y() -- kept\n", source, "without xy and z, which it doesn't use")
	source, err = scriptSource(files, "b")
	require.NoError(t, err)
	require.Equal(t, "return 1\n", source)
	for _, name := range []string{"c", "d"} {
		_, err = scriptSource(files, name)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "script "+name)
	}
}

// goFiles parses the package without its tests.
func goFiles(t testing.TB) map[string]*ast.File {
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

// knownStatuses gives the constants of type status.
func knownStatuses(t testing.TB) []string {
	t.Helper()
	var found []string
	ast.Inspect(goFiles(t)["reply.go"], func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Type != nil && spec.Type.(*ast.Ident).Name == "status" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			found = append(found, text)
		}
		return true
	})
	slices.Sort(found)
	return found
}

var (
	toldStatus     = regexp.MustCompile(`\{"([A-Z_]+)"`)
	givenStatus    = regexp.MustCompile(`(?:\{|return )'([A-Z_]+)'`)
	comparedStatus = regexp.MustCompile(`[~=]= '([A-Z_]+)'`)
)

func matches(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestLuaStatusesAreKnown(t *testing.T) {
	t.Parallel()
	var all []string
	for _, f := range operations(t) {
		told, given := matches(toldStatus, f.header), matches(givenStatus, f.text())
		require.NotEmpty(t, told, f.name)
		require.Subset(t, told, given, "%s gives more than its header tells", f.name)
		for _, part := range included(t, f) {
			for _, s := range matches(givenStatus, part.text()) {
				if !slices.Contains(matches(comparedStatus, f.text()), s) {
					require.Contains(t, told, s, "%s can give it by %s", f.name, part.name)
				}
				given = append(given, s)
			}
		}
		require.Subset(t, given, told, "the header of %s tells more than it gives", f.name)
		all = append(all, told...)
	}
	slices.Sort(all)
	require.Equal(t, slices.Compact(all), knownStatuses(t), "what scripts give, and what reply.go knows")
}

// callerOf are methods that aren't named as their operation's script.
var callerOf = map[string]string{
	"queue":  "Describe", // there is describe.lua, for channels
	"define": "PutDefinition", "takeover": "TakeOver",
}

// TestEachScriptHasOneCaller holds that an operation's script is run by the store's method of that name, and by no
// other exported function.
func TestEachScriptHasOneCaller(t *testing.T) {
	t.Parallel()
	callers := map[string][]string{}
	for _, file := range goFiles(t) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if ok && strings.HasSuffix(id.Name, "Script") && !slices.Contains(callers[id.Name], f.Name.Name) {
					callers[id.Name] = append(callers[id.Name], f.Name.Name)
				}
				return true
			})
		}
	}
	want := map[string][]string{}
	for _, f := range operations(t) {
		want[f.stem()+"Script"] = []string{cmp.Or(callerOf[f.stem()], strings.ToUpper(f.name[:1])+f.stem()[1:])}
	}
	require.Equal(t, want, callers)
}

func TestScriptsCompile(t *testing.T) {
	t.Parallel()
	node := redistest.Standalone(t)
	for _, f := range operations(t) {
		source, err := scriptSource(luaFiles, f.stem())
		require.NoError(t, err)
		require.NoError(t, node.Do(t, "SCRIPT", "LOAD", source).Error(), f.name)
	}
}

// replyOf gives what a script answers that returns a Lua value.
func replyOf(t *testing.T, value string) (reply, error) {
	t.Helper()
	values, err := redistest.Standalone(t).Do(t, "EVAL", "return "+value, "0").ToArray()
	require.NoError(t, err, value)
	return newReply("test", values)
}

// decoders decode a reply to each operation, and give only the error.
var decoders = map[string]func(*testing.T, reply) error{
	"publish": func(_ *testing.T, r reply) error {
		_, err := r.published(make([]channel.Draft, 2))
		return err
	},
	"subscribe":   func(_ *testing.T, r reply) error { _, err := r.subscription(); return err },
	"open":        func(_ *testing.T, r reply) error { _, err := r.life(); return err },
	"unsubscribe": func(_ *testing.T, r reply) error { return r.oneOf(statusOK, statusNoSubscriber) },
	"ack":         func(_ *testing.T, r reply) error { return r.oneOf(statusOK, statusStale) },
	"describe":    func(_ *testing.T, r reply) error { _, err := r.description(); return err },
	"fetch": func(t *testing.T, r reply) error {
		s, _ := openStandalone(t)
		_, err := s.batch(t.Context(), r)
		return err
	},
}

func TestRepliesThatAreRight(t *testing.T) {
	t.Parallel()
	epoch := "'" + someEpoch + "'"
	for operation, values := range map[string][]string{
		"publish":     {`{'OK', '1', 0, '-9007199254740991', 1}`},
		"subscribe":   {`{'CREATED', ` + epoch + `, '0'}`, `{'EXISTS', ` + epoch + `, '-5'}`},
		"open":        {`{'OK', ` + epoch + `, 'duel'}`},
		"unsubscribe": {`{'OK'}`, `{'NO_SUBSCRIBER'}`},
		"ack":         {`{'OK'}`, `{'STALE'}`},
		"describe":    {`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {}}`, `{'OK', ` + epoch + `, '5', 1, 4, 2, '18446744073709551615', {'a', '1', 'b', '2'}}`},
		"fetch": {
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {}}`,
			`{'OK', ` + epoch + `, '0', '1', '1', '0', {'1', '{"id":"a","content":1,"at":5}'}}`,
		},
	} {
		for _, value := range values {
			r, err := replyOf(t, value)
			require.NoError(t, err)
			require.NoError(t, decoders[operation](t, r), "%s: %s", operation, value)
		}
	}
}

func TestRepliesThatAreWrongAreRefused(t *testing.T) {
	t.Parallel()
	epoch := "'" + someEpoch + "'"
	for operation, values := range map[string][]string{
		"publish": {
			`{'OK'}`, `{'OK', '1', 0}`, `{'OK', '1', 0, '2'}`, `{'OK', '1', 0, '2', 0, 0}`, `{'OK', '1', 0, '2', 'x'}`,
			`{'OK', 'x', 0, '2', 0}`, `{'OK', '1', {}, '2', 0}`, `{'OK', 1, 0, '2', 0}`, `{'OK', '9007199254740992', 0, '2', 0}`,
			`{'OK', false, 0, '2', 0}`, `{'STALE', '1', 0, '2', 0}`, `{'CREATED'}`,
		},
		"subscribe": {
			`{'CREATED'}`, `{'CREATED', ` + epoch + `}`, `{'CREATED', ` + epoch + `, '0', ''}`,
			`{'EXISTS', ` + epoch + `, 'x'}`, `{'EXISTS', 'x', '0'}`, `{'EXISTS', '', '0'}`, `{'EXISTS', {}, '0'}`,
			`{'EXISTS', ` + epoch + `, {}}`, `{'OK', ` + epoch + `, '0'}`,
		},
		"open": {
			`{'OK'}`, `{'OK', ` + epoch + `}`, `{'OK', 'x', 'duel'}`, `{'OK', ` + epoch + `, {}}`, `{'OK', ` + epoch + `, 'duel', 1}`,
			`{'CREATED', ` + epoch + `, 'duel'}`,
		},
		"unsubscribe": {`{'OK', 'x'}`, `{'STALE'}`, `{'CREATED'}`},
		"ack":         {`{'OK', 'x'}`, `{'STALE', '1'}`, `{'EXISTS'}`},
		"describe": {
			`{'OK'}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0'}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0', 'x'}`,
			`{'OK', ` + epoch + `, '5', 'x', -1, 0, '0', {}}`, `{'OK', ` + epoch + `, '5', 1, -1, 'x', '0', {}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '-1', {}}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, {}, {}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {'a'}}`, `{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {'a', 'b'}}`,
			`{'OK', ` + epoch + `, '5', 1, -1, 0, '0', {}, 1}`, `{'OK', 'x', '5', 1, -1, 0, '0', {}}`, `{'EXISTS'}`,
		},
		"fetch": {
			`{'OK'}`, `{'OK', ` + epoch + `, '0', '5', '5', '5'}`, `{'OK', ` + epoch + `, '0', '5', '5', '5', 'x'}`,
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {'1'}}`, `{'OK', ` + epoch + `, '0', '5', '5', '5', {'x', '{}'}}`,
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {'1', {}}}`, `{'OK', ` + epoch + `, '0', '5', '5', 'x', {}}`,
			`{'OK', ` + epoch + `, '0', '5', '5', '5', {}, {}}`, `{'OK', 'x', '0', '5', '5', '5', {}}`, `{'STALE'}`,
		},
	} {
		for _, value := range append(values, `{'WHAT'}`, `{'ok'}`, `{''}`) {
			r, err := replyOf(t, value)
			require.NoError(t, err, value)
			err = decoders[operation](t, r)
			require.ErrorIs(t, err, errReply, "%s: %s", operation, value)
			var told *fault.Error
			require.ErrorAs(t, err, &told, "%s: %s", operation, value)
			require.Equal(t, fault.Internal, told.Kind)
		}
	}
	for _, value := range []string{`{}`, `{1}`, `{{}}`, `{false}`} {
		_, err := replyOf(t, value)
		require.ErrorIs(t, err, errReply, value)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]error{
		"NO_CHANNEL": channel.ErrNoChannel, "NO_SUBSCRIBER": channel.ErrNoSubscriber, "EPOCH": channel.ErrReceiptEpoch,
		"AHEAD": channel.ErrReceiptAhead, "SUPERSEDED": channel.ErrReceiptSuperseded, "LIFE": channel.ErrLaterLife,
	} {
		r, err := replyOf(t, "{'"+value+"'}")
		require.NoError(t, err)
		require.ErrorIs(t, r.refusal(), want)
	}
	r, err := replyOf(t, "{'AHEAD'}")
	require.NoError(t, err)
	_, err = r.subscription()
	require.ErrorIs(t, err, channel.ErrClockAhead, "what AHEAD means depends on who asked")
}
