package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	sessions "github.com/tidemark-dev/tidemark/internal/records/sessions/credentials"
	stored "github.com/tidemark-dev/tidemark/storage/redis/access"
)

// credentials maps credentials to their users.
type credentials struct {
	rules    []access.ChannelRule
	keys     *keys.Registry
	users    *jwt.Verifier // nil: there are no tokens of users
	players  *access.TicketTokens
	sessions *sessions.Credentials // nil: records are off
}

// openCredentials returns the known credentials, or nil if the service is open.
func openCredentials(ctx context.Context, c config.Config, s stores, needs partNeeds) (*credentials, error) {
	if !c.Access.Closed() {
		return nil, nil
	}
	keys, err := keys.New(keys.Options{Store: stored.New(s.conn), File: c.Access.KeysFile, Logger: needs.log})
	if err != nil {
		return nil, fmt.Errorf("apiKeys: %w", err)
	}
	if err := keys.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("read the API keys: %w", err)
	}
	needs.parts.Run(ctx, "API keys", keys.Run)
	if err := metrics.RegisterAccess(needs.metrics, keys.Counts); err != nil {
		return nil, fmt.Errorf("metrics of API keys: %w", err)
	}
	found := &credentials{rules: c.Access.Rules, keys: keys, players: access.NewTicketTokens(access.TicketTokenOptions{
		Keys: s.receipts.ring, TTL: c.TicketLife(), Unique: func(ticket string) bool {
			_, unique := matchmaking.QueueOf(ticket)
			return unique
		},
	})}
	if len(c.Access.Tokens.Keys) > 0 {
		options := c.Access.Tokens
		options.Log = needs.log
		if found.users, err = jwt.New(options); err != nil {
			return nil, err
		}
		if err := metrics.RegisterTokenKeys(needs.metrics, found.users.Sources); err != nil {
			return nil, fmt.Errorf("metrics of the keys of tokens: %w", err)
		}
		needs.parts.Run(ctx, "keys of tokens", found.users.Run)
	}
	if counts := keys.Counts(); counts.Keys+counts.Configured == 0 && found.users == nil &&
		!strings.HasPrefix(c.Server.AdminListen, config.UnixPrefix) {
		needs.log.WarnContext(ctx,
			"no credential is accepted, and none can be created: set api-keys or jwt-keys, or admin-listen to a Unix socket")
	}
	return found, nil
}

// administered returns the API keys and revocations that administrators change. On an open service they are read on
// demand.
func (c *credentials) administered(s stores, log *slog.Logger) (*keys.Registry, error) {
	if c != nil {
		return c.keys, nil
	}
	return keys.New(keys.Options{Store: stored.New(s.conn), Logger: log})
}

// offer returns the token of a ticket for the caller that has created it. It is for service.Options.
func (c *credentials) offer() func(ctx context.Context, ticket string, created time.Time) string {
	if c == nil {
		return nil
	}
	return c.players.Offer
}

// guard returns the access control of the service. If owners is nil, there are no tickets.
func (c *credentials) guard(owners access.Owners) (*access.Guard, error) {
	if c == nil {
		return nil, nil
	}
	authenticators, revoked := []access.Authenticator{c.keys}, access.AllRevocations{c.keys}
	if owners != nil {
		authenticators = append(authenticators, c.players)
	}
	// before the tokens of users: these have a claim sub, which those of Discours.io's sessions don't have
	if c.sessions != nil {
		authenticators, revoked = append(authenticators, c.sessions), append(revoked, c.sessions)
	}
	if c.users != nil {
		authenticators, revoked = append(authenticators, c.users), append(revoked, c.users)
	}
	guard, err := access.New(access.Options{Authenticators: authenticators, Rules: c.rules,
		Shared: followers.Shared, Tickets: access.Tickets{Owners: owners, Channels: matchmaking.ChannelPrefix,
			Subscriber: matchmaking.Subscriber}, Revoked: revoked})
	if err != nil {
		return nil, fmt.Errorf("channels: %w", err)
	}
	return guard, nil
}

// logAccess logs the access rules in effect.
func logAccess(ctx context.Context, c config.Access, log *slog.Logger) {
	switch {
	case c.Closed():
		log.InfoContext(ctx, "tidemark is starting", "version", thisBuild().version, "access", "credentials", "meaning",
			"a request needs credentials")
	case c.Insecure:
		log.WarnContext(ctx, "tidemark is starting", "version", thisBuild().version, "access", "open", "meaning",
			"whoever reaches a port can do everything")
	default:
		log.InfoContext(ctx, "tidemark is starting", "version", thisBuild().version, "access", "open", "meaning",
			"every program on this machine can do everything")
	}
}
