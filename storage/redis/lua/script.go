package lua

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA identifies scripts by SHA-1
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

//go:embed */*.lua */lib/*.lua records/*/*.lua
var files embed.FS

// parsed are the files, read when the first script is asked for.
var parsed = sync.OnceValues(func() (*library, error) { return parse(files) })

// Script is one of the scripts. It is linked when it is first used, so that programs that use none don't wait for it.
type Script struct {
	name   string
	linked func() *linked
}

// linked is a script that is ready to run.
type linked struct {
	source string
	sha1   string
	run    *rueidis.Lua
	read   *rueidis.Lua // run, by the commands that replicas accept
}

// Must returns a script by its name, such as "channels/publish". If there is no such script, its first use panics: the
// files are part of the binary.
func Must(name string) *Script {
	return &Script{name: path.Base(name), linked: sync.OnceValue(func() *linked {
		lib, err := parsed()
		if err != nil {
			panic(err)
		}
		source, err := lib.link(name)
		if err != nil {
			panic(err)
		}
		sum := sha1.Sum([]byte(source)) //nolint:gosec // EVALSHA identifies scripts by SHA-1
		return &linked{
			source: source, sha1: hex.EncodeToString(sum[:]), run: rueidis.NewLuaScript(source),
			read: rueidis.NewLuaScriptReadOnly(source),
		}
	})}
}

// Names returns the names of a domain's scripts, sorted: "channels/ack" and so on.
func Names(domain string) []string {
	lib, err := parsed()
	if err != nil {
		panic(err)
	}
	var names []string
	for name := range lib.scripts {
		if strings.HasPrefix(name, domain+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// byHash has the names of all scripts by their SHA-1.
var byHash = sync.OnceValue(func() map[string]string {
	lib, err := parsed()
	if err != nil {
		panic(err)
	}
	names := make(map[string]string, len(lib.scripts))
	for name := range lib.scripts {
		names[Must(name).SHA1()] = name
	}
	return names
})

// NameOf returns the name of the script with a SHA-1, such as "channels/publish", or "" if there is none.
func NameOf(sha1 string) string { return byHash()[sha1] }

// Name returns the script's name without its domain, such as "publish".
func (s *Script) Name() string { return s.name }

// Source returns the script's text as Redis gets it.
func (s *Script) Source() string { return s.linked().source }

// SHA1 returns the script's SHA-1 for EVALSHA, in hexadecimal digits.
func (s *Script) SHA1() string { return s.linked().sha1 }

// Exec runs the script by EVALSHA, or by EVAL if Redis doesn't know it.
func (s *Script) Exec(ctx context.Context, c rueidis.Client, keys, args []string) rueidis.RedisResult {
	return s.linked().run.Exec(ctx, c, keys, args)
}

// ExecReadOnly runs a script that only reads by EVALSHA_RO, which replicas accept, or by EVAL_RO if Redis doesn't know
// the script.
func (s *Script) ExecReadOnly(ctx context.Context, c rueidis.Client, keys, args []string) rueidis.RedisResult {
	return s.linked().read.Exec(ctx, c, keys, args)
}

// Evalsha returns the EVALSHA command of one call. Redis answers it with NOSCRIPT if it doesn't know the script.
func (s *Script) Evalsha(b rueidis.Builder, keys, args []string) rueidis.Completed {
	return b.Evalsha().Sha1(s.linked().sha1).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// Eval returns the EVAL command of one call.
func (s *Script) Eval(b rueidis.Builder, keys, args []string) rueidis.Completed {
	return b.Eval().Script(s.linked().source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// Files returns the .lua files as they are written, comments included, for tests and tools.
func Files() fs.FS { return files }
