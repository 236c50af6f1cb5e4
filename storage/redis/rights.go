package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// rights are the commands that a user of Redis needs, as ACL rules name them, each with arguments with which it could be
// called. KEY and TOPIC stand for a key and a topic. Those without a call can't be part of a transaction, or make one:
// Ready needs ssubscribe and sunsubscribe.
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

// rightsCall returns the words of a call.
func (c *Conn) rightsCall(text string) []string {
	words := strings.Fields(text)
	topic := readyTopic(c.prefix, c.readiness.server)
	for i, w := range words {
		switch w {
		case "KEY":
			words[i] = readyKey(c.prefix, c.readiness.server)
		case "TOPIC":
			words[i] = topic
		}
	}
	return words
}

// lacking returns the ACL rules that the user of the connection lacks on a node. It changes nothing: Redis checks the
// rights for a command when it is added to a transaction, and this one ends with a malformed command, so that EXEC
// refuses all of them. The connection is closed at the end: with a context that ends before EXEC is sent it is still
// inside of the transaction.
func (c *Conn) lacking(ctx context.Context, node rueidis.Client) (rules []string, err error) {
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
				calls, called = append(calls, command(c.rightsCall(r.call)...)), append(called, r.rule)
			}
		}
		replies := client.DoMulti(ctx, append(calls, command("GET"), command("EXEC"))...)
		for i, reply := range replies[:len(calls)] {
			switch err := reply.Error(); {
			case err == nil:
			case ReplyLost(err):
				return err
			case refusal.Is(err, refusal.NoPermission):
				rules = append(rules, c.missingRule(called[i], err))
			case causeOf(err).NoCommand:
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
func (c *Conn) missingRule(command string, err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "channel"):
		return "&" + c.prefix + "*"
	case strings.Contains(text, "key"):
		return "~" + c.prefix + "*"
	}
	return "+" + command
}

// grant returns the command that gives a user rules.
func (c *Conn) grant(rules []string) string {
	return fmt.Sprintf("ACL SETUSER %s %s", c.adviser.User, strings.Join(rules, " "))
}
