package lua

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestLink(t *testing.T) {
	t.Parallel()
	lib, err := parse(fstest.MapFS{
		"shared/x.lua": file("-- x.lua\n\nlocal x = {}\n\n-- ONE is 1.\nx.ONE = 1\n\nx.TWO = x.ONE + 1\n"),
		"a/lib/y.lua": file("-- y.lua\n\nlocal y = {}\n\nfunction y.y()\n  return x.ONE + y.z()\nend\n\n" +
			"function y.z()\n  return x.ONE, b.x.ONE\nend\n"),
		"a/deep/some.lua": file("#!lua flags=no-writes\n-- some.lua uses x.TWO\n\n  -- note\n" +
			"local s = '-- x.TWO'\nreturn s .. y.y() -- x.TWO\n"),
		"a/plain.lua":  file("-- plain.lua\nreturn 1\n"),
		"a/absent.lua": file("return x.THREE\n"),
		"a/round.lua":  file("return r.a\n"),
		"a/lib/r.lua":  file("local r = {}\nfunction r.a()\n  r.b()\nend\nfunction r.b()\n  r.a()\nend\n"),
		"b/other.lua":  file("return y.y()\n"),
	})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"a/plain": "return 1\n",
		"a/deep/some": "#!lua flags=no-writes\nlocal x__ONE = 1\n" +
			"local function y__z()\n  return x__ONE, b.x.ONE\nend\n" +
			"local function y__y()\n  return x__ONE + y__z()\nend\nlocal s = '-- x.TWO'\nreturn s .. y__y() -- x.TWO\n",
		"b/other": "return y.y()\n", // no table of its domain
	} {
		source, err := lib.link(name)
		require.NoError(t, err)
		require.Equal(t, want, source, name)
	}
	for name, want := range map[string]string{
		"a/none": "no script a/none", "a/absent": "script a/absent: x.THREE is not defined", "a/round": "r.a uses itself",
	} {
		_, err := lib.link(name)
		require.ErrorContains(t, err, want)
	}
}

func TestParseRefusesTables(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]fstest.MapFS{
		"table x is defined twice": {
			"a/lib/x.lua": file("local x = {}\n"), "shared/x.lua": file("local x = {}\n"),
		},
		"x.f is defined twice": {
			"a/lib/x.lua": file("local x = {}\nfunction x.f()\nend\nfunction x.f()\nend\n"),
		},
		`table x begins with "local y = {}\n"`: {"a/lib/x.lua": file("-- x.lua\nlocal y = {}\n")},
		`table x has a member of another one: "function y.f()\n"`: {
			"a/lib/x.lua": file("local x = {}\nfunction y.f()\nend\n"),
		},
		`table x has something in front of its members: "local function f()\n"`: {
			"a/lib/x.lua": file("local x = {}\nlocal function f()\nend\n"),
		},
	} {
		_, err := parse(files)
		require.ErrorContains(t, err, want)
	}
}
