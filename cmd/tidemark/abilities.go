package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// ofShards names the contents of the channels' Redis that a node of the read tier uses.
const ofShards = "shards"

// uses reports whether a program with these options uses an ability of a Redis that holds some contents.
func uses(c config.Config, of string, a diagnose.Ability) bool {
	hasTickets := c.Matchmaking.On && (of == "tickets" || of == ofChannels.of && c.Matchmaking.Redis == "")
	switch a {
	case diagnose.Channels, diagnose.ReadTier:
		return of == ofChannels.of || of == ofShards
	case diagnose.Keys:
		return of == ofChannels.of
	case diagnose.Matchmaking:
		return hasTickets
	case diagnose.ReplicaReads: // another value than "on" is the URL of another server
		return hasTickets && c.Matchmaking.ReadReplicas == "on"
	case diagnose.Records, diagnose.ClientCaching:
		return of != "tickets" && of != ofShards
	case diagnose.Confirmations:
		return len(confirmationsOf(c, of)) > 0
	case diagnose.Scripts, diagnose.Notifications, diagnose.Nodes, diagnose.State, diagnose.Durability:
	}
	return true
}

// outcomeOf returns how much a lack of a Redis matters to a service with these options. What is only faster or known
// better with a command that Redis hasn't got is no problem: nobody can change a hosted service.
func outcomeOf(c config.Config, of string, l diagnose.Lack) outcome {
	switch {
	case !uses(c, of, l.Ability):
		return fine
	case l.Needed, l.Ability == diagnose.Confirmations, l.Ability == diagnose.ReplicaReads,
		l.Ability == diagnose.ReadTier && of == ofShards:
		return failure
	case (l.Ability == diagnose.Durability || l.Ability == diagnose.ClientCaching) && len(l.Rules) == 0:
		return fine
	}
	return warning
}

// abilities checks what a primary offers, and lets the user do. The rights and the commands that are lacking are a
// finding each, as bad as the worst of them.
func (k *checks) abilities(c config.Config, user string, p diagnose.Primary) {
	var lacks [2][]diagnose.Lack // with rights, and with commands alone
	worst := [2]outcome{fine, fine}
	for _, l := range p.Lacks {
		if !uses(c, k.about, l.Ability) {
			continue
		}
		i := 0
		if len(l.Rules) == 0 {
			i = 1
		}
		lacks[i], worst[i] = append(lacks[i], l), worse(worst[i], outcomeOf(c, k.about, l))
	}
	for i, check := range []string{"rights", "commands"} {
		text := "all that the service uses"
		if len(lacks[i]) > 0 {
			text = diagnose.Describe(lacks[i])
		}
		k.add(worst[i], check, diagnose.Remedy(user, lacks[i]), "%s: %s", p.Address, text)
	}
}

// worse returns the worse outcome.
func worse(a, b outcome) outcome {
	if a == failure || b == fine {
		return a
	}
	return b
}

// caching checks whether Redis reports changes of what was read.
func (k *checks) caching(ctx context.Context, conn *redis.Conn) {
	err := tracked.Check(ctx, conn)
	var refused *tracked.RefusedError
	switch {
	case errors.As(err, &refused):
		k.add(fine, "caching", "", "none, %v: Redis is asked for each read of a cached value, and for each request with "+
			"a session", refused.Err)
	case err != nil:
		k.failed("caching", err)
	default:
		k.add(fine, "caching", "", "Redis reports changes of cached values and sessions")
	}
}

// requireAbilities returns an error if a service with these options can't work on a Redis, and logs what it does
// without. Package tracked logs that there is no client-side caching.
func requireAbilities(ctx context.Context, c config.Config, of string, conn *redis.Conn, log *slog.Logger) error {
	lacks, err := diagnose.Check(ctx, conn)
	var failures []diagnose.Lack
	for _, l := range lacks {
		if outcomeOf(c, of, l) == failure {
			failures = append(failures, l)
		}
	}
	if len(failures) > 0 {
		return fmt.Errorf("%s; %s", diagnose.Describe(failures), diagnose.Remedy(conn.User(), failures))
	}
	if err != nil {
		cause, advice := diagnose.Explanation(err)
		if advice == "" {
			advice = "this Redis can't run the service's scripts: docs/which-redis.md has those that can"
		}
		return fmt.Errorf("%s; %s", cause, advice)
	}
	for _, l := range lacks {
		if l.Ability == diagnose.ClientCaching || !uses(c, of, l.Ability) {
			continue
		}
		level := slog.LevelInfo
		if outcomeOf(c, of, l) == warning {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "redis lacks an ability", "of", of, "ability", string(l.Ability), "found",
			diagnose.Describe([]diagnose.Lack{l}), "remedy", diagnose.Remedy(conn.User(), []diagnose.Lack{l}))
	}
	return nil
}
