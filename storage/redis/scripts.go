package redis

import (
	"crypto/sha1" //nolint:gosec // it is what EVALSHA is called by
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
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
	unsubscribeScript = mustScript("unsubscribe")
	fetchScript       = mustScript("fetch")
	ackScript         = mustScript("ack")
	nextScript        = mustScript("next")
	describeScript    = mustScript("describe")

	createScript   = mustScript("create")
	ticketScript   = mustScript("ticket")
	undoScript     = mustScript("undo")
	cancelScript   = mustScript("cancel")
	renewScript    = mustScript("renew")
	claimScript    = mustScript("claim")
	assignScript   = mustScript("assign")
	releaseScript  = mustScript("release")
	sweepScript    = mustScript("sweep")
	leaseScript    = mustScript("lease")
	resignScript   = mustScript("resign")
	snapshotScript = mustScript("snapshot")
	changesScript  = mustScript("changes")
	outgoingScript = mustScript("outgoing")
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

// scriptSource puts an operation together: its first line where that names the engine and flags, the files that
// its include line names, and itself. Comments are left out, since Redis keeps the text of every script.
func scriptSource(files fs.FS, name string) (string, error) {
	body, err := fs.ReadFile(files, path.Join("lua", name+".lua"))
	if err != nil {
		return "", fmt.Errorf("script %s: %w", name, err)
	}
	var out strings.Builder
	text := string(body)
	if strings.HasPrefix(text, "#!") {
		shebang, rest, _ := strings.Cut(text, "\n")
		out.WriteString(shebang + "\n")
		text = rest
	}
	for _, include := range includes(text) {
		part, err := fs.ReadFile(files, path.Join("lua/include", include))
		if err != nil {
			return "", fmt.Errorf("script %s: %w", name, err)
		}
		writeCode(&out, string(part))
	}
	writeCode(&out, text)
	return out.String(), nil
}

func includes(text string) []string {
	for line := range strings.Lines(text) {
		if list, ok := strings.CutPrefix(line, includeMark); ok {
			return strings.Fields(list)
		}
	}
	return nil
}

func writeCode(out *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "--") {
			out.WriteString(line)
		}
	}
}
