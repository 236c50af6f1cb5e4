package diagnose

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// patternRefused is part of the reply to a call with a key or a topic that the user may not use.
const patternRefused = "permissions to access "

// missing is the rights and the commands that a user of Redis lacks on a node, by the rules of uses.
type missing struct {
	rights   map[string]bool
	commands map[string]bool // that the node hasn't got
	patterns []string        // ACL rules for the keys and topics with the prefix
}

// findLacks returns the abilities that a primary, or the user of the connection, lacks.
func findLacks(ctx context.Context, c *redis.Conn, n topology.Node) ([]Lack, error) {
	// of bulk, a node's connections can be dedicated
	m, err := findMissing(ctx, c.Prefix(), cmp.Or(c.Bulk().Nodes()[n.Address], c.Bulk()))
	return lacksOf(m, c.Client().Mode() == rueidis.ClientModeCluster), err
}

// callOf returns the words of a call with a command that a rule names, or nil if it has none. Its key and topic have
// the prefix; no call is run.
func callOf(rule, prefix string) []string {
	arguments, ok := calls[rule]
	if !ok {
		return nil
	}
	words := append(strings.Split(strings.ToUpper(rule), "|"), strings.Fields(arguments)...)
	for i, w := range words {
		if w == "KEY" || w == "TOPIC" {
			words[i] = prefix + "tidemark.rights"
		}
	}
	return words
}

// findMissing returns what the user of a connection can't do on a node. It changes nothing: Redis checks the rights for
// a command when it is added to a transaction, and this one ends with a malformed command, so that EXEC refuses all of
// them. Without transactions nothing else can be found out. The connection is closed at the end: with a context that
// ends before EXEC is sent it is still inside of the transaction.
func findMissing(ctx context.Context, prefix string, node rueidis.Client) (m missing, err error) {
	m = missing{rights: map[string]bool{}, commands: map[string]bool{}}
	err = node.Dedicated(func(client rueidis.DedicatedClient) error {
		defer client.Close()
		command := func(words ...string) rueidis.Completed { return client.B().Arbitrary(words...).Build() }
		if err := client.Do(ctx, command("MULTI")).Error(); err != nil {
			return m.add("multi", prefix, err) // without it the commands would run
		}
		var called []string
		var commands rueidis.Commands
		for _, rule := range allRules() {
			if words := callOf(rule, prefix); words != nil {
				commands, called = append(commands, command(words...)), append(called, rule)
			}
		}
		replies := client.DoMulti(ctx, append(commands, command("GET"), command("EXEC"))...)
		for i, rule := range called {
			if err := m.add(rule, prefix, replies[i].Error()); err != nil {
				return err
			}
		}
		return m.add("exec", prefix, replies[len(called)+1].Error())
	})
	return m, err
}

// add adds what a refused call shows. The error is that of a call which may not have arrived.
func (m *missing) add(rule, prefix string, refused error) error {
	cause, _ := refusal.Of(refused)
	switch {
	case redis.ReplyLost(refused):
		return refused
	case cause.NoCommand:
		m.commands[rule] = true
	case cause.Code != refusal.NoPermission:
	case !strings.Contains(refused.Error(), patternRefused):
		m.rights[rule] = true
	case strings.HasPrefix(calls[rule], "TOPIC"):
		m.patterns = append(m.patterns, "&"+prefix+"*")
	default:
		m.patterns = append(m.patterns, "~"+prefix+"*")
	}
	return nil
}
