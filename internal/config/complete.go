package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/access/registry"
	"github.com/tidemark-dev/tidemark/access/tokens"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/config/values"
	"github.com/tidemark-dev/tidemark/internal/parts"
	"github.com/tidemark-dev/tidemark/receipt"
	oauth "github.com/tidemark-dev/tidemark/records/tokens"
)

// newConfig returns a configuration with the limits that have no option.
func newConfig() Config { return Config{Limits: channel.DefaultLimits()} }

// complete checks options against each other, and reads the files that they name. Its errors name the YAML key, since the
// options can come from different sources.
func (c *Config) complete() error {
	if err := c.completeBodies(); err != nil {
		return err
	}
	if c.Server.DrainDelay > c.Server.Grace {
		return errors.New("drainDelay: is longer than grace, of which it is a part")
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return errors.New("tlsCert: tlsCert and tlsKey must be set together")
	}
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		return errors.New("tlsClientCa: is set but tlsCert isn't: without TLS clients show no certificates")
	}
	c.Limits.DefaultMax = min(c.Limits.DefaultMax, c.Limits.MaxMax)
	if err := c.Redis.complete(); err != nil {
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

// complete reads the API keys and the keys of tokens, to check them.
func (a *Access) complete() error {
	if _, err := registry.New(registry.Options{File: a.KeysFile}); err != nil {
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
		_, err := tokens.New(*t)
		return err
	case t.Issuer != "" || len(t.Audience) > 0:
		return errors.New("jwtKeys: isn't set, but an issuer or audience of tokens is")
	}
	return nil
}

// completeBodies checks that a body can hold the largest message, and that there is memory for the largest body.
func (c *Config) completeBodies() error {
	if c.Server.MaxBodyBytes < c.Channel.MaxMessageBytes {
		return errors.New("maxBodyBytes: is smaller than channelMaxMessageBytes: such a message could never be received")
	}
	for i, rule := range c.Rules {
		if n, err := strconv.Atoi(rule.MaxMessageBytes); err == nil && c.Server.MaxBodyBytes < n { // else it names a capture
			return fmt.Errorf("maxBodyBytes: is smaller than channels[%d].maxMessageBytes: such a message could never be received", i)
		}
	}
	if c.Server.BodyMemory < c.Server.MaxBodyBytes {
		return errors.New("bodyMemory: is smaller than maxBodyBytes: such a body could never be received")
	}
	return nil
}

// complete builds all queues, which reads the files that they name.
func (m *Matchmaking) complete() error {
	build := parts.Builder(slog.New(slog.DiscardHandler), nil)
	for _, d := range m.Queues {
		if _, err := build(d); err != nil {
			return inQueue(d.Name, err)
		}
	}
	return nil
}

func (r *Redis) complete() error {
	if r.Address == "" {
		for key, value := range map[string]string{
			"redisUsername": r.Username, "redisPassword": r.Password, "redisPasswordFile": r.PasswordFile, "redisCaFile": r.TLS.CAFile,
			"redisCertFile": r.TLS.CertFile, "redisSentinelMaster": r.Sentinel.Master,
		} {
			if value != "" {
				return fmt.Errorf("%s: is set but redis isn't: the managed Redis doesn't use it", key)
			}
		}
	}
	if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
		return errors.New("redisCertFile: redisCertFile and redisKeyFile must be set together")
	}
	if r.Sentinel.Master == "" && r.Sentinel.Username+r.Sentinel.Password != "" {
		return errors.New("redisSentinelMaster: isn't set, but a user or password for Sentinels is")
	}
	if r.PasswordFile == "" {
		return nil
	}
	if r.Password != "" {
		return errors.New("redisPasswordFile: redisPassword is set too: use one of them")
	}
	password, err := os.ReadFile(r.PasswordFile)
	if err != nil {
		return fmt.Errorf("redisPasswordFile: %w", err)
	}
	r.Password = strings.TrimRight(string(password), "\r\n")
	return nil
}

// readReceiptKeys reads the file of keys. Lines that are empty or start with # are left out.
func (c *Config) readReceiptKeys() error {
	if c.Receipts.KeysFile == "" {
		return nil
	}
	if len(c.Receipts.Keys) > 0 {
		return errors.New("receiptKeysFile: receiptKeys is set too: use one of them")
	}
	content, err := os.ReadFile(c.Receipts.KeysFile)
	if err != nil {
		return fmt.Errorf("receiptKeysFile: %w", err)
	}
	var keys []receipt.Key
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, err := values.ReceiptKey(line)
		if err != nil {
			return fmt.Errorf("receiptKeysFile: %s: %w", c.Receipts.KeysFile, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return fmt.Errorf("receiptKeysFile: %s contains no key", c.Receipts.KeysFile)
	}
	c.Receipts.Keys = keys
	return nil
}

// TLSConfig returns the configuration that the files make, or nil if none is set.
func (r Redis) TLSConfig() (*tls.Config, error) {
	if r.TLS.CAFile == "" && r.TLS.CertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.TLS.CAFile != "" {
		pem, err := os.ReadFile(r.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redisCaFile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redisCaFile: %s contains no certificate in PEM form", r.TLS.CAFile)
		}
	}
	if r.TLS.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(r.TLS.CertFile, r.TLS.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redisCertFile: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
