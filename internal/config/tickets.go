package config

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/records/tier"
)

const (
	// leastTicketLife is the shortest life of tickets' channels: that of a ticket of the default queue, and of its
	// assignment after it.
	leastTicketLife = matchmaking.DefaultTicketTTL + matchmaking.DefaultAssignmentTTL
	// leastAssignmentBytes is a size that assignments may have even if other messages must be smaller.
	leastAssignmentBytes = 256 << 10
)

// TicketLife returns how long the channels of tickets live without activity: as long as any queue of the configuration
// needs.
func (c Config) TicketLife() time.Duration {
	life := leastTicketLife
	for _, d := range c.Matchmaking.Queues {
		life = max(life, d.TicketTTL.Std()+d.AssignmentTTL.Std())
	}
	return life
}

// ChannelRules returns the rules of the configuration, before them those of the channels of tickets and of changes of
// caches, and after them those that are built in.
func (c Config) ChannelRules() []channel.Rule {
	configured := append(slices.Clone(c.Rules), builtIn()...)
	if len(c.Shards.Reads.Caches) > 0 {
		configured = append([]channel.Rule{tier.ChannelRule}, configured...)
	}
	if !c.Matchmaking.On {
		return configured
	}
	tickets := channel.Rule{
		Pattern: regexp.QuoteMeta(matchmaking.ChannelPrefix) + ".*", TTL: c.TicketLife().String(),
		MaxMessageBytes: strconv.Itoa(max(c.Channel.MaxMessageBytes, leastAssignmentBytes)),
	}
	return append([]channel.Rule{tickets}, configured...)
}
