package redis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirstWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":                   "OOM",
		"max number of clients reached":                                             codeMaxClients,
		"WAIT cannot be used with replica instances.":                               codeReadOnly,
		"The user executing the script can't run this command or subcommand":        codeNoPermission,
		"ACL failure in script: User x has no permissions to run the 'set' command": codeNoPermission,
		"NOPERM User x has no permissions to run the 'set' command":                 codeNoPermission,
		"value is not an integer or out of range script: 1, on @user_script:1.":     "value",
	} {
		require.Equal(t, want, firstWord(text), text)
	}
}
