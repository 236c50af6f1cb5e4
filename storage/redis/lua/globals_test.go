package lua_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// names are the names in a compiled script.
type names struct {
	globals, assigned []string // globals that are read, and that are assigned
	locals            []string
}

// namesIn compiles a script in Redis and reads the names from its bytecode. So it finds them in all branches.
func namesIn(t *testing.T, node *redistest.Node, source string) names {
	t.Helper()
	if strings.HasPrefix(source, "#!") {
		_, source, _ = strings.Cut(source, "\n")
	}
	code, err := node.Do(t, "EVAL", "return string.dump(assert(loadstring(ARGV[1])))", "0", source).ToString()
	require.NoError(t, err)
	const header = "\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00" // Lua 5.1, little-endian, 64 bits
	require.True(t, strings.HasPrefix(code, header))
	r := bytecode{t: t, rest: bytes.NewReader([]byte(code[len(header):]))}
	r.function()
	require.Zero(t, r.rest.Len())
	for _, list := range []*[]string{&r.found.globals, &r.found.assigned, &r.found.locals} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r.found
}

// bytecode reads what string.dump of Lua 5.1 returns, as lundump.c does.
type bytecode struct {
	t     *testing.T
	rest  *bytes.Reader
	found names
}

func (r *bytecode) read(into any) {
	r.t.Helper()
	require.NoError(r.t, binary.Read(r.rest, binary.LittleEndian, into))
}

func (r *bytecode) bytes(n int) []byte {
	r.t.Helper()
	data := make([]byte, n)
	r.read(data)
	return data
}

// times reads a count, and calls a function that many times.
func (r *bytecode) times(call func()) {
	var n int32
	r.read(&n)
	for range n {
		call()
	}
}

func (r *bytecode) text() string {
	var length uint64
	if r.read(&length); length == 0 {
		return ""
	}
	return strings.TrimSuffix(string(r.bytes(int(length))), "\x00")
}

func (r *bytecode) function() {
	r.text()
	r.bytes(2*4 + 4) // lines; upvalues, parameters, varargs, stack
	var instructions []uint32
	r.times(func() {
		var i uint32
		r.read(&i)
		instructions = append(instructions, i)
	})
	var constants []string
	r.times(func() { constants = append(constants, r.constant()) })
	for _, i := range instructions {
		switch i & 0x3f {
		case 5: // GETGLOBAL
			r.found.globals = append(r.found.globals, constants[i>>14])
		case 7: // SETGLOBAL
			r.found.assigned = append(r.found.assigned, constants[i>>14])
		}
	}
	r.times(r.function)
	r.times(func() { r.bytes(4) }) // line numbers
	r.times(func() {
		r.found.locals = append(r.found.locals, r.text())
		r.bytes(2 * 4)
	})
	r.times(func() { r.text() }) // names of upvalues
}

// constant returns a constant if it is a string.
func (r *bytecode) constant() string {
	switch kind := r.bytes(1)[0]; kind {
	case 0: // nil
	case 1: // boolean
		r.bytes(1)
	case 3: // number
		r.bytes(8)
	case 4:
		return r.text()
	default:
		require.Fail(r.t, "unknown constant", kind)
	}
	return ""
}

// provided are the globals that scripts may use: those of Redis and of Lua.
var provided = []string{
	"KEYS", "ARGV", "redis", "string", "math", "table", "tonumber", "tostring", "next", "type", "ipairs", "pairs", "unpack", "pcall", "error", "cjson",
}

func TestScriptsUseNoOtherGlobals(t *testing.T) {
	t.Parallel()
	node := redistest.Standalone(t)
	forEach(t, luatest.Scripts(t), func(t *testing.T, f luatest.File) {
		found := namesIn(t, node, f.Script().Source())
		require.Subset(t, provided, found.globals, "it uses what neither Redis nor a table of its domain or of shared provides")
		require.Empty(t, found.assigned, "it defines a global")
		for _, name := range found.locals {
			if table, _, ok := strings.Cut(name, "__"); ok {
				require.NotContains(t, found.locals, table, "a local with the name of a table whose members are used")
			}
		}
	})
}

func TestGlobalsAreFound(t *testing.T) {
	t.Parallel()
	found := namesIn(t, redistest.Standalone(t), "#!lua\n"+
		"local one, two = 1, 'text'\nlocal function deep() return function() absent(one, nil, true, two) end end\n"+
		"if one > 1 then\n  made = deep\nend\nreturn KEYS[1]")
	require.Equal(t, names{
		globals: []string{"KEYS", "absent"}, assigned: []string{"made"}, locals: []string{"deep", "one", "two"},
	}, found)
}
