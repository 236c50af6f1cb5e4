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

// outcomeOf returns how much a lack of a Redis matters to a service with these options. What an operator can't change,
// since Redis hasn't got a command, is no problem while no option asks for it.
func outcomeOf(c config.Config, of string, l diagnose.Lack) outcome {
	switch {
	case l.Needed:
		return failure
	case l.Ability == diagnose.Confirmations && len(confirmationsOf(c, of)) > 0,
		l.Ability == diagnose.ReplicaReads && c.Matchmaking.On && readsReplicas(c.Matchmaking):
		return failure
	case l.Ability == diagnose.Confirmations, l.Ability == diagnose.ReplicaReads, len(l.Rules) == 0,
		l.Ability == diagnose.Matchmaking && !c.Matchmaking.On:
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

// mustBeAble returns an error if the service can't work on a Redis with these options, and logs what it does without.
func mustBeAble(ctx context.Context, c config.Config, of string, conn *redis.Conn, log *slog.Logger) error {
	lacks, err := diagnose.Check(ctx, conn)
	if err != nil {
		cause, advice := diagnose.Explanation(err)
		if advice == "" {
			advice = "this Redis can't run the service's scripts: docs/which-redis.md has those that can"
		}
		return fmt.Errorf("%s; %s", cause, advice)
	}
	var failures []diagnose.Lack
	for _, l := range lacks {
		if outcomeOf(c, of, l) == failure {
			failures = append(failures, l)
		}
	}
	if len(failures) > 0 {
		return fmt.Errorf("%s; %s", diagnose.Describe(failures), diagnose.Remedy(conn.User(), failures))
	}
	for _, l := range lacks {
		switch outcomeOf(c, of, l) {
		case warning:
			log.WarnContext(ctx, diagnose.Describe([]diagnose.Lack{l}), "of", of, "remedy",
				diagnose.Remedy(conn.User(), []diagnose.Lack{l}))
		case fine, failure:
			log.InfoContext(ctx, diagnose.Describe([]diagnose.Lack{l}), "of", of)
		}
	}
	return nil
}
