package composed

import (
	"os"
	"os/exec"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// TestBuildsWithBuildKitAlone: an engine builds the images with the BuildKit in it, and asks no registry for a frontend.
func TestBuildsWithBuildKitAlone(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../../Dockerfile", "../../../examples/open-match/Dockerfile"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		frontend, _, _, found := parser.DetectSyntax(text)
		require.False(t, found, "%s needs %s", file, frontend)
	}
	for _, arguments := range [][]string{{"image"}, {"image", "TARGET=managed"}} {
		//nolint:gosec // the arguments are those above
		command := exec.CommandContext(t.Context(), "make", append([]string{"-C", "../../..", "--dry-run"}, arguments...)...)
		out, err := command.Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "DOCKER_BUILDKIT=1 docker build ", "Docker before 23 doesn't use BuildKit by itself")
	}
}
