package channels

import (
	"strings"

	"github.com/tidemark-dev/tidemark/clock"
)

// Keys makes the keys of one channel. All have its name as their hash tag, so that they live in one slot of a cluster;
// channel names have no braces.
type Keys struct {
	base  string    // "<prefix>c.{<channel>}"
	space *keySpace // in which keys are made; nil: each is an allocation of its own
}

// The parts of the keys that polls read, besides names.
const (
	beforeChannel = "c.{"
	afterChannel  = "}"
	clockSuffix   = ".clock"
	epochSuffix   = ".epoch"
	markInfix     = ".r."
	longestSuffix = ".deleted"
)

// KeysOf returns the keys of a channel, with the prefix of all keys of an installation.
func KeysOf(prefix, channel string) Keys {
	return Keys{base: prefix + beforeChannel + channel + afterChannel}
}

// keySpace makes many keys in one allocation. A key that is kept must be cloned.
type keySpace struct{ text strings.Builder }

func (s *keySpace) join(parts ...string) string {
	start := s.text.Len()
	for _, p := range parts {
		s.text.WriteString(p)
	}
	return s.text.String()[start:]
}

// together returns keys of which about n share one allocation, with names of a number of bytes in all.
func (k Keys) together(n, bytes int) Keys {
	k.space = new(keySpace)
	k.space.text.Grow(n*(len(k.base)+len(longestSuffix)) + bytes)
	return k
}

// with returns a key.
func (k Keys) with(suffix, name string) string {
	if k.space == nil {
		return k.base + suffix + name
	}
	return k.space.join(k.base, suffix, name)
}

// Clock holds the last clock given out.
func (k Keys) Clock() string { return k.with(clockSuffix, "") }

// Epoch holds the ULID of the channel's life.
func (k Keys) Epoch() string { return k.with(epochSuffix, "") }

// Subscribers is the set of the names of subscribers.
func (k Keys) Subscribers() string { return k.with(".subs", "") }

// Label holds the name of the queue of the ticket whose channel this is.
func (k Keys) Label() string { return k.base + ".label" }

// Purged holds the clocks of the oldest and of the latest message that was purged.
func (k Keys) Purged() string { return k.base + ".purged" }

// Producers holds the last publishes of producers, and the last order. Scripts make it from that of the clock.
func (k Keys) Producers() string { return k.base + ".producers" }

// Deleted holds the clock at which an earlier life of the channel was deleted.
func (k Keys) Deleted() string { return k.with(longestSuffix, "") }

// MarkPrefix is the prefix of the keys of marks.
func (k Keys) MarkPrefix() string { return k.with(markInfix, "") }

// Mark holds the mark of a subscriber.
func (k Keys) Mark(subscriber string) string { return k.base + markInfix + subscriber }

// MessagePrefix is the prefix of the keys of messages.
func (k Keys) MessagePrefix() string { return k.with(".m.", "") }

// Message holds the message at a clock.
func (k Keys) Message(at clock.Clock) string { return k.base + ".m." + at.String() }

// MessageID holds the clock of a message, by the message's ID.
func (k Keys) MessageID(id string) string { return k.with(".mid.", id) }

// Topic is the topic of the channel's notifications.
func (k Keys) Topic() string { return k.base }

// ForSubscriber returns the first keys of most scripts.
func (k Keys) ForSubscriber(name string) []string {
	return []string{k.Clock(), k.Epoch(), k.Mark(name), k.Subscribers()}
}

// receiptKey holds the keys that sign receipts, if none is configured.
func receiptKey(prefix string) string { return prefix + "tidemark.receipt-key" }

// receiptTopic is the topic on which a server announces that it has changed the value of receiptKey.
func receiptTopic(prefix string) string { return prefix + "tidemark.{receipt-key}" }

// configurationsKey holds the announced configurations of the servers.
func configurationsKey(prefix string) string { return prefix + "tidemark.configurations" }
