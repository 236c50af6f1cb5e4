package redis

import (
	"strings"

	"github.com/tidemark-dev/tidemark/clock"
)

// keyspace makes every key that the store uses. All keys of a channel carry its name as hash tag, so that they
// live in one slot of a cluster; channel names have no braces.
type keyspace struct {
	prefix string // in front of every key
}

// channelKeys makes the keys of one channel.
type channelKeys struct {
	base string // "<prefix>c.{<channel>}"
}

func (k keyspace) channel(name string) channelKeys {
	var b strings.Builder
	b.Grow(len(k.prefix) + len(name) + 4)
	b.WriteString(k.prefix)
	b.WriteString("c.{")
	b.WriteString(name)
	b.WriteString("}")
	return channelKeys{base: b.String()}
}

// receiptKey holds the key that signs receipts where none is configured.
func (k keyspace) receiptKey() string { return k.prefix + "tidemark.receipt-key" }

// readyTopic returns the topic of one connection, on which it checks that messages arrive.
func readyTopic(prefix, server string) string { return prefix + "tidemark.ready.{" + server + "}" }

// readyKey returns the key that one connection writes to check that it can.
func readyKey(prefix, server string) string { return readyTopic(prefix, server) + ".check" }

func (c channelKeys) clock() string                 { return c.base + ".clock" }
func (c channelKeys) epoch() string                 { return c.base + ".epoch" }
func (c channelKeys) subscribers() string           { return c.base + ".subs" }
func (c channelKeys) label() string                 { return c.base + ".label" }
func (c channelKeys) markPrefix() string            { return c.base + ".r." }
func (c channelKeys) mark(subscriber string) string { return c.base + ".r." + subscriber }
func (c channelKeys) messagePrefix() string         { return c.base + ".m." }
func (c channelKeys) message(at clock.Clock) string { return c.base + ".m." + at.String() }
func (c channelKeys) messageID(id string) string    { return c.base + ".mid." + id }
func (c channelKeys) topic() string                 { return c.base }
func (c channelKeys) forSubscriber(s string) []string {
	return []string{c.clock(), c.epoch(), c.mark(s), c.subscribers()}
}

// queueKeys makes the keys of one queue, which all carry its name as hash tag.
type queueKeys struct {
	base string // "<prefix>mm.{<queue>}"
}

func (k keyspace) queue(name string) queueKeys {
	return queueKeys{base: k.prefix + "mm.{" + name + "}"}
}

// definitions holds the definitions of queues that were put by the admin call.
func (k keyspace) definitions() string { return k.prefix + "mm.queues" }

func (q queueKeys) nudges() string              { return q.base }
func (q queueKeys) waiting() string             { return q.base + ".allTickets" }
func (q queueKeys) expiries() string            { return q.base + ".expiries" }
func (q queueKeys) proposed() string            { return q.base + ".proposed_ticket_ids" }
func (q queueKeys) claims() string              { return q.base + ".claims" }
func (q queueKeys) changes() string             { return q.base + ".changes" }
func (q queueKeys) outbox() string              { return q.base + ".outbox" }
func (q queueKeys) matched() string             { return q.base + ".matched" }
func (q queueKeys) stats() string               { return q.base + ".stats" }
func (q queueKeys) director() string            { return q.base + ".director" }
func (q queueKeys) ticket(id string) string     { return q.base + ".ticket." + id }
func (q queueKeys) assignment(id string) string { return q.base + ".assign." + id }
func (q queueKeys) match(id string) string      { return q.base + ".match." + id }
