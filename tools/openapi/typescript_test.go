package openapi

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypeScriptClient checks the types of the programs in typescript, and runs them: docs/asyncapi.yaml is parsed, and
// clients generated and written by others use the service. scripts/check-openapi.sh installs their dependencies with
// npm, and omits the test if npm isn't installed.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	url := startService(t)
	for _, command := range [][]string{
		{"node_modules/.bin/openapi-typescript", "../" + document, "--output", "generated/api.d.ts"},
		{"node_modules/.bin/tsc", "--project", "."},
		{"node", "generated/asyncapi.js", "../../../docs/asyncapi.yaml"},
		{"node", "generated/session.js", url},
		{"node", "generated/socket.js", url},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = "typescript"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v:\n%s", command, out)
	}
}
