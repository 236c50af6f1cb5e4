package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/console"
)

// TestDepthOfPages: the service has pages as deep as the console's own ones, and no deeper.
func TestDepthOfPages(t *testing.T) {
	t.Parallel()
	deepest := 0
	for _, page := range regexp.MustCompile(`\{ path: "(.*?)"`).FindAllStringSubmatch(string(read(t, "web/app.js")), -1) {
		deepest = max(deepest, strings.Count(page[1], "/"))
	}
	page, ok := console.Page(deepest)
	require.True(t, ok)
	require.Contains(t, string(page.Plain), `="`+strings.Repeat("../", deepest)+`assets/app.js"`)
	_, ok = console.Page(deepest + 1)
	require.False(t, ok)
}

const rebuild = "run scripts/console-modules.sh"

// TestModulesAreRecorded compares the modules of others with the record of what they are made of.
func TestModulesAreRecorded(t *testing.T) {
	t.Parallel()
	var built struct {
		Client string // hash of the sources of clients/typescript
		Files  map[string]struct {
			SHA256   string
			Packages []struct{ Name, Version, License, Integrity string }
		}
	}
	decode(t, "npm/built.json", &built)
	var locked struct {
		Packages map[string]struct{ Version, License, Integrity string }
	}
	decode(t, "npm/package-lock.json", &locked)
	licences := string(read(t, "web/lib/LICENSES.txt"))
	recorded := 0
	for name, file := range built.Files {
		require.Equal(t, hash(read(t, "web/lib/"+name)), file.SHA256, "%s: %s", name, rebuild)
		for _, of := range file.Packages {
			require.Equal(t, of.Version, locked.Packages["node_modules/"+of.Name].Version, "%s: %s", of.Name, rebuild)
			require.Equal(t, of.Integrity, locked.Packages["node_modules/"+of.Name].Integrity, "%s: %s", of.Name, rebuild)
			require.Contains(t, []string{"MIT", "Apache-2.0"}, of.License)
			require.Contains(t, licences, of.Name+" "+of.Version+" ("+of.License+")")
			recorded++
		}
	}
	require.Equal(t, recorded, len(locked.Packages)-1, "all packages but the one that asks for them are recorded")
	entries, err := os.ReadDir("web/lib")
	require.NoError(t, err)
	require.Len(t, entries, len(built.Files)+1, "and LICENSES.txt")

	sources, err := filepath.Glob("../../clients/typescript/src/*.ts")
	require.NoError(t, err)
	var all []byte
	for _, name := range sources {
		if filepath.Base(name) != "api.ts" { // generated, of types only
			all = append(all, read(t, name)...)
		}
	}
	require.Equal(t, hash(all), built.Client, "lib/tidemark.js is not built from the client as it is: %s", rebuild)
}

// firstView is at most how many bytes of files a browser loads for the first view of a page, compressed. Answers are
// beside it: at most an hour of history, which is 30 KB. TestConsoleSize in tools/e2e measures all of it.
const firstView = 90_000

// TestSize adds up the files that each page needs: those that the page names, and what its modules import.
func TestSize(t *testing.T) {
	t.Parallel()
	files := console.Files()
	imports := regexp.MustCompile(`(?m)from "\./([^"]*)"`)
	var add func(to map[string]bool, name string)
	add = func(to map[string]bool, name string) {
		if to[name] {
			return
		}
		require.NotEmpty(t, files[name].MediaType, name)
		to[name] = true
		for _, m := range imports.FindAllStringSubmatch(string(files[name].Plain), -1) {
			add(to, path.Join(path.Dir(name), m[1]))
		}
	}
	frame := map[string]bool{console.Index: true}
	named := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, m := range named.FindAllStringSubmatch(string(files[console.Index].Plain), -1) {
		add(frame, strings.TrimPrefix(m[1], "assets/"))
	}
	pages := regexp.MustCompile(`import\("\./([^"]*)"\)`).FindAllStringSubmatch(string(files["app.js"].Plain), -1)
	require.Greater(t, len(pages), 6)
	for _, page := range pages {
		view, size := maps.Clone(frame), 0
		add(view, page[1])
		for name := range view {
			size += len(files[name].Gzip)
		}
		t.Logf("%s: %d bytes", page[1], size)
		require.LessOrEqual(t, size, firstView, page[1])
	}
}

