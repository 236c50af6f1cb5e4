package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// An Ability is something that the service can do with a Redis that has some commands, and lets its user run them.
type Ability string

// Abilities. The service needs the first ones, and does without the others.
const (
	Scripts       Ability = "scripts"
	Notifications Ability = "notifications"
	Channels      Ability = "channels"
	Nodes         Ability = "nodes of a Cluster"
	State         Ability = "state of the server"
	Keys          Ability = "API keys"
	Matchmaking   Ability = "matchmaking"
	Records       Ability = "records"
	ReadTier      Ability = "read tier"
	Durability    Ability = "durability"
	Confirmations Ability = "confirmations"
	ReplicaReads  Ability = "reads from replicas"
	ClientCaching Ability = "client-side caching"
)

// use is the commands of an ability, as ACL rules name them, and what doesn't work without them.
type use struct {
	ability Ability
	without string // empty: the service doesn't work
	rules   string
}

var uses = []use{
	{Scripts, "", "eval evalsha time"},
	{Notifications, "", "spublish ssubscribe sunsubscribe"},
	{Channels, "", "get getrange mget set del exists strlen pttl pexpire pexpireat pexpiretime " +
		"sadd srem scard spop srandmember sscan hset hdel hmget hgetall hlen"},
	{State, "", "info"},
	{Nodes, "", "cluster|shards cluster|slots"},
	{Keys, "API keys made at run time, revocations and quotas don't work",
		"get set pexpire pexpireat pexpiretime hget hset hdel hexists hlen hscan xadd xrange xrevrange zadd zrange zrem"},
	{Matchmaking, "matchmaking doesn't work", "get getrange mget set setrange del exists pexpire pexpireat pexpiretime " +
		"sadd srem hset hmget hgetall hdel hexists hincrby hlen xadd xdel xtrim xlen xrange xrevrange xsetid xinfo|stream " +
		"zadd zrem zrange zcount zscore zmscore"},
	{Records, "records don't work", "get getrange set del exists pttl pexpire pexpireat pexpiretime rename sadd srem " +
		"scard sismember smismember smembers srandmember hget hset hmget hgetall hdel hlen zadd zrem zrange zcard zscore " +
		"zmscore zscan"},
	{ReadTier, "the read tier doesn't work", "del sadd srem scard sismember smembers hget hset hmget hgetall hdel " +
		"hexists hincrby hvals"},
	{Durability, "how Redis writes to disk isn't known", "config|get"},
	{Confirmations, "channel-replicas and ticket-replicas can't be used", "wait"},
	{ReplicaReads, "tickets-read-replicas can't be used", "eval_ro evalsha_ro"},
	{ClientCaching, "Redis is asked for each read of a cached value, and for each request with a session", "multi exec"},
}

// calls are arguments with which a command could be called. KEY and TOPIC stand for a key and a topic. Those without
// arguments here can't be part of a transaction, or make one: Ready needs ssubscribe and sunsubscribe.
var calls = map[string]string{
	"eval": "return 0", "evalsha": "0 0", "time": " ", "spublish": "TOPIC 0", "info": " ", "config|get": "save",
	"cluster|shards": " ", "cluster|slots": " ", "wait": "0 1", "eval_ro": "return 0", "evalsha_ro": "0 0",
	"get": "KEY", "getrange": "KEY 0 0", "mget": "KEY", "set": "KEY 0", "setrange": "KEY 0 0", "strlen": "KEY",
	"del": "KEY", "exists": "KEY", "rename": "KEY KEY",
	"pttl": "KEY", "pexpire": "KEY 1", "pexpireat": "KEY 1", "pexpiretime": "KEY",
	"sadd": "KEY 0", "srem": "KEY 0", "scard": "KEY", "sismember": "KEY 0", "smismember": "KEY 0", "smembers": "KEY",
	"spop": "KEY", "srandmember": "KEY", "sscan": "KEY 0",
	"hset": "KEY 0 0", "hget": "KEY 0", "hmget": "KEY 0", "hgetall": "KEY", "hdel": "KEY 0", "hincrby": "KEY 0 1",
	"hexists": "KEY 0", "hlen": "KEY", "hscan": "KEY 0", "hvals": "KEY",
	"xadd": "KEY * 0 0", "xlen": "KEY", "xrange": "KEY - +", "xrevrange": "KEY + -", "xdel": "KEY 0-1",
	"xtrim": "KEY MAXLEN 0", "xinfo|stream": "KEY", "xsetid": "KEY 0-1",
	"zadd": "KEY 0 0", "zrem": "KEY 0", "zscore": "KEY 0", "zmscore": "KEY 0", "zscan": "KEY 0", "zcard": "KEY",
	"zcount": "KEY 0 0", "zrange": "KEY 0 0",
}

