// Package luatest reads the headers of scripts, for tests that compare them with the scripts' code, with the stores that
// run them and with the documentation.
package luatest

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// File is a .lua file, divided into its header and the rest.
type File struct {
	Path   string // channels/publish.lua
	Flags  string // the #! line, such as "#!lua flags=allow-oom"; empty if there is none
	Header string // the comment at the top, without its dashes
	Code   []string
}

// Parameter is a line of a header that describes a key or an argument.
type Parameter struct {
	Table      string // KEYS or ARGV
	Index      int
	List       bool // a list: it describes all that follow, too
	Name, Kind string
}

// Scripts returns the scripts of some domains, or of all if none is named.
func Scripts(t testing.TB, domains ...string) []File {
	t.Helper()
	return read(t, func(f File) bool {
		return !f.Library() && (len(domains) == 0 || slices.Contains(domains, path.Dir(f.Path)))
	})
}

// Libraries returns the library files.
func Libraries(t testing.TB) []File {
	t.Helper()
	return read(t, File.Library)
}

func read(t testing.TB, wanted func(File) bool) []File {
	t.Helper()
	var found []File
	err := fs.WalkDir(lua.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(lua.Files(), name)
		if f := parse(name, string(text)); wanted(f) {
			found = append(found, f)
		}
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func parse(name, text string) File {
	f := File{Path: name}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if strings.HasPrefix(lines[0], "#!") {
		f.Flags, lines = lines[0], lines[1:]
	}
	for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
		f.Header += strings.TrimPrefix(strings.TrimPrefix(lines[0], "--"), " ") + "\n"
		lines = lines[1:]
	}
	f.Code = lines
	return f
}

// Name returns the file's name, such as publish.lua.
func (f File) Name() string { return path.Base(f.Path) }

// Stem returns the script's name without its domain, such as publish.
func (f File) Stem() string { return strings.TrimSuffix(f.Name(), ".lua") }

// Summary returns the first sentence of the header, without the script's name and the full stop.
func (f File) Summary() string {
	first, _, _ := strings.Cut(f.Header, "\n\n")
	first = strings.TrimPrefix(strings.Join(strings.Fields(first), " "), f.Name()+" ")
	sentence, _, _ := strings.Cut(first, ". ")
	return strings.TrimSuffix(sentence, ".")
}

// Script returns the script.
func (f File) Script() *lua.Script { return lua.Must(strings.TrimSuffix(f.Path, ".lua")) }

// Library reports whether the file holds definitions for scripts.
func (f File) Library() bool {
	folder := path.Base(path.Dir(f.Path))
	return folder == "lib" || folder == "shared"
}

// Text returns the code as one string.
func (f File) Text() string { return strings.Join(f.Code, "\n") }

var parameterLine = regexp.MustCompile(`(?m)^(KEYS|ARGV)\[(\d+)(…?)\] +(\w+) +(\w+) +\S.*$`)

// Parameters returns the KEYS and ARGV that the header describes, in order.
func (f File) Parameters() []Parameter {
	var found []Parameter
	for _, m := range parameterLine.FindAllStringSubmatch(f.Header, -1) {
		index, _ := strconv.Atoi(m[2]) // the pattern has digits only
		found = append(found, Parameter{Table: m[1], Index: index, List: m[3] != "", Name: m[4], Kind: m[5]})
	}
	return found
}

// Count returns how many KEYS, or ARGV, the header describes.
func (f File) Count(table string) int {
	n := 0
	for _, p := range f.Parameters() {
		if p.Table == table {
			n++
		}
	}
	return n
}

var returned = regexp.MustCompile(`\{"([A-Z_]+)"`)

// Statuses returns the statuses that the header says the script returns, sorted.
func (f File) Statuses() []string {
	var found []string
	for _, m := range returned.FindAllStringSubmatch(f.Header, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}
