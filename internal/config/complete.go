package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/access/jwt"
	"github.com/tidemark-dev/tidemark/access/keys"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/matchmaking/builder"
	"github.com/tidemark-dev/tidemark/records/site"
	oauth "github.com/tidemark-dev/tidemark/records/tokens"
)

// newConfig returns a configuration with what has a default that is no text: limits, and the table of kinds.
func newConfig() Config {
	return Config{Limits: channel.DefaultLimits(), Records: RecordOptions{Site: site.Community()}}
}

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
	if name := c.Records.Site.Schema; name != "" {
		schema, err := open(name)
		if err != nil {
			return fmt.Errorf("kinds.notifications.schema: %w", err)
		}
		c.Records.Notifications = schema
	}
	if c.Records.On {
		c.addShards()
	}
	if err := c.Shards.completeReads(); err != nil {
		return err
	}
	if len(c.Shards.Reads.Caches) > 0 && !c.Records.On {
		return errors.New(
			"cacheShards: is set, but records are off, and the cache with them: turn records on, or leave cacheShards out")
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

// addShards adds the kinds that the table has in shards to those that are read through nodes.
func (c *Config) addShards() {
	for _, k := range c.Records.Site.Caches.All() {
		if k.Definition().Shards && !slices.Contains(c.Shards.Reads.Caches, k.Name) {
			c.Shards.Reads.Caches = append(c.Shards.Reads.Caches, k.Name)
		}
	}
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

// complete checks the options against each other, and reads the password. Its errors name the YAML key.
func (r *RedisOptions) complete() error {
	if r.Address == "" {
		for key, value := range map[string]string{
			"redisUsername": r.Username, "redisPassword": r.Password, "redisPasswordFile": r.PasswordFile,
			"redisCaFile":   r.TLS.CAFile,
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

// completeNode checks the options of a node against each other, and reads the token. Its errors name the YAML key,
// since the options can come from different sources.
func (o *ShardOptions) completeNode() error {
	n := o.Node
	switch {
	case n.Cache == "":
		return errors.New("shardCache: isn't set: name the cache to serve, such as author")
	case o.DC == "":
		return errors.New("shardDc: isn't set: name the data centre that the node is in")
	case o.PingPeriod > (n.LeaseTTL-n.Margin())/2:
		return fmt.Errorf(
			"shardLeaseTtl: %s is too short for a shardPingPeriod of %s: two of these must fit into nine tenths of it",
			n.LeaseTTL, o.PingPeriod)
	case n.Advertise == "" && unspecified(n.Listen):
		return fmt.Errorf(
			"shardAdvertise: isn't set, but shardListen is %q, which is every address of the machine: set the one at which clients reach the node",
			n.Listen)
	}
	if err := o.readToken(); err != nil {
		return err
	}
	if n.Insecure && o.Token != "" {
		return errors.New("shardInsecure: is on, but shardTokenFile is set: leave one of them out")
	}
	return nil
}

// completeReads checks the options of a service that reads through nodes, and reads the token.
func (o *ShardOptions) completeReads() error {
	r := o.Reads
	switch {
	case (r.CertFile == "") != (r.KeyFile == ""):
		return errors.New("shardCertFile: shardCertFile and shardKeyFile must be set together")
	case len(r.Caches) == 0:
		return nil
	}
	if _, err := r.TLSConfig(); err != nil {
		return err
	}
	return o.readToken()
}

// Sizes of a token, in bytes.
const (
	minToken = 16
	maxToken = 4096
)

// readToken reads the token. Its errors don't contain it.
func (o *ShardOptions) readToken() error {
	if o.TokenFile == "" {
		return nil
	}
	file, err := os.Open(o.TokenFile)
	if err != nil {
		return fmt.Errorf("shardTokenFile: %w", err)
	}
	defer file.Close()                                           //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxToken+3)) // a line end isn't part of it
	if err != nil {
		return fmt.Errorf("shardTokenFile: %w", err)
	}
	token := strings.TrimRight(string(content), "\r\n")
	switch {
	case len(token) < minToken || len(token) > maxToken:
		return fmt.Errorf(
			"shardTokenFile: %s must contain a token of %d to %d bytes: make one with `openssl rand -base64 32`",
			o.TokenFile, minToken, maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("shardTokenFile: %s must contain one line of visible ASCII characters", o.TokenFile)
	}
	o.Token = token
	return nil
}

// TLSConfig returns how Redis is connected to, or nil if that is without TLS.
func (r RedisOptions) TLSConfig() (*tls.Config, error) {
	return clientTLS("redis", r.TLS.CAFile, r.TLS.CertFile, r.TLS.KeyFile)
}

// TLSConfig returns how nodes are connected to, or nil if that is without TLS.
func (r ShardReads) TLSConfig() (*tls.Config, error) {
	t, err := clientTLS("shard", r.CAFile, r.CertFile, r.KeyFile)
	if t != nil {
		t.ServerName = r.Name
	}
	return t, err
}

// clientTLS returns the TLS configuration for connections to a server: caFile has the authorities that sign its
// certificate, and certFile the client's own certificate. It returns nil if both are "". prefix begins the names of
// these options.
func clientTLS(prefix, caFile, certFile, keyFile string) (*tls.Config, error) {
	if caFile == "" && certFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if caFile != "" {
		if t.RootCAs, err = certs.ReadAuthorities(caFile); err != nil {
			return nil, fmt.Errorf("%sCaFile: %w", prefix, err)
		}
	}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("%sCertFile: %w", prefix, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
