package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/console"
)

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

	sources, err := filepath.Glob("../clients/typescript/src/*.ts")
	require.NoError(t, err)
	var all []byte
	for _, name := range sources {
		if filepath.Base(name) != "api.ts" { // generated, of types only
			all = append(all, read(t, name)...)
		}
	}
	require.Equal(t, hash(all), built.Client, "lib/tidemark.js is not built from the client as it is: %s", rebuild)
}

// firstView is at most how many bytes a browser loads for the first view, compressed.
const firstView = 120 << 10

// TestSize loads the page and all modules, and so more than a browser needs for the first view.
func TestSize(t *testing.T) {
	t.Parallel()
	size := 0
	for name, file := range console.Files() {
		require.NotEmpty(t, file.MediaType, name)
		if name != "lib/LICENSES.txt" {
			size += len(file.Gzip)
		}
	}
	require.LessOrEqual(t, size, firstView)
}

// TestReferences checks that the files that the page and its modules name exist, and that nothing is inline.
func TestReferences(t *testing.T) {
	t.Parallel()
	files := console.Files()
	index := string(files[console.Index].Plain)
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(index, -1) {
		require.Contains(t, files, strings.TrimPrefix(m[1], "/console/assets/"))
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
