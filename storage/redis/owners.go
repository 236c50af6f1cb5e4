package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// After a fail-over in a Cluster, the client learns within about a second which node serves a slot. Until then it sends
// the slot's commands to the node that is gone. The other nodes know the new one as soon as it is promoted. So an
// attempt that follows one on a wrong node first asks one of them, with a small command for each slot.

// refreshEvery is how often the client reads which nodes there are, without a reason.
const refreshEvery = 5 * time.Second

const (
	askLimit = 250 * time.Millisecond // how long a node may take to say which node serves a slot
	maxAsked = 3                      // nodes that one attempt asks until one of them answers
)

// wrongNode is the key of a context value: the attempt before this one went to a node that is gone, or that doesn't
// serve the key.
type wrongNode struct{}

// after returns the context of an attempt that follows one with this error.
func (c *Conn) after(ctx context.Context, err error) context.Context {
	if c.client.Mode() != rueidis.ClientModeCluster || !ReplyLost(err) && !refusal.Is(err, refusal.Moved) {
		return ctx
	}
	return context.WithValue(ctx, wrongNode{}, true)
}

// mustAsk reports whether an attempt has to ask which nodes serve its keys.
func mustAsk(ctx context.Context) bool { return ctx.Value(wrongNode{}) != nil }

// At returns a client for commands with a key inside Retry: all, which is Client or Bulk, or, after an attempt on a
// wrong node of a Cluster, that of the node that serves the key now.
func (c *Conn) At(ctx context.Context, all rueidis.Client, key string) rueidis.Client {
	if !mustAsk(ctx) {
		return all
	}
	if node := all.Nodes()[c.owner(ctx, key)]; node != nil {
		return node
	}
	return all
}

// Send sends commands, each with a key, in one round trip: with the client all, or, after an attempt on a wrong node of
// a Cluster, each to the node that serves its key now.
func (c *Conn) Send(ctx context.Context, all rueidis.Client, commands rueidis.Commands) []rueidis.RedisResult {
	if !mustAsk(ctx) {
		return all.DoMulti(ctx, commands...)
	}
	owners, nodes := c.ownersOf(ctx, commands), all.Nodes()
	parts := map[string][]int{} // indices of commands, by address; "": all
	for i := range commands {
		address := owners[commands[i].Slot()]
		if nodes[address] == nil {
			address = ""
		}
		parts[address] = append(parts[address], i)
	}
	nodes[""] = all
	results := make([]rueidis.RedisResult, len(commands))
	var sending sync.WaitGroup
	for address, which := range parts {
		sending.Go(func() {
			part := make(rueidis.Commands, len(which))
			for n, i := range which {
				part[n] = commands[i]
			}
			for n, result := range nodes[address].DoMulti(ctx, part...) {
				results[which[n]] = result
			}
		})
	}
	sending.Wait()
	return results
}

// ownersOf returns the addresses of the nodes that serve the slots of commands, as owners does.
func (c *Conn) ownersOf(ctx context.Context, commands rueidis.Commands) map[uint16]string {
	var slots []uint16
	var keys []string
	addresses := map[uint16]string{}
	for i := range commands {
		slot := commands[i].Slot()
		if _, ok := addresses[slot]; !ok {
			addresses[slot] = ""
			slots, keys = append(slots, slot), append(keys, keyOf(commands[i].Commands()))
		}
	}
	for i, address := range c.owners(ctx, keys) {
		addresses[slots[i]] = address
	}
	return addresses
}

// keyOf returns the first key of a command: EVALSHA has it after the hash and the number of keys, others begin with it.
func keyOf(command []string) string {
	if command[0] == "EVALSHA" {
		return command[3]
	}
	return command[1]
}

// owner is owners for one key.
func (c *Conn) owner(ctx context.Context, key string) (address string) {
	return c.owners(ctx, []string{key})[0]
}

// owners returns the addresses of the nodes that serve some keys, as any node that answers says; "" for a key about
// which it doesn't know.
func (c *Conn) owners(ctx context.Context, keys []string) []string {
	asked, addresses := 0, make([]string, len(keys))
	for address, node := range c.client.Nodes() { // in random order
		if asked++; asked > maxAsked {
			break
		}
		answers := ask(ctx, node, keys)
		if ReplyLost(answers[0].Error()) {
			continue
		}
		for i, answer := range answers {
			err := answer.Error()
			if owner, moved := pubsub.MovedTo(err); moved {
				addresses[i] = owner
			} else if err == nil {
				addresses[i] = address
			}
		}
		break
	}
	return addresses
}

// ask sends a command for each key to a node, which answers with a redirection if another one serves the key.
func ask(ctx context.Context, node rueidis.Client, keys []string) []rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	questions := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		questions[i] = node.B().Exists().Key(key).Build()
	}
	return node.DoMulti(ctx, questions...)
}