// TestReferences checks that the files that the page and its modules name exist, and that nothing is inline.
func TestReferences(t *testing.T) {
	t.Parallel()
	files := console.Files()
	index := string(files[console.Index].Plain)
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(index, -1) {
		require.Contains(t, files, strings.TrimPrefix(m[1], "assets/"))
	}
	require.NotRegexp(t, `<style|<script[^>]*>[^<]|\son\w+=|\sstyle=`, index)
	imports := regexp.MustCompile(`(?:from |import\()"([^"]*)"`)
	for name, file := range files {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, "lib/") {
			continue
		}
		for _, m := range imports.FindAllStringSubmatch(string(file.Plain), -1) {
			require.Contains(t, files, strings.TrimPrefix(m[1], "./"), name)
		}
		require.NotRegexp(t, `innerHTML|insertAdjacentHTML|\beval\(`, string(file.Plain), name)
	}
}

// TestCallsAreDocumented finds each call of the API in the modules, and its path and method in docs/openapi.yaml, so that
// scripts can do what the page does. server.TestRoutesMatchTheContract compares that file with the routes.
func TestCallsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../../docs/openapi.yaml")
	require.NoError(t, err)
	documented := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "{}")] = true
		}
	}
	call := regexp.MustCompile(`\b(ask|askAbout|useAsked|usePages)\(`)
	found := 0
	for name, file := range console.Files() {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, "lib/") || name == "service.js" {
			continue
		}
		text := string(file.Plain)
		for _, at := range call.FindAllStringSubmatchIndex(text, -1) {
			arguments := parts(text[at[1]:])
			begin := strings.IndexByte(arguments[0], '[')
			require.NotEqual(t, -1, begin, "%s: a call without a path: %s", name, arguments[0])
			method := "GET"
			if text[at[2]:at[3]] == "askAbout" {
				method = "POST"
			} else if m := regexp.MustCompile(`method: "(\w+)"`).FindStringSubmatch(strings.Join(arguments[1:], ",")); m != nil {
				method = m[1]
			}
			for _, path := range pathsOf(parts(arguments[0][begin+1:])) {
				require.True(t, documented[method+" /v1"+path], "%s: %s /v1%s", name, method, path)
				found++
			}
		}
	}
	require.Greater(t, found, 40)
}

// parts returns what commas separate, up to the end of a list or of a call.
func parts(text string) (all []string) {
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '`':
			i += 1 + strings.IndexByte(text[i+1:], c)
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth == 0 {
				return append(all, text[from:i])
			}
			depth--
		case ',':
			if depth == 0 {
				all, from = append(all, text[from:i]), i+1
			}
		}
	}
	return all
}

// pathsOf returns the paths that segments in JavaScript can mean, with {} in place of a person's input.
func pathsOf(segments []string) []string {
	all := []string{""}
	for _, segment := range segments {
		values := []string{"/{}"}
		if strings.Contains(segment, "...") { // a further segment, or none
			values = append(values, "")
		} else if literals := regexp.MustCompile(`(?:^|[?:] )"([^"]*)"`).FindAllStringSubmatch(strings.TrimSpace(segment),
			-1); literals != nil {
			values = nil
			for _, l := range literals {
				values = append(values, "/"+l[1])
			}
		}
		var longer []string
		for _, path := range all {
			for _, value := range values {
				longer = append(longer, path+value)
			}
		}
		all = longer
	}
	return all
}

func decode(t *testing.T, name string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(read(t, name), into))
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return text
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
