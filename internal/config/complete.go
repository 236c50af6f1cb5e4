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

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/parts"
	"github.com/tidemark-dev/tidemark/receipt"
)

// newConfig returns a configuration with what has no option.
func newConfig() Config { return Config{Limits: channel.DefaultLimits()} }

// complete checks options against each other and reads the files that they name. Its errors name the YAML key,
// which every source's name follows from.
func (c *Config) complete() error {
	if err := c.completeBodies(); err != nil {
		return err
	}
	if c.DrainDelay > c.Grace {
		return errors.New("drainDelay: is longer than grace, which it is part of")
	}
	c.Limits.DefaultMax = min(c.Limits.DefaultMax, c.Limits.MaxMax)
	if err := c.Redis.complete(); err != nil {
		return err
	}
	if err := c.Matchmaking.complete(); err != nil {
		return err
	}
	return c.readReceiptKeys()
}

// completeBodies checks that a body can have the largest message, and that there is memory for the largest body.
func (c *Config) completeBodies() error {
	if c.MaxBodyBytes < c.Channel.MaxMessageBytes {
		return errors.New("maxBodyBytes: is smaller than channelMaxMessageBytes, so that no such message could come in")
	}
	for i, rule := range c.Rules {
		if n, err := strconv.Atoi(rule.MaxMessageBytes); err == nil && c.MaxBodyBytes < n { // else it names a capture
			return fmt.Errorf("maxBodyBytes: is smaller than maxMessageBytes of rule %d of channels, so that no such message could come in", i+1)
		}
	}
	if c.BodyMemory < c.MaxBodyBytes {
		return errors.New("bodyMemory: is smaller than maxBodyBytes, so that no such body could come in")
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
			"redisUsername": r.Username, "redisPassword": r.Password, "redisPasswordFile": r.PasswordFile, "redisCaFile": r.CAFile,
			"redisCertFile": r.CertFile, "redisSentinelMaster": r.SentinelMaster,
		} {
			if value != "" {
				return fmt.Errorf("%s: is set but redis isn't, and the managed Redis has no use for it", key)
			}
		}
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		return errors.New("redisCertFile: needs redisKeyFile, and the other way round")
	}
	if r.SentinelMaster == "" && r.SentinelUsername+r.SentinelPassword != "" {
		return errors.New("redisSentinelMaster: isn't set, but a user or password for Sentinels is")
	}
	if r.PasswordFile == "" {
		return nil
	}
	if r.Password != "" {
		return errors.New("redisPasswordFile: redisPassword is set too, use one of them")
	}
	password, err := os.ReadFile(r.PasswordFile)
	if err != nil {
		return fmt.Errorf("redisPasswordFile: %w", err)
	}
	r.Password = strings.TrimRight(string(password), "\r\n")
	return nil
}

// readReceiptKeys adds the keys of the file. Lines that are empty or start with # are left out.
func (c *Config) readReceiptKeys() error {
	if c.ReceiptKeysFile == "" {
		return nil
	}
	if len(c.ReceiptKeys) > 0 {
		return errors.New("receiptKeysFile: receiptKeys is set too, use one of them")
	}
	content, err := os.ReadFile(c.ReceiptKeysFile)
	if err != nil {
		return fmt.Errorf("receiptKeysFile: %w", err)
	}
	var keys []receipt.Key
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, err := parseReceiptKey(line)
		if err != nil {
			return fmt.Errorf("receiptKeysFile: %s: %w", c.ReceiptKeysFile, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return fmt.Errorf("receiptKeysFile: %s has no key", c.ReceiptKeysFile)
	}
	c.ReceiptKeys = keys
	return nil
}

// TLS returns the configuration that the files make, or nil where none is set.
func (r Redis) TLS() (*tls.Config, error) {
	if r.CAFile == "" && r.CertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		pem, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redisCaFile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redisCaFile: %s has no certificate in PEM form", r.CAFile)
		}
	}
	if r.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redisCertFile: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
