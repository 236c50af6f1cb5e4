package config

import (
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
)

func matchmakingOptions() []option {
	return []option{
		{
			name: "matchmaking", kind: "switch", def: "on",
			help: "Whether to serve tickets and queues: on or off.",
			set:  into(func(c *Config) *bool { return &c.Matchmaking.On }, onOrOff),
		},
		{
			name: "queues", kind: kindQueues,
			help: "Queues of tickets: a mapping from name to definition. The queue default always exists. In a flag or variable: a JSON object.",
			set:  into(func(c *Config) *[]matchmaking.Definition { return &c.Matchmaking.Queues }, parseQueues),
			setTree: func(c *Config, tree map[string]any) (err error) {
				c.Matchmaking.Queues, err = queuesOf(tree)
				return err
			},
		},
		{
			name: "max-queues", kind: "int", def: "1000",
			help: "Maximum number of queues, including those of the configuration. A PUT of one more is answered 409.",
			set:  into(func(c *Config) *int { return &c.Matchmaking.MaxQueues }, intFrom(1)),
		},
		{
			name: "callout-allow", kind: kindList,
			help: "What queues that are put at run time may call as match functions, evaluators and assigners: hosts or addresses with or without a port, networks such as 10.0.0.0/8, or prefixes of URLs. Private addresses can be called only if an address or network here contains them. Not set: nothing.",
			set:  into(func(c *Config) *[]string { return &c.Matchmaking.CalloutAllow }, listOf(parseTarget)),
		},
		{
			name: "tickets-redis", kind: "url",
			help: "Another Redis for tickets and queues, with user and password in the URL if it needs them. Not set: that of the channels.",
			set:  into(func(c *Config) *string { return &c.Matchmaking.Redis }, anyText),
		},
		{
			name: "tickets-read-replicas", kind: "replicas", def: "off",
			help: "Where to read tickets: off for the primary, on for the replicas of a Cluster or behind Sentinels, or the URL of a replica. A ticket that a replica doesn't have is read from the primary.",
			set:  into(func(c *Config) *string { return &c.Matchmaking.ReadReplicas }, replicas),
		},
		{
			name: "ticket-replicas", kind: "int", def: "0",
			help: "Replicas of Redis that must confirm a claim of tickets, and an assignment, before it counts, so that a fail-over that loses writes can't put a ticket into two matches. While fewer confirm, no match is made. 0: don't wait.",
			set:  into(func(c *Config) *int { return &c.Matchmaking.Replicas }, intFrom(0)),
		},
		{
			name: "lease-ttl", kind: "duration", def: "3s",
			help: "How long a queue stays with a server that has stopped responding, before another server directs it.",
			set: into(func(c *Config) *time.Duration { return &c.Matchmaking.LeaseTTL },
				durationBetween(matchmaking.MinLifetime, forever)),
		},
	}
}

// parseTarget accepts a pattern of what may be called.
func parseTarget(text string) (string, error) {
	_, err := jsonhttp.ParseTargets([]string{text})
	return text, err
}