// Rights returns the ACL rules with which a user of Redis has exactly the rights that all abilities need, for keys and
// topics with a prefix.
func Rights(prefix string) []string {
	rules := []string{"~" + prefix + "*", "&" + prefix + "*", "-@all", "+@connection"}
	for _, rule := range allRules() {
		rules = append(rules, "+"+rule)
	}
	return rules
}

// allRules returns each rule once, in the order of uses.
func allRules() (rules []string) {
	for _, u := range uses {
		for _, rule := range strings.Fields(u.rules) {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// Lack is an ability that the service hasn't got on a primary.
type Lack struct {
	Ability  Ability
	Needed   bool     // the service doesn't work without it
	Without  string   // what doesn't work
	Rules    []string // ACL rules that the user lacks
	Commands []string // that this Redis hasn't got, in upper case
}

// Describe returns what a primary, or its user, lacks, and what doesn't work therefore.
func Describe(lacks []Lack) string {
	var rights, commands, results []string
	for _, l := range lacks {
		rights, commands, results = append(rights, l.Rules...), append(commands, l.Commands...), append(results, l.Without)
	}
	var causes []string
	if len(rights) > 0 {
		causes = append(causes, "the user lacks the rights "+strings.Join(distinct(rights), " "))
	}
	if len(commands) > 0 {
		causes = append(causes, "Redis has no "+strings.Join(distinct(commands), ", "))
	}
	return strings.Join(causes, ", and ") + ": " + strings.Join(distinct(results), "; ")
}

// distinct returns each text once, in the order of the first.
func distinct(texts []string) (each []string) {
	for _, text := range texts {
		if !slices.Contains(each, text) {
			each = append(each, text)
		}
	}
	return each
}

// page names the page about hosted services and other servers.
const page = "docs/which-redis.md lists services that work"

// Remedy returns what to change so that a user of Redis doesn't lack any of these.
func Remedy(user string, lacks []Lack) string {
	var remedies []string
	if command := grant(user, lacks); command != "" {
		remedies = append(remedies, "run in Redis as an administrator: "+command)
	}
	if slices.ContainsFunc(lacks, func(l Lack) bool { return len(l.Commands) > 0 }) {
		remedies = append(remedies,
			"remove rename-command from Redis's configuration, or use a Redis that has the command: "+page)
	}
	return strings.Join(remedies, "; ")
}

// grant returns the command that gives a user its missing rights, or "" if none is missing.
func grant(user string, lacks []Lack) string {
	var rules []string
	for _, l := range lacks {
		rules = append(rules, l.Rules...)
	}
	if len(rules) == 0 {
		return ""
	}
	return fmt.Sprintf("ACL SETUSER %s %s", user, strings.Join(distinct(rules), " "))
}

const notWorking = "the service doesn't work"

// lacksOf returns the abilities that need what is missing. Keys and topics that a user may not use are a lack of
// scripts.
func lacksOf(missing missing, cluster bool) (lacks []Lack) {
	for _, u := range uses {
		l := Lack{Ability: u.ability, Needed: u.without == "", Without: cmp.Or(u.without, notWorking)}
		for _, rule := range strings.Fields(u.rules) {
			if missing.rights[rule] {
				l.Rules = append(l.Rules, "+"+rule)
			}
			if missing.commands[rule] {
				l.Commands = append(l.Commands, strings.ToUpper(strings.ReplaceAll(rule, "|", " ")))
			}
		}
		if u.ability == Scripts {
			l.Rules = append(l.Rules, distinct(missing.patterns)...)
		}
		if used := u.ability != Nodes || cluster; used && len(l.Rules)+len(l.Commands) > 0 {
			lacks = append(lacks, l)
		}
	}
	return lacks
}

// Check returns the abilities that the first primary lacks which answers, and uses what all scripts rest on. It is for
// the start of a service: the error is that of a Redis on which it can never work. A Redis that doesn't answer now, or
// refuses writes for a while, is none.
func Check(ctx context.Context, c *redis.Conn) (lacks []Lack, err error) {
	nodes, _ := topology.Reachable(ctx, c.Client(), c.Timeout()/2)
	for _, n := range nodes {
		found, err := findLacks(ctx, c, n)
		if err == nil {
			lacks = found
			break
		}
	}
	err = c.Ready(ctx)
	if cause, refused := refusal.Of(err); !refused || cause.Transient || cause.ReadOnly {
		return lacks, nil
	}
	return lacks, err
}
