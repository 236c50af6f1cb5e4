package main

import (
	"fmt"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/storage"
)

// confirmation is how many replicas an option asks to confirm a write.
type confirmation struct {
	option   string
	replicas int
}

// confirmationsOf returns what the options ask of the replicas of a Redis; those that ask for none are left out.
func confirmationsOf(c config.Config, of string) (all []confirmation) {
	add := func(option string, replicas int) {
		if replicas > 0 {
			all = append(all, confirmation{option, replicas})
		}
	}
	if of == ofChannels.of {
		add("channel-replicas", c.Channel.Replicas)
		for _, rule := range c.ChannelRules() {
			replicas, _ := strconv.Atoi(rule.Replicas) // "": as the option above
			add("replicas of the channels "+rule.Pattern, replicas)
		}
	}
	if of == "tickets" || of == ofChannels.of && c.Matchmaking.Redis == "" {
		if c.Matchmaking.On {
			add("ticket-replicas", c.Matchmaking.Replicas)
		}
	}
	return all
}

// warnings returns what is wrong with the number of replicas that an option asks for. With fewer than a majority of
// those that there are, a primary can be cut off together with all that confirm.
func (k confirmation) warnings(d storage.Durability) (all []string) {
	if enough := d.MostReplicas/2 + 1; d.MostReplicas > 0 && k.replicas < enough {
		all = append(all, fmt.Sprintf("%s is %d, and a primary has %d replicas: a failover to one that hasn't confirmed "+
			"loses writes that were answered; set it to %d or more", k.option, k.replicas, d.MostReplicas, enough))
	}
	if k.replicas > d.Replicas {
		all = append(all, fmt.Sprintf("%s is %d, and a primary has %d replicas: writes fail or wait; add replicas",
			k.option, k.replicas, d.Replicas))
	}
	return all
}

// confirmations checks the numbers of replicas that options ask for.
func (k *checks) confirmations(all []confirmation, d storage.Durability) {
	for _, asked := range all {
		found := asked.warnings(d)
		for _, text := range found {
			k.add(warning, "confirmations", "", "%s", text)
		}
		if len(found) == 0 {
			k.add(fine, "confirmations", "", "%s is %d of %d replicas", asked.option, asked.replicas, d.MostReplicas)
		}
	}
}
