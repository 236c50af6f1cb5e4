package redis

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// errorReplies are the errors that Redis 7 and Valkey answer with: the shared ones of server.c, those with a text made
// for the call, and one that neither has.
var errorReplies = []string{
	"ERR", "ERR syntax error", "ERR no such key", "ERR value is not an integer or out of range",
	"ERR source and destination objects are the same", "ERR index out of range", "ERR unknown command 'X', with args beginning with: ",
	"ERR wrong number of arguments for 'x' command", "ERR max number of clients reached", "ERR DB index is out of range",
	"ERR Protocol error: invalid bulk length", "ERR This instance has cluster support disabled",
	"ERR The user executing the script can't run this command or subcommand", "ERR user_script:1: x script: 0, on @user_script:1.",
	"ERR command not allowed when used memory > 'maxmemory'.", "ERR Can't execute 'ping': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
	"WRONGTYPE Operation against a key holding the wrong kind of value",
	"NOSCRIPT No matching script. Please use EVAL.",
	"LOADING Redis is loading the dataset in memory", "LOADING Valkey is loading the dataset in memory",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
	"BUSY Redis is busy running a module command.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"MISCONF Errors writing to the AOF file: No space left on device",
	"READONLY You can't write against a read only replica.",
	"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"EXECABORT Transaction discarded because of previous errors.",
	"NOREPLICAS Not enough good replicas to write.",
	"BUSYKEY Target key name already exists.", "BUSYGROUP Consumer Group name already exists",
	"NOGROUP No such key 'x' or consumer group 'y'", "NOPROTO unsupported protocol version",
	"NOPERM User default has no permissions to run the 'ping' command", "NOPERM No permissions to access a channel",
	"MOVED 1 127.0.0.1:1", "MOVED 1 :1", "MOVED x", "MOVED", "ASK 1 127.0.0.1:1", "ASK", "TRYAGAIN Multiple keys request during rehashing of slot",
	"CLUSTERDOWN The cluster is down", "CLUSTERDOWN Hash slot not served", "CROSSSLOT Keys in request don't hash to the same slot",
	"REDIRECT 127.0.0.1:1", "REDIRECT", "UNBLOCKED client unblocked via CLIENT UNBLOCK", "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
	"NOMASTERLINK Can't SYNC while not connected with my master", "NOTBUSY No scripts in execution right now.",
	"UNKILLABLE Sorry the script already executed write commands against the dataset.",
	"NOTREADY not yet", "INPROG Failover already in progress", "NOGOODSLAVE No suitable replica to promote", "NOQUORUM Not enough Sentinels",
	"DENIED Redis is running in protected mode", "IOERR error or timeout reading to target instance", "CANTINIT x",
	"NEVERHEARD of such an error", "lower case",
}

// walk is a store behind a proxy, and all that is done on it.
type walk struct {
	*Store
	proxy *redistest.Proxy
	all   []call
}

func newWalk(t *testing.T) walk {
	t.Helper()
	n := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, n)
	s := openAt(t, Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: 200 * time.Millisecond})
	lore{messages: 3}.make(t, s, n.Client(), "x")
	h := newHall(t, s, n.Client())
	h.prepare(t)
	replicated := one("x", "r1")
	replicated.Policy.Replicas = 1
	all := append(calls(t, s, "x"), h.queueCalls()...)
	all = append(all, call{"publish replicated", func(ctx context.Context) error { return second(s.Publish(ctx, replicated)) }})
	return walk{Store: s, proxy: proxy, all: all}
}

// failing lets the proxy replace the replies to some commands, or to all where none is named.
func (w walk) failing(text string, commands ...string) {
	w.proxy.Fail(func(command []string) string {
		if len(commands) == 0 || slices.Contains(commands, command[0]) {
			return text
		}
		return ""
	})
}

// TestNoReplyIsFatal walks all errors that Redis answers with through all operations and subscriptions: none is taken
// for success, none ends the process or hangs a call past its deadline, and all goes on afterwards.
func TestNoReplyIsFatal(t *testing.T) {
	t.Parallel()
	for _, text := range errorReplies {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := newWalk(t)
			l := listen(t, w.Store, "x")
			require.NoError(t, w.Ready(t.Context()))

			w.failing(text)
			w.requireRefused(t)
			w.proxy.Cut() // so that HELLO is answered with it too
			w.requireRefused(t)
			w.proxy.Fail(nil)
			w.requireListening(t, l, "a1")

			// What is left of subscriptions ends here, with errors in place of their confirmations and of PING.
			w.failing(text, "SSUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "PING", "DISCARD")
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				require.NoError(t, w.Listen(ctx, "y", func(channel.Event) {}))
				cancel()
			}
			require.Error(t, w.Ready(t.Context()))
			l.requirePublished(t, w.Store, "x", "a2")
			w.proxy.Cut()
			require.Error(t, w.Ready(t.Context()))
			w.proxy.Fail(nil)
			w.requireListening(t, l, "a3")
		})
	}
}

// requireRefused expects every call to fail, long before a deadline that none should need.
func (w walk) requireRefused(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	requireEach(ctx, t, w.all, func(t testing.TB, err error, about ...any) {
		t.Helper()
		require.Error(t, err, about...)
	})
	require.NoError(t, ctx.Err())
}

// requireListening expects a listener to hear again.
func (w walk) requireListening(t *testing.T, l *listener, id string) {
	t.Helper()
	waitFor(t, "Redis to be ready", func() bool { return w.Ready(t.Context()) == nil })
	l.await(t, channel.EventConfirmed)
	l.requirePublished(t, w.Store, "x", id)
}
