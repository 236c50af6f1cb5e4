package openapi

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypeScriptClient checks the types of typescript/session.ts, and runs it. scripts/check-openapi.sh installs its
// dependencies with npm, and omits the test if npm isn't installed.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	url := startService(t)
	for _, command := range [][]string{
		{"node_modules/.bin/openapi-typescript", "../" + document, "--output", "generated/api.d.ts"},
		{"node_modules/.bin/tsc", "--project", "."},
		{"node", "generated/session.js", url},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = "typescript"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v:\n%s", command, out)
	}
}
