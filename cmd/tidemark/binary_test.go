package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const maxBinaryBytes = 30 << 20

// TestTheLinkerDropsUnusedMethods builds the program with the tag and the flags of `make build`. If anything in it looks
// up methods by a name that is known only at run time, as text/template does, the linker keeps the methods of all types;
// those that build the commands of Redis alone have 10 MB.
func TestTheLinkerDropsUnusedMethods(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^BUILDFLAGS := .*-tags grpcnotrace$`, string(makefile))
	require.Contains(t, string(makefile), "go build $(BUILDFLAGS) -ldflags '-s -w ")

	binary := filepath.Join(t.TempDir(), "tidemark")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -dumpdep", "-o", binary, ".")
	graph, err := build.CombinedOutput() // a line for each edge from one symbol to another
	require.NoError(t, err, "%.4096s", graph)
	require.Contains(t, string(graph), "main.main")
	found := regexp.MustCompile(`\S+ <[^>\n]*ReflectMethod[^>\n]*>`).FindAllString(string(graph), -1)
	slices.Sort(found)
	require.Empty(t, slices.Compact(found), "these look up methods by name")

	info, err := os.Stat(binary)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxBinaryBytes))
}
