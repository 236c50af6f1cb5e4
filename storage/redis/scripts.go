package redis

import (
	"crypto/sha1" //nolint:gosec // it is what EVALSHA is called by
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua lua/include/*.lua
var luaFiles embed.FS

const includeMark = "-- include: "

// script is one operation's Lua. All of ours are safe to run twice.
type script struct {
	name   string
	source string
	sha1   string
	lua    *rueidis.Lua
}

// The operations.
var (
	publishScript     = mustScript("publish")
	subscribeScript   = mustScript("subscribe")
	openScript        = mustScript("open")
	unsubscribeScript = mustScript("unsubscribe")
	fetchScript       = mustScript("fetch")
	ackScript         = mustScript("ack")
	nextScript        = mustScript("next")
	describeScript    = mustScript("describe")

	createScript   = mustScript("create")
	findScript     = mustScript("find")
	ticketScript   = mustScript("ticket")
	undoScript     = mustScript("undo")
	cancelScript   = mustScript("cancel")
	renewScript    = mustScript("renew")
	claimScript    = mustScript("claim")
	assignScript   = mustScript("assign")
	releaseScript  = mustScript("release")
	takeoverScript = mustScript("takeover")
	sweepScript    = mustScript("sweep")
	leaseScript    = mustScript("lease")
	campaignScript = mustScript("campaign")
	resignScript   = mustScript("resign")
	snapshotScript = mustScript("snapshot")
	changesScript  = mustScript("changes")
	outgoingScript = mustScript("outgoing")
	defineScript   = mustScript("define")
	queueScript    = mustScript("queue")
)

func mustScript(name string) script {
	source, err := scriptSource(luaFiles, name)
	if err != nil {
		panic(err) // the files are part of the binary
	}
	sum := sha1.Sum([]byte(source)) //nolint:gosec // it is what EVALSHA is called by
	return script{name: name, source: source, sha1: hex.EncodeToString(sum[:]), lua: rueidis.NewLuaScript(source)}
}

// ScriptSource gives the text of an operation's script as Redis gets it, for tools that run it by themselves.
func ScriptSource(operation string) (string, error) { return scriptSource(luaFiles, operation) }

// scriptSource puts an operation together: its first line where that names the engine and flags, what it uses of the
// files that its include line names, and itself. Comments are left out, since Redis keeps the text of every script.
func scriptSource(files fs.FS, name string) (string, error) {
	body, err := fs.ReadFile(files, path.Join("lua", name+".lua"))
	if err != nil {
		return "", fmt.Errorf("script %s: %w", name, err)
	}
	text, shebang := string(body), ""
	if strings.HasPrefix(text, "#!") {
		line, rest, _ := strings.Cut(text, "\n")
		text, shebang = rest, line+"\n"
	}
	var library strings.Builder
	for _, include := range includes(text) {
		part, err := fs.ReadFile(files, path.Join("lua/include", include))
		if err != nil {
			return "", fmt.Errorf("script %s: %w", name, err)
		}
		library.WriteString(withoutComments(string(part)))
	}
	return shebang + link(library.String(), withoutComments(text)), nil
}

// definition is where something begins in a file that is included. All of it goes to the next one.
var definition = regexp.MustCompile(`(?m)^local (?:function )?(\w+)`)

// link puts those definitions of a library before a program that it uses, itself or through others. Redis makes every
// function of a script anew at each call, which takes longer than many a command.
func link(library, program string) string {
	starts := definition.FindAllStringSubmatchIndex(library, -1)
	for end := len(library); len(starts) > 0; starts = starts[:len(starts)-1] {
		at := starts[len(starts)-1]
		if uses(program, library[at[2]:at[3]]) {
			program = library[at[0]:end] + program
		}
		end = at[0]
	}
	return program
}

func uses(program, name string) bool {
	return regexp.MustCompile(`\b` + name + `\b`).MatchString(program)
}

func includes(text string) []string {
	for line := range strings.Lines(text) {
		if list, ok := strings.CutPrefix(line, includeMark); ok {
			return strings.Fields(list)
		}
	}
	return nil
}

// withoutComments gives a file without its comments.
func withoutComments(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "--") {
			out.WriteString(line)
		}
	}
	return out.String()
}
