// Package composed tests deploy/compose.yaml: the loader of Compose accepts it, each file that it mounts exists, and the
// service accepts its options. TIDEMARK_TEST_BINARY is the service.
package composed

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"../../../deploy/compose.yaml"}, cli.WithProfiles(profiles))
	require.NoError(t, err)
	project, err := o.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, []string{"redis", "tidemark"}, load(t).ServiceNames())
	require.ElementsMatch(t, []string{"redis", "tidemark", "prometheus", "alertmanager", "grafana"},
		load(t, "monitoring").ServiceNames())
	require.ElementsMatch(t, []string{"redis", "tidemark", "tidemark-cluster", "cluster", "cluster-1", "cluster-2",
		"cluster-3", "cluster-4", "cluster-5", "cluster-6"}, load(t, "cluster").ServiceNames())
}

// TestOpenMatch: the example's service may call one address, and is reached by its name.
func TestOpenMatch(t *testing.T) {
	t.Parallel()
	o, err := cli.NewProjectOptions([]string{"../../../examples/open-match/compose.yaml"})
	require.NoError(t, err)
	project, err := o.LoadProject(t.Context())
	require.NoError(t, err)
	function := project.Services["matchfunction"].Networks["default"].Ipv4Address
	options := project.Services["tidemark"].Environment
	require.Equal(t, "matchfunction:50502,"+function+":50502", *options["TIDEMARK_CALLOUT_ALLOW"])
	require.Equal(t, "tidemark", *options["TIDEMARK_ALLOW_HOSTS"])
	require.True(t, project.Networks["default"].Internal)
	for name, service := range project.Services {
		require.Empty(t, service.Ports, name)
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("TIDEMARK_TEST_BINARY")
	require.NotEmpty(t, binary, "scripts/deploy-check.sh sets TIDEMARK_TEST_BINARY")
	for name, service := range load(t, "cluster", "monitoring").Services {
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s: others could reach port %s", name, port.Published)
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind {
				_, err := os.Stat(volume.Source)
				require.NoError(t, err)
			}
		}
		if service.Image != "tidemark" {
			continue
		}
		require.Equal(t, "service", service.Build.Target)
		cmd := exec.CommandContext(t.Context(), binary, "health", "--timeout", "1s")
		cmd.Env = []string{"TIDEMARK_LISTEN=127.0.0.1:1"} // nothing answers there
		for key, value := range service.Environment {
			cmd.Env = append(cmd.Env, key+"="+*value)
		}
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), "the options are refused: %s", strings.TrimSpace(string(out)))
	}
}
