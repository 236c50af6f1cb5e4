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
		"shared/x.lua": file("-- x.lua\n-- define: one\n-- one is 1.\nlocal one = 1\n\n-- define: two\nlocal two = 2\n"),
		"a/lib/y.lua": file("-- define: y\n-- uses: x.one y.z\nlocal function y()\n  return one + z()\nend\n\n" +
			"-- define: z\n-- uses: x.one\nlocal function z()\n  return one\nend\n"),
		"a/some.lua": file("#!lua flags=no-writes\n-- some.lua\n-- uses: y.y\n-- uses: x.one\n\n  -- note\n" +
			"local s = '-- kept'\nreturn s .. y() -- kept\n"),
		"a/plain.lua":  file("-- plain.lua\nreturn 1\n"),
		"a/absent.lua": file("-- uses: x.three\nreturn 1\n"),
		"a/round.lua":  file("-- uses: r.a\nreturn 1\n"),
		"shared/r.lua": file("-- define: a\n-- uses: r.b\nlocal a\n\n-- define: b\n-- uses: r.a\nlocal b\n"),
	})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"a/plain": "return 1\n",
		"a/some": "#!lua flags=no-writes\nlocal one = 1\nlocal function z()\n  return one\nend\n" +
			"local function y()\n  return one + z()\nend\nlocal s = '-- kept'\nreturn s .. y() -- kept\n",
	} {
		source, err := lib.link(name)
		require.NoError(t, err)
		require.Equal(t, want, source, name)
	}
	for name, want := range map[string]string{
		"a/none": "no script a/none", "a/absent": "script a/absent: x.three is not defined", "a/round": "r.a uses itself",
	} {
		_, err := lib.link(name)
		require.ErrorContains(t, err, want)
	}
	_, err = parse(fstest.MapFS{"a/lib/x.lua": file("-- define: f\n"), "shared/x.lua": file("-- define: f\n")})
	require.ErrorContains(t, err, "x.f is defined twice")
}
