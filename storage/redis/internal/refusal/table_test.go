package refusal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

// properties returns the code of a cause, what is true of it, and what clients are told.
func properties(c Cause) string {
	names := []string{c.Code}
	for _, p := range []struct {
		name string
		is   bool
	}{{"transient", c.Transient}, {"read-only", c.ReadOnly}, {"replica", c.Replica}, {"no command", c.NoCommand}} {
		if p.is {
			names = append(names, p.name)
		}
	}
	switch c.Fault {
	case nil:
		names = append(names, "internal")
	case Refused:
		names = append(names, "refused")
	case Unavailable:
		names = append(names, "unavailable")
	case fault.ErrDamaged:
		names = append(names, "damaged")
	default:
		names = append(names, string(c.Fault.Slug))
	}
	return strings.Join(names, ", ")
}

// TestTable: each reply of Redis, without the ERR that the client cuts off, has its properties and its advice, and each
// row of the table has a reply.
func TestTable(t *testing.T) {
	t.Parallel()
	a := Adviser{Option: "redis", User: "svc", Prefix: "mm1:", Sentinel: "primary"}
	found := map[int]bool{}
	for _, c := range []struct{ reply, properties, advice string }{
		{"MOVED 1 127.0.0.1:1", "MOVED, transient, unavailable", ""},
		{"ASK 1 127.0.0.1:1", "ASK, transient, unavailable", ""},
		{"TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN, transient, unavailable", ""},
		{"CLUSTERDOWN The cluster is down", "CLUSTERDOWN, transient, unavailable", "redis-cli --cluster check"},
		{"READONLY You can't write against a read only replica.",
			"READONLY, transient, read-only, replica, unavailable", "set --redis to its primary"},
		{"WAIT cannot be used with replica instances.", "READONLY, transient, read-only, replica, unavailable",
			"set --redis to its primary"},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
			"MASTERDOWN, transient, replica, unavailable", "set --redis to its primary"},
		{"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
			"UNBLOCKED, transient, unavailable", ""},
		{"NOREPLICAS Not enough good replicas to write.", "NOREPLICAS, transient, read-only, unavailable",
			"min-replicas-to-write"},
		{"LOADING Redis is loading the dataset in memory", "LOADING, transient, unavailable", "--redis-connect-timeout"},
		{"BUSY Redis is busy running a script.", "BUSY, transient, unavailable", ""},
		{"max number of clients reached", "MAXCLIENTS, transient, unavailable", "maxclients"},
		{"MISCONF Errors writing to the AOF file: No space left on device", "MISCONF, read-only, unavailable",
			"free disk space"},
		{"OOM command not allowed when used memory > 'maxmemory'.", "OOM, read-only, storage-full", "raise it, or store less"},
		{"NOAUTH Authentication required.", "NOAUTH, refused", "set --redis-username and --redis-password"},
		{"WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS, refused",
			`no enabled user "svc" with this password: check --redis-username`},
		{"NOPERM User svc has no permissions to run the 'set' command", "NOPERM, refused", "ACL SETUSER svc +set"},
		{"NOPERM No permissions to access a channel", "NOPERM, refused", "ACL SETUSER svc &mm1:*"},
		{"NOPERM No permissions to access a key", "NOPERM, refused", "ACL SETUSER svc ~mm1:*"},
		{"The user executing the script can't run this command or subcommand", "NOPERM, refused", "tidemark doctor"},
		{"ACL failure in script: User x has no permissions to run the 'set' command", "NOPERM, refused", "+set"},
		{"DENIED Redis is running in protected mode", "DENIED, refused", "protected-mode"},
		{"unknown command 'SENTINEL', with args beginning with: 'SENTINELS'", "unknown, no command, refused",
			"--redis has the addresses of Sentinels"},
		{"unknown command 'hget', with args beginning with: 'x'", "unknown, no command, refused", "rename-command"},
		{"Unknown Redis command called from script script: 1, on @user_script:1.", "Unknown, no command, refused",
			"rename-command"},
		{"Error running script (call to 1): @user_script:13: script tried accessing undeclared key, key: x",
			"Error, refused", "--default_lua_flags=allow-undeclared-keys"},
		{"bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array",
			"bad, refused", "script_check_enable 0"},
		{"Dynamic keys are not allowed in Lua scripts when 'allow-key-locking' flag is set. Key was: x",
			"Dynamic, refused", "or use another Redis"},
		{"This instance has cluster support disabled", "This, internal", "or --redis-sentinel-master"},
		{"SELECT is not allowed in cluster mode", "SELECT, internal", "remove the number from the URL of --redis"},
		{"DB index is out of range", "DB, internal", "change the number in the URL of --redis"},
		{"No such master with that name", "No, internal", `not "primary"`},
		{"DAMAGED clock", "DAMAGED, damaged", ""},

		{"No such key", "No, internal", ""},
		{"unknown option", "unknown, internal", ""},
		{"SELECT failed", "SELECT, internal", ""},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE, internal", ""},
		{"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT, internal", ""},
		{"value is not an integer or out of range script: 1, on @user_script:1.", "value, internal", ""},
		{"", ", internal", ""},
	} {
		cause := ofText(c.reply)
		require.Equal(t, c.properties, properties(cause), c.reply)
		advice := a.ofReply(c.reply)
		require.Contains(t, advice, c.advice, c.reply)
		require.Equal(t, c.advice == "", advice == "", "%s: %s", c.reply, advice)
		require.NotContains(t, advice, "{", c.reply)
		for i, row := range table {
			if row.advice == cause.advice && (row.Code == cause.Code || row.Code == "") {
				found[i] = true
			}
		}
	}
	require.Len(t, found, len(table), "each row has a reply")
	require.Contains(t, Adviser{Option: "tickets-redis"}.ofReply("NOAUTH Authentication required."),
		"set the user and the password in the URL of --tickets-redis")
}

// What isn't a reply of Redis has no cause.
func TestNoReply(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, context.Canceled, fmt.Errorf("READONLY: %w", fault.ErrUnavailable)} {
		_, ok := Of(err)
		require.False(t, ok, err)
		require.False(t, Is(err, ReadOnly), err)
	}
}

// An error that repeats a command doesn't show the password in it.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	a := Adviser{Option: "redis", Secrets: []string{"", "s3cret"}}
	failed := errors.New("unexpected HELLO 3 AUTH default s3cret")
	err := a.Explain(failed)
	require.ErrorIs(t, err, failed)
	require.NotContains(t, err.Error(), "s3cret")
	require.NoError(t, a.Explain(nil))
}
