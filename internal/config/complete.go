package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/access/jwt"
	"github.com/tidemark-dev/tidemark/access/keys"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking/builder"
	oauth "github.com/tidemark-dev/tidemark/records/tokens"
)

// newConfig returns a configuration with the limits that have no option.
func newConfig() Config { return Config{Limits: channel.DefaultLimits()} }

// complete checks options against each other, and reads the files that they name. Its errors name the YAML key, since
// the options can come from different sources.
func (c *Config) complete() error {
	if err := c.completeBodies(); err != nil {
		return err
	}
	if c.Server.DrainDelay > c.Server.Grace {
		return errors.New("drainDelay: is longer than grace, of which it is a part")
	}
	if err := c.TLS.complete(); err != nil {
		return err
	}
	if err := c.Shards.CompleteReads(); err != nil {
		return err
	}
	if len(c.Shards.Reads.Caches) > 0 && !c.Records.On {
		return errors.New(
			"cacheShards: is set, but records are off, and the cache with them: turn records on, or leave cacheShards out")
	}
	c.Limits.DefaultMax = min(c.Limits.DefaultMax, c.Limits.MaxMax)
	if err := c.Redis.Complete(); err != nil {
		return err
	}
	if err := c.Matchmaking.complete(); err != nil {
		return err
	}
	if err := c.Access.complete(); err != nil {
		return err
	}
	if err := oauth.CheckProviders(c.Records.OAuth.Providers); err != nil {
		return fmt.Errorf("oauthProviders: %w", err)
	}
	return c.readReceiptKeys()
}

func (t TLS) complete() error {
	if (t.Cert == "") != (t.Key == "") {
		return errors.New("tlsCert: tlsCert and tlsKey must be set together")
	}
	if t.ClientCA != "" && t.Cert == "" {
		return errors.New("tlsClientCa: is set but tlsCert isn't: without TLS clients show no certificates")
	}
	return nil
}

// complete reads the API keys and the keys of tokens, to check them.
func (a *Access) complete() error {
	if _, err := keys.New(keys.Options{File: a.KeysFile}); err != nil {
		return fmt.Errorf("apiKeys: %w", err)
	}
	t := &a.Tokens
	if a.Quotas != (access.Limits{}) && !a.Closed() {
		return errors.New("quotas: is set, but nobody has one on a service that requires no credentials")
	}
	switch {
	case a.Insecure && a.Closed():
		return errors.New("insecure: is on, but credentials are required: leave one of them out")
	case len(t.Keys) > 0:
		_, err := jwt.New(*t)
		return err
	case t.Issuer != "" || len(t.Audience) > 0:
		return errors.New("jwtKeys: isn't set, but an issuer or audience of tokens is")
	}
	return nil
}

// completeBodies checks that a body can hold the largest message, and that there is memory for the largest body.
func (c *Config) completeBodies() error {
	if c.Server.MaxBodyBytes < c.Channel.MaxMessageBytes {
		return errors.New(
			"maxBodyBytes: is smaller than channelMaxMessageBytes: such a message could never be received")
	}
	for i, rule := range c.Rules {
		// else it names a capture
		if n, err := strconv.Atoi(rule.MaxMessageBytes); err == nil && c.Server.MaxBodyBytes < n {
			return fmt.Errorf(
				"maxBodyBytes: is smaller than channels[%d].maxMessageBytes: such a message could never be received", i)
		}
	}
	if c.Server.BodyMemory < c.Server.MaxBodyBytes {
		return errors.New("bodyMemory: is smaller than maxBodyBytes: such a body could never be received")
	}
	return nil
}

// complete builds all queues, which reads the files that they name.
func (m *Matchmaking) complete() error {
	build := builder.Builder(slog.New(slog.DiscardHandler), nil)
	for _, d := range m.Queues {
		if _, err := build(d); err != nil {
			return inQueue(d.Name, err)
		}
	}
	return nil
}

// readReceiptKeys reads the file of keys.
func (c *Config) readReceiptKeys() error {
	if c.Receipts.KeysFile == "" {
		return nil
	}
	if len(c.Receipts.Keys) > 0 {
		return errors.New("receiptKeysFile: receiptKeys is set too: use one of them")
	}
	var err error
	if c.Receipts.Keys, err = receiptKeysOf(c.Receipts.KeysFile); err != nil {
		return fmt.Errorf("receiptKeysFile: %w", err)
	}
	return nil
}
