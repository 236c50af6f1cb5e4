package diagnose

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// rights are the commands that a user of Redis needs, as ACL rules name them, each with arguments with which it could
// be called. KEY and TOPIC stand for a key and a topic. Those without a call can't be part of a transaction, or make
// one: Ready needs ssubscribe and sunsubscribe.
var rights = []struct{ rule, call string }{
	{"info", "INFO"}, {"config|get", "CONFIG GET save"},
	{"cluster|shards", "CLUSTER SHARDS"}, {"cluster|slots", "CLUSTER SLOTS"},
	{"eval", "EVAL return 0"}, {"evalsha", "EVALSHA 0 0"},
	{"get", "GET KEY"}, {"getrange", "GETRANGE KEY 0 0"}, {"strlen", "STRLEN KEY"}, {"mget", "MGET KEY"},
	{"set", "SET KEY 0"}, {"del", "DEL KEY"}, {"exists", "EXISTS KEY"},
	{"pttl", "PTTL KEY"}, {"pexpire", "PEXPIRE KEY 1"}, {"pexpireat", "PEXPIREAT KEY 1"},
	{"pexpiretime", "PEXPIRETIME KEY"},
	{"sadd", "SADD KEY 0"}, {"srem", "SREM KEY 0"}, {"scard", "SCARD KEY"}, {"sismember", "SISMEMBER KEY 0"},
	{"smembers", "SMEMBERS KEY"},
	{"rename", "RENAME KEY KEY"}, {"spop", "SPOP KEY"}, {"srandmember", "SRANDMEMBER KEY"}, {"sscan", "SSCAN KEY 0"},
	{"time", "TIME"}, {"spublish", "SPUBLISH TOPIC 0"}, {"ssubscribe", ""}, {"sunsubscribe", ""},
	{"wait", "WAIT 0 1"},
	{"setrange", "SETRANGE KEY 0 0"},
	{"hset", "HSET KEY 0 0"}, {"hmget", "HMGET KEY 0"}, {"hgetall", "HGETALL KEY"}, {"hdel", "HDEL KEY 0"},
	{"hincrby", "HINCRBY KEY 0 1"}, {"hexists", "HEXISTS KEY 0"}, {"hlen", "HLEN KEY"},
	{"xadd", "XADD KEY * 0 0"}, {"xlen", "XLEN KEY"}, {"xrange", "XRANGE KEY - +"},
	{"xrevrange", "XREVRANGE KEY + -"}, {"xdel", "XDEL KEY 0-1"}, {"xtrim", "XTRIM KEY MAXLEN 0"},
	{"xinfo|stream", "XINFO STREAM KEY"}, {"xsetid", "XSETID KEY 0-1"},
	{"zadd", "ZADD KEY 0 0"}, {"zrem", "ZREM KEY 0"}, {"smismember", "SMISMEMBER KEY 0"}, {"zscore", "ZSCORE KEY 0"},
	{"zmscore", "ZMSCORE KEY 0"}, {"zscan", "ZSCAN KEY 0"}, {"zcard", "ZCARD KEY"}, {"zcount", "ZCOUNT KEY 0 0"},
	{"zrange", "ZRANGE KEY 0 0"},
	{"hget", "HGET KEY 0"}, {"hscan", "HSCAN KEY 0"}, {"hvals", "HVALS KEY"},
	{"eval_ro", "EVAL_RO return 0"}, {"evalsha_ro", "EVALSHA_RO 0 0"},
	{"multi", ""}, {"exec", ""},
}

// Rights returns the ACL rules with which a user of Redis has exactly the rights that the service needs, for keys and
// topics with a prefix.
func Rights(prefix string) []string {
	rules := []string{"~" + prefix + "*", "&" + prefix + "*", "-@all", "+@connection"}
	for _, r := range rights {
		rules = append(rules, "+"+r.rule)
	}
	return rules
}

// wordsOf returns the words of a call. Its key and topic have the prefix; no call is run.
func wordsOf(call, prefix string) []string {
	words := strings.Fields(call)
	for i, w := range words {
		if w == "KEY" || w == "TOPIC" {
			words[i] = prefix + "tidemark.rights"
		}
	}
	return words
}

// missingRights returns the ACL rules that the user of a connection lacks on a node. It changes nothing: Redis checks
// the rights for a command when it is added to a transaction, and this one ends with a malformed command, so that EXEC
// refuses all of them. The connection is closed at the end: with a context that ends before EXEC is sent it is still
// inside of the transaction.
func missingRights(ctx context.Context, prefix string, node rueidis.Client) (rules []string, err error) {
	err = node.Dedicated(func(client rueidis.DedicatedClient) error {
		defer client.Close()
		command := func(words ...string) rueidis.Completed { return client.B().Arbitrary(words...).Build() }
		if err := client.Do(ctx, command("MULTI")).Error(); err != nil {
			return err // without it the commands would run
		}
		var calls rueidis.Commands
		var called []string
		for _, r := range rights {
			if r.call != "" {
				calls, called = append(calls, command(wordsOf(r.call, prefix)...)), append(called, r.rule)
			}
		}
		replies := client.DoMulti(ctx, append(calls, command("GET"), command("EXEC"))...)
		for i, reply := range replies[:len(calls)] {
			err := reply.Error()
			cause, _ := refusal.Of(err)
			switch {
			case err == nil:
			case redis.ReplyLost(err):
				return err
			case cause.Code == refusal.NoPermission:
				rules = append(rules, missingRule(called[i], prefix, err))
			case cause.NoCommand:
				rules = append(rules, "the command "+called[i]+", which this Redis doesn't have, or has renamed")
			}
		}
		if refusal.Is(replies[len(calls)+1].Error(), refusal.NoPermission) {
			rules = append(rules, "+exec")
		}
		return nil
	})
	if refusal.Is(err, refusal.NoPermission) {
		return []string{"+multi, without which others can't be looked for"}, nil
	}
	slices.Sort(rules)
	return slices.Compact(rules), err
}

// missingRule returns the rule for which a call of a command is refused.
func missingRule(command, prefix string, err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "channel"):
		return "&" + prefix + "*"
	case strings.Contains(text, "key"):
		return "~" + prefix + "*"
	}
	return "+" + command
}
