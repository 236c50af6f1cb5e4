package diagnose

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// SlowLog is the slow log of a primary, or the latest part of it.
type SlowLog struct {
	Address string
	Calls   []SlowCall // the latest first
	Err     error      // why it couldn't be read
	Remedy  string     // what to change so that it can be read; empty: that isn't known
}

// SlowCall is a call that took a primary longer than its slowlog-log-slower-than. It has no contents: of the arguments
// only the keys of the service, and the name of its script.
type SlowCall struct {
	At      time.Time // by the clock of Redis
	Took    time.Duration
	Command string   // in upper case
	Script  string   // of EVALSHA, such as channels/publish; empty: it isn't one of the service's
	Keys    []string // that the call names, slowKeys at most
	Client  string   // its address and, after a space, the name that it gave itself; empty: a script made the call
}

const (
	slowKeys = 8
	scripted = "?:0" // the address of calls that a script makes
	// slowLogRight is the ACL rule for reading slow logs, which nothing else needs.
	slowLogRight = "+slowlog|get"
)

// SlowLogs reads the latest calls of the slow log of each primary that answers. Errors: ErrUnavailable.
func SlowLogs(ctx context.Context, c *redis.Conn, limit int) ([]SlowLog, error) {
	nodes, err := topology.Reachable(ctx, c.Client(), c.Timeout()/2)
	if err != nil {
		return nil, c.Failure(ctx, "read slow logs", err)
	}
	logs := make([]SlowLog, len(nodes))
	var reading sync.WaitGroup
	for i, n := range nodes {
		reading.Go(func() { logs[i] = readSlowLog(ctx, c, n, limit) })
	}
	reading.Wait()
	return logs, nil
}

func readSlowLog(ctx context.Context, c *redis.Conn, n topology.Node, limit int) SlowLog {
	found := SlowLog{Address: n.Address}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout()/2)
	defer cancel()
	entries, err := n.Client.Do(ctx, n.Client.B().SlowlogGet().Count(int64(limit)).Build()).ToArray()
	for i := 0; i < len(entries) && err == nil; i++ {
		var call SlowCall
		if call, err = parseSlowCall(entries[i], c.Prefix()); err == nil {
			found.Calls = append(found.Calls, call)
		}
	}
	found.Err = c.Explain(err)
	switch cause, _ := refusal.Of(err); {
	case cause.Code == refusal.NoPermission:
		found.Remedy = Remedy(c.User(), []Lack{{Rules: []string{slowLogRight}}})
	case cause.NoCommand:
		found.Remedy = "this Redis has no SLOWLOG, or has renamed it: see its slow log in the console of the service that " +
			"hosts it"
	}
	return found
}

var errSlowLog = errors.New("an entry of the slow log can't be read")

// parseSlowCall parses an entry: its number, its second, its microseconds, the first arguments, and the client.
func parseSlowCall(entry rueidis.RedisMessage, prefix string) (SlowCall, error) {
	parts, err := entry.ToArray()
	if err != nil || len(parts) < 6 {
		return SlowCall{}, errSlowLog
	}
	second, err1 := parts[1].AsInt64()
	took, err2 := parts[2].AsInt64()
	words, err3 := parts[3].AsStrSlice()
	address, err4 := parts[4].ToString()
	name, err5 := parts[5].ToString()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || len(words) == 0 {
		return SlowCall{}, errSlowLog
	}
	call := SlowCall{At: time.Unix(second, 0), Took: time.Duration(took) * time.Microsecond,
		Command: strings.ToUpper(words[0]), Client: strings.TrimSpace(address + " " + name)}
	if address == scripted {
		call.Client = ""
	}
	call.Script, call.Keys = argumentsShown(words, prefix)
	return call, nil
}

// argumentsShown returns the name of the service's script that a call runs, and its keys that have the prefix.
func argumentsShown(words []string, prefix string) (script string, keys []string) {
	command := strings.ToLower(words[0])
	switch {
	case strings.HasPrefix(command, "eval") && len(words) > 2:
		script = lua.NameOf(words[1])
		if n, err := strconv.Atoi(words[2]); err == nil && n > 0 {
			keys = words[3:min(len(words), 3+n)]
		}
	case command == "mget":
		keys = words[1:]
	case strings.HasPrefix(calls[command], "KEY") && len(words) > 1:
		keys = words[1:2]
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, prefix) })
	return script, keys[:min(len(keys), slowKeys)]
}
