package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestStartOnALackingRedis: a service starts on a Redis that lacks what it can do without, and what no option needs.
func TestStartOnALackingRedis(t *testing.T) {
	t.Parallel()
	const starts = ""
	for name, c := range map[string]struct {
		command string // which are renamed
		options []string
		says    string
	}{
		"TIME": {"TIME", nil, "Redis has no TIME: the service doesn't work; remove rename-command"},
		"notifications": {"SSUBSCRIBE", nil,
			"no notification arrived: unknown command 'SSUBSCRIBE', with args beginning with: "},
		"durability and notifications": {"CONFIG SSUBSCRIBE", nil,
			"no notification arrived: unknown command 'SSUBSCRIBE', with args beginning with: "},
		"caching":       {"CLIENT", nil, starts},
		"transactions":  {"MULTI", nil, starts},
		"durability":    {"CONFIG", nil, starts},
		"matchmaking":   {"XADD", nil, starts},
		"confirmations": {"WAIT", nil, starts},
		"confirmations of messages": {"WAIT", []string{"--channel-replicas=1"},
			"Redis has no WAIT: channel-replicas and ticket-replicas can't be used; remove rename-command"},
		"confirmations of tickets": {"WAIT", []string{"--ticket-replicas=1"}, "Redis has no WAIT"},
		"replicas":                 {"EVALSHA_RO", nil, starts},
		"replicas for tickets": {"EVALSHA_RO", []string{"--tickets-read-replicas=on"},
			"Redis has no EVALSHA_RO: tickets-read-replicas can't be used"},
		"replicas without matchmaking": {"EVALSHA_RO", []string{"--tickets-read-replicas=on", "--matchmaking=off"}, starts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			for _, command := range strings.Fields(c.command) {
				args = append(args, "--rename-command", command, "")
			}
			n := redistest.Start(t, redistest.Options{Args: args})
			_, err := startHere(t, slog.DiscardHandler, append(c.options, "--redis="+n.URL())...)
			if c.says == starts {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "whose log says", "a text for clients")
		})
	}
}

// TestStartWithoutRights: a right that is missing ends the start if the service needs it.
func TestStartWithoutRights(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	for name, c := range map[string]struct{ lacks, says string }{
		"channels": {"-get", "the user lacks the rights +get: the service doesn't work; run in Redis as an administrator: " +
			"ACL SETUSER chan +get"},
		"caching":   {"-client|tracking", ""},
		"read tier": {"-hvals", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := name[:4]
			require.NoError(t, n.Do(t, "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", c.lacks).Error())
			_, err := startHere(t, slog.DiscardHandler, "--redis=redis://"+user+":secret@"+n.Addr(),
				"--key-prefix="+user+":")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestOutcomesOfLacks: what a Redis lacks matters by what it holds, and by the options.
func TestOutcomesOfLacks(t *testing.T) {
	t.Parallel()
	load := func(args ...string) config.Config {
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		config.AddFlags(flags)
		require.NoError(t, flags.Parse(args))
		c, err := config.Load(flags, nil)
		require.NoError(t, err)
		return c
	}
	plain, apart := load(), load("--tickets-redis=redis://t", "--tickets-read-replicas=on")
	off := load("--matchmaking=off")
	for _, l := range []struct {
		ability diagnose.Ability
		c       config.Config
		of      string
		right   outcome // if the user lacks a right
		command outcome // if Redis has no command
	}{
		{diagnose.Matchmaking, plain, "channels", warning, warning},
		{diagnose.Matchmaking, apart, "channels", fine, fine},
		{diagnose.Matchmaking, apart, "tickets", warning, warning},
		{diagnose.Matchmaking, off, "channels", fine, fine},
		{diagnose.ReplicaReads, plain, "channels", fine, fine},
		{diagnose.ReplicaReads, apart, "channels", fine, fine},
		{diagnose.ReplicaReads, apart, "tickets", failure, failure},
		{diagnose.Channels, plain, "cache", fine, fine},
		{diagnose.Channels, plain, "channels", failure, failure},
		{diagnose.Scripts, plain, "cache", failure, failure},
		{diagnose.Durability, plain, "channels", warning, fine},
		{diagnose.ClientCaching, plain, "channels", warning, fine},
		{diagnose.Keys, plain, "channels", warning, warning},
		{diagnose.ReadTier, plain, "channels", warning, warning},
		{diagnose.ReadTier, plain, "shards", failure, failure},
	} {
		needed := slices.Contains([]diagnose.Ability{diagnose.Channels, diagnose.Scripts}, l.ability)
		right := diagnose.Lack{Ability: l.ability, Needed: needed, Rules: []string{"+x"}}
		command := diagnose.Lack{Ability: l.ability, Needed: needed, Commands: []string{"X"}}
		require.Equal(t, l.right, outcomeOf(l.c, l.of, right), "%s of %s", l.ability, l.of)
		require.Equal(t, l.command, outcomeOf(l.c, l.of, command), "%s of %s", l.ability, l.of)
	}
}
