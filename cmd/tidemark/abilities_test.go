package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestStartOnALackingRedis: a service starts on a Redis that lacks what it can do without, and what no option needs.
func TestStartOnALackingRedis(t *testing.T) {
	t.Parallel()
	const starts = ""
	for name, c := range map[string]struct {
		command string
		options []string
		says    string
	}{
		"TIME": {"TIME", nil, "Redis has no TIME: the service doesn't work; remove rename-command"},
		"notifications": {"SSUBSCRIBE", nil,
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
			n := redistest.Start(t, redistest.Options{Args: []string{"--rename-command", c.command, ""}})
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
