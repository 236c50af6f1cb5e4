package lua_test

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// forEach runs a rule on files as subtests.
func forEach(t *testing.T, files []luatest.File, rule func(t *testing.T, f luatest.File)) {
	t.Helper()
	for _, f := range files {
		t.Run(f.Path, func(t *testing.T) {
			t.Parallel()
			rule(t, f)
		})
	}
}

func TestFilesAreExplained(t *testing.T) {
	t.Parallel()
	forEach(t, append(luatest.Scripts(t), luatest.Libraries(t)...), func(t *testing.T, f luatest.File) {
		require.Regexp(t, `^`+regexp.QuoteMeta(f.Name())+` [a-z]`, f.Header, "it says what it does")
		text, err := fs.ReadFile(lua.Files(), f.Path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 120, line)
		}
		require.NotRegexp(t, `\[=*\[|--\[`, string(text), "the linker reads lines: no string or comment of several lines")
		if f.Library() {
			require.NotRegexp(t, `\b(KEYS|ARGV)\b`, f.Text(), "a library gets what it needs as parameters")
			return
		}
		require.Regexp(t, `(?m)^Returns `, f.Header)
		require.Regexp(t, `(?m)^Safe to run twice: yes`, f.Header, "the stores repeat every script")
	})
}

func TestParametersAreDocumented(t *testing.T) {
	t.Parallel()
	kinds := map[string][]string{"KEYS": {"string", "set", "zset", "hash", "stream"}, "ARGV": {"string", "clock", "ULID", "int"}}
	forEach(t, luatest.Scripts(t), func(t *testing.T, f luatest.File) {
		count := map[string]int{}
		documented := f.Parameters()
		require.NotEmpty(t, documented)
		require.Len(t, documented, len(regexp.MustCompile(`(?m)^(KEYS|ARGV)`).FindAllString(f.Header, -1)),
			"a line of the header can't be read: index, name, type, what it is")
		for i, p := range documented {
			count[p.Table]++
			require.Equal(t, count[p.Table], p.Index, "indices of %s without holes", p.Table)
			require.Contains(t, kinds[p.Table], p.Kind)
			last := i+1 == len(documented) || documented[i+1].Table != p.Table
			require.True(t, last || !p.List, "only the last can be a list")
		}
	})
}

var (
	indexed  = regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]`)
	unpacked = regexp.MustCompile(`(?:\{unpack|\bfrom)\((KEYS|ARGV), (\d+)\)`)
	either   = regexp.MustCompile(`\b(KEYS|ARGV)\b`)
)

// listed is how the last parameter, if it is a list, may also be used below the top.
var listed = regexp.MustCompile(`#(?:KEYS|ARGV)\b|\b(KEYS|ARGV)\[i\b[^\]]*\]|unpack\((?:KEYS|ARGV), \d+(?:, \w+)?\)`)

// place is a key or an argument by its index.
type place struct {
	table string
	index int
	list  bool
}

func TestParametersAreNamedAtTheTop(t *testing.T) {
	t.Parallel()
	forEach(t, luatest.Scripts(t), func(t *testing.T, f luatest.File) {
		top := slices.IndexFunc(f.Code, func(line string) bool { return !strings.HasPrefix(line, "local ") })
		used := map[place]bool{}
		for _, line := range f.Code[:top] {
			for p := range placesIn(line) {
				require.False(t, used[p], "%s[%d] has two names", p.table, p.index)
				used[p] = true
			}
			for name, p := range named(line) {
				i := slices.IndexFunc(f.Parameters(), func(q luatest.Parameter) bool { return q.Table == p.table && q.Index == p.index })
				require.GreaterOrEqual(t, i, 0, "%s[%d] isn't documented", p.table, p.index)
				require.Contains(t, []string{f.Parameters()[i].Name, f.Parameters()[i].Name + "_key"}, name, line)
			}
		}
		below := matches(listed, strings.Join(f.Code[top:], "\n"))
		documented := map[place]bool{}
		for _, p := range f.Parameters() {
			if p.List && slices.Contains(below, p.Table) {
				used[place{p.Table, p.Index, true}] = true
			}
			documented[place{p.Table, p.Index, p.List}] = true
		}
		require.Equal(t, documented, used, "documented, and used")
		for _, line := range f.Code[top:] {
			require.NotRegexp(t, either, listed.ReplaceAllString(line, ""), "below the top only names are used")
		}
	})
}

// placesIn returns the keys and arguments that a line of code uses.
func placesIn(line string) map[place]bool {
	found := map[place]bool{}
	for _, pattern := range []*regexp.Regexp{indexed, unpacked} {
		for _, m := range pattern.FindAllStringSubmatch(line, -1) {
			index, _ := strconv.Atoi(m[2]) // the pattern has digits only
			found[place{m[1], index, pattern == unpacked}] = true
		}
	}
	return found
}

// named returns the locals of `local a, b = x, y` that each stand for one key or argument.
func named(line string) map[string]place {
	names, values, ok := strings.Cut(strings.TrimPrefix(line, "local "), " = ")
	list := strings.Split(names, ", ")
	expressions := splitOutside(values)
	found := map[string]place{}
	if !ok || len(list) != len(expressions) {
		return found
	}
	for i, name := range list {
		if uses := slices.Collect(maps.Keys(placesIn(expressions[i]))); len(uses) == 1 && !strings.Contains(expressions[i], "=") {
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

var member = regexp.MustCompile(`(?m)^(?:function (\w+\.\w+)\(|(\w+\.[A-Z_]+) = )`)

func TestMembersAreUsed(t *testing.T) {
	t.Parallel()
	linked := ""
	for _, f := range luatest.Scripts(t) {
		linked += f.Script().Source()
	}
	forEach(t, luatest.Libraries(t), func(t *testing.T, f luatest.File) {
		members := member.FindAllStringSubmatch(f.Text(), -1)
		require.NotEmpty(t, members)
		for _, m := range members {
			require.Regexp(t, `\blocal (function )?`+strings.Replace(m[1]+m[2], ".", "__", 1)+`\b`, linked, "it is used nowhere")
		}
	})
}

var (
	givenStatus    = regexp.MustCompile(`(?:\{|return )'([A-Z_]+)'`)
	comparedStatus = regexp.MustCompile(`[~=]= '([A-Z_]+)'`)
)

func matches(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

func TestStatusesAreDocumented(t *testing.T) {
	t.Parallel()
	forEach(t, luatest.Scripts(t), func(t *testing.T, f luatest.File) {
		documented, linked := f.Statuses(), matches(givenStatus, f.Script().Source())
		require.NotEmpty(t, documented)
		require.Subset(t, linked, documented, "the header has more than the script returns")
		require.Subset(t, documented, matches(givenStatus, f.Text()), "the script returns more than its header has")
		handled := matches(comparedStatus, f.Text()) // a function's result that the script doesn't return
		require.Subset(t, append(handled, documented...), linked, "a function returns more than the header has")
	})
}

func TestScriptsCompile(t *testing.T) {
	t.Parallel()
	node := redistest.Standalone(t)
	for _, f := range luatest.Scripts(t) {
		sum, err := node.Do(t, "SCRIPT", "LOAD", f.Script().Source()).ToString()
		require.NoError(t, err, f.Path)
		require.Equal(t, f.Script().SHA1(), sum)
	}
}
