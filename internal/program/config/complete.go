package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/builder"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	oauth "github.com/tidemark-dev/tidemark/internal/records/tokens"
)

// newConfig returns a configuration with what has a default that is no text: limits, and the table of kinds.
func newConfig() Config {
	return Config{Limits: channel.DefaultLimits(), Records: RecordOptions{Site: site.Community()}}
}

// complete checks options against each other, and reads the files that they name. The errors name the YAML key, since
// the options can come from different sources.
func (c *Config) complete(found *findings) {
	found.check(c.Records.completeKeys, "recordsKeys", "kinds")
	if c.Records.On {
		c.addShards()
	}
	c.Limits.DefaultMax = min(c.Limits.DefaultMax, c.Limits.MaxMax)
	c.checkTogether(found)
	c.TLS.complete(found)
	c.completeOpenMatch(found)
	found.check(c.readNotifications, "kinds")
	c.Shards.completeReads(found)
	c.Redis.complete(found)
	c.checkPasswordFiles(found)
	c.Matchmaking.complete(found)
	c.Access.complete(found)
	found.check(c.readReceiptKeys, "receiptKeys", "receiptKeysFile")
}

// checkTogether checks options against each other. It reads no files.
func (c *Config) checkTogether(found *findings) {
	c.checkBodies(found)
	c.Access.checkTogether(found)
	found.check(func() error {
		if c.Server.DrainDelay > c.Server.Grace {
			return errors.New("drainDelay: is longer than grace, of which it is a part")
		}
		return nil
	}, "drainDelay", "grace")
	found.check(func() error {
		if len(c.Shards.Reads.Caches) > 0 && !c.Records.On {
			return errors.New(
				"cacheShards: is set, but records are off, and the cache with them: turn records on, or leave cacheShards out")
		}
		return nil
	}, "cacheShards", "records")
	found.check(func() error {
		if err := oauth.CheckProviders(c.Records.OAuth.Providers); err != nil {
			return fmt.Errorf("oauthProviders: %w", err)
		}
		return nil
	}, "oauthProviders")
	found.check(func() error {
		if c.Copies() && !c.Records.On {
			return errors.New("channels: deliver: copies needs the follow lists, and records are off")
		}
		return nil
	}, "channels", "records")
}

// offsetServerPorts adds the offset to the ports of a service.
func (c *Config) offsetServerPorts() error {
	return cmp.Or(c.offsetPort("listen", &c.Server.Listen), c.offsetPort("adminListen", &c.Server.AdminListen),
		c.offsetPort("grpcListen", &c.GRPC.Listen), c.offsetPort("openmatchListen", &c.GRPC.OpenMatch.Frontend),
		c.offsetPort("openmatchListen", &c.GRPC.OpenMatch.Backend),
		c.offsetPort("openmatchListen", &c.GRPC.OpenMatch.Query))
}

// offsetNodePorts adds the offset to the ports of a node of shards.
func (c *Config) offsetNodePorts() error {
	return cmp.Or(c.offsetPort("shardListen", &c.Shards.Node.Listen),
		c.offsetPort("shardAdminListen", &c.Shards.Node.AdminListen))
}

// offsetPort adds the offset to the port of the address of an option, unless that is any free port, or a socket.
func (c *Config) offsetPort(option string, address *string) error {
	port, err := strconv.Atoi(portOf(*address))
	if err != nil || port == 0 || strings.HasPrefix(*address, UnixPrefix) {
		return nil
	}
	if port += c.Server.PortOffset; port > math.MaxUint16 {
		return fmt.Errorf("portOffset: %d and the port of %s, %s, are together more than %d", c.Server.PortOffset, option,
			*address, math.MaxUint16)
	}
	*address = strings.TrimSuffix(*address, portOf(*address)) + strconv.Itoa(port)
	return nil
}

// completeOpenMatch turns grpcListen's default off if HTTP or a service of Open Match has its port.
func (c *Config) completeOpenMatch(found *findings) {
	found.check(func() error {
		if found.origins["grpcListen"].defaults && portOf(c.Server.Listen) == portOf(c.GRPC.Listen) {
			c.GRPC.Listen = ""
		}
		for name, address := range c.GRPC.OpenMatch.ByService() {
			if port := portOf(address); c.GRPC.Listen == "" || port == "0" || port != portOf(c.GRPC.Listen) {
				continue
			}
			if !found.origins["grpcListen"].defaults {
				return fmt.Errorf("openmatchListen: %s has the port of grpcListen: give it another one, or grpcListen: off",
					name)
			}
			c.GRPC.Listen = ""
		}
		return nil
	}, "listen", "openmatchListen", "grpcListen")
}

// readNotifications reads the schema of notifications that the table of kinds names.
func (c *Config) readNotifications() (err error) {
	if c.Records.Site.Schema == "" {
		return nil
	}
	if c.Records.Notifications, err = openSchema(c.Records.Site.Schema); err != nil {
		return fmt.Errorf("kinds.notifications.schema: %w", err)
	}
	return nil
}

// completeKeys converts the kinds of the site to the form of keys.
func (r *RecordOptions) completeKeys() (err error) {
	r.PlainKeys = r.PlainKeys && r.On
	if !r.PlainKeys {
		return nil
	}
	plain, err := r.Site.Plain()
	if err != nil {
		return fmt.Errorf("recordsKeys: is plain, but %w", err)
	}
	r.Site = plain
	return nil
}

// addShards adds the kinds that the table has in shards to those that are read through nodes.
func (c *Config) addShards() {
	for _, k := range c.Records.Site.Table.Caches() {
		if k.Shards && !slices.Contains(c.Shards.Reads.Caches, k.Name) {
			c.Shards.Reads.Caches = append(c.Shards.Reads.Caches, k.Name)
		}
	}
}

func (t TLS) complete(found *findings) {
	found.check(func() error {
		if (t.Cert == "") != (t.Key == "") {
			return errors.New("tlsCert: tlsCert and tlsKey must be set together")
		}
		return nil
	}, "tlsCert", "tlsKey")
	found.check(func() error {
		if t.ClientCA != "" && t.Cert == "" {
			return errors.New("tlsClientCa: is set but tlsCert isn't: without TLS clients show no certificates")
		}
		return nil
	}, "tlsClientCa", "tlsCert")
}

// complete reads the API keys and the keys of tokens, to check them.
func (a *Access) complete(found *findings) {
	found.check(func() error {
		if _, err := keys.New(keys.Options{File: a.KeysFile}); err != nil {
			return fmt.Errorf("apiKeys: %w", err)
		}
		return nil
	}, "apiKeys")
	t := &a.Tokens
	found.check(func() error {
		switch {
		case len(t.Keys) > 0:
			_, err := jwt.New(*t)
			return err
		case t.Issuer != "" || len(t.Audience) > 0:
			return errors.New("jwtKeys: isn't set, but an issuer or audience of tokens is")
		}
		return nil
	}, "jwtKeys", "jwtIssuer", "jwtAudience", "jwtAlgorithms")
}

func (a Access) checkTogether(found *findings) {
	required := []string{"requireCredentials", "apiKeys", "jwtKeys"}
	found.check(func() error {
		if a.Quotas != (access.Limits{}) && !a.Closed() {
			return errors.New("quotas: is set, but nobody has one on a service that requires no credentials")
		}
		return nil
	}, append(required, "quotas")...)
	found.check(func() error {
		if a.Insecure && a.Closed() {
			return errors.New("insecure: is on, but credentials are required: leave one of them out")
		}
		return nil
	}, append(required, "insecure")...)
}

// checkBodies checks that a body can hold the largest message, and that there is memory for the largest body.
func (c *Config) checkBodies(found *findings) {
	found.check(func() error {
		if c.Server.MaxBodyBytes < c.Channel.MaxMessageBytes {
			return errors.New(
				"maxBodyBytes: is smaller than channelMaxMessageBytes: such a message could never be received")
		}
		return nil
	}, "maxBodyBytes", "channelMaxMessageBytes")
	for i, rule := range c.Rules {
		found.check(func() error {
			// else it names a capture
			if n, err := strconv.Atoi(rule.MaxMessageBytes); err == nil && c.Server.MaxBodyBytes < n {
				return fmt.Errorf(
					"maxBodyBytes: is smaller than channels[%d].maxMessageBytes: such a message could never be received", i)
			}
			return nil
		}, "maxBodyBytes", "channels")
	}
	found.check(func() error {
		if c.Server.BodyMemory < c.Server.MaxBodyBytes {
			return errors.New("bodyMemory: is smaller than maxBodyBytes: such a body could never be received")
		}
		return nil
	}, "bodyMemory", "maxBodyBytes")
}

// complete builds all queues, which reads the files that they name.
func (m *Matchmaking) complete(found *findings) {
	build := builder.Builder(slog.New(slog.DiscardHandler), nil)
	for _, d := range m.Queues {
		found.check(func() error {
			if _, err := build(d); err != nil {
				return inQueue(d.Name, err)
			}
			return nil
		}, "queues")
	}
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
func (r *RedisOptions) complete(found *findings) {
	if r.Address == "" {
		for _, o := range []struct{ key, value string }{
			{"redisUsername", r.Username}, {"redisPassword", r.Password}, {"redisPasswordFile", string(r.PasswordFile)},
			{"redisCaFile", r.TLS.CAFile}, {"redisServerName", r.TLS.Name}, {"redisCertFile", r.TLS.CertFile},
			{"redisSentinelMaster", r.Sentinel.Master},
		} {
			found.check(func() error {
				if o.value != "" {
					return fmt.Errorf("%s: is set but redis isn't: the managed Redis doesn't use it", o.key)
				}
				return nil
			}, o.key, "redis")
		}
	}
	found.check(func() error {
		if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
			return errors.New("redisCertFile: redisCertFile and redisKeyFile must be set together")
		}
		return nil
	}, "redisCertFile", "redisKeyFile")
	found.check(func() error {
		if s := r.Sentinel; s.Master == "" && s.Username+s.Password+string(s.PasswordFile) != "" {
			return errors.New("redisSentinelMaster: isn't set, but a user or password for Sentinels is")
		}
		return nil
	}, "redisSentinelMaster", "redisSentinelUsername", "redisSentinelPassword", "redisSentinelPasswordFile")
	found.completePassword(&r.Password, r.PasswordFile, "redisPassword")
	found.completePassword(&r.Sentinel.Password, r.Sentinel.PasswordFile, "redisSentinelPassword")
}

// completePassword reads a password from its file, if there is one. The key is that of the option with the password.
func (f *findings) completePassword(password *string, file PasswordFile, key string) {
	f.check(func() (err error) {
		switch {
		case file == "":
			return nil
		case *password != "":
			return fmt.Errorf("%sFile: %s is set too: use one of them", key, key)
		}
		if *password, err = file.Read(); err != nil {
			return fmt.Errorf("%sFile: %w", key, err)
		}
		return nil
	}, key, key+"File")
}

// checkPasswordFiles checks the files with the passwords of Redis beside that of the channels.
func (c *Config) checkPasswordFiles(found *findings) {
	for _, o := range []struct {
		key, url string
		file     PasswordFile
	}{
		{"ticketsRedis", c.Matchmaking.Redis, c.Matchmaking.PasswordFile},
		{"sessionsRedis", c.Records.Sessions.Redis, c.Records.Sessions.PasswordFile},
		{"cacheRedis", c.Records.Cache.Redis, c.Records.Cache.PasswordFile},
	} {
		found.check(func() error {
			if o.file == "" {
				return nil
			}
			if o.url == "" {
				return fmt.Errorf("%sPasswordFile: is set but %s isn't", o.key, o.key)
			}
			if _, err := o.file.Read(); err != nil {
				return fmt.Errorf("%sPasswordFile: %w", o.key, err)
			}
			return nil
		}, o.key, o.key+"PasswordFile")
	}
}

// completeNode checks the options of a node against each other, and reads the token. Its errors name the YAML key,
// since the options can come from different sources.
func (c *Config) completeNode(found *findings) {
	c.TLS.complete(found)
	c.Redis.complete(found)
	c.checkPasswordFiles(found)
	found.check(c.Records.completeKeys, "recordsKeys", "kinds")
	o, n := &c.Shards, &c.Shards.Node
	for _, check := range []struct {
		wrong bool
		err   error
		keys  []string
	}{
		{n.Cache == "", errors.New("shardCache: isn't set: name the cache to serve, such as author"),
			[]string{"shardCache"}},
		{o.DC == "", errors.New("shardDc: isn't set: name the data centre that the node is in"), []string{"shardDc"}},
		{o.PingPeriod > (n.LeaseTTL-n.Margin())/2, fmt.Errorf(
			"shardLeaseTtl: %s is too short for a shardPingPeriod of %s: two of these must fit into nine tenths of it",
			n.LeaseTTL, o.PingPeriod), []string{"shardLeaseTtl", "shardPingPeriod"}},
		{n.Advertise == "" && unspecified(n.Listen), fmt.Errorf(
			"shardAdvertise: isn't set, but shardListen is %q, which is every address of the machine: set the one at which clients reach the node",
			n.Listen), []string{"shardAdvertise", "shardListen"}},
		{n.Insecure && o.TokenFile != "", errors.New(
			"shardInsecure: is on, but shardTokenFile is set: leave one of them out"),
			[]string{"shardInsecure", "shardTokenFile"}},
		{n.Insecure && c.TLS.ClientCA != "", errors.New(
			"shardInsecure: is on, but tlsClientCa is set: leave one of them out"),
			[]string{"shardInsecure", "tlsClientCa"}},
	} {
		found.check(func() error {
			if check.wrong {
				return check.err
			}
			return nil
		}, check.keys...)
	}
	found.check(o.readToken, "shardTokenFile")
}

// completeReads checks the options of a service that reads through nodes, and reads the token.
func (o *ShardOptions) completeReads(found *findings) {
	r := o.Reads
	files := []string{"shardCertFile", "shardKeyFile"}
	found.check(func() error {
		if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
			return errors.New("shardCertFile: shardCertFile and shardKeyFile must be set together")
		}
		return nil
	}, files...)
	if len(r.Caches) == 0 {
		return
	}
	found.check(func() error {
		if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
			return nil // it is said already
		}
		_, err := r.TLSConfig()
		return err
	}, append(files, "shardCaFile")...)
	found.check(o.readToken, "shardTokenFile")
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
	token := withoutLineEnd(string(content))
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
	return r.TLS.config("redis")
}

// TLSConfig returns how nodes are connected to, or nil if that is without TLS.
func (r ShardReads) TLSConfig() (*tls.Config, error) {
	return r.TLS.config("shard")
}

// config returns the TLS configuration, or nil if TLS is off. prefix begins the names of the options.
func (c clientTLS) config(prefix string) (*tls.Config, error) {
	if c == (clientTLS{}) {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.Name}
	var err error
	if c.CAFile != "" {
		if t.RootCAs, err = certs.ReadAuthorities(c.CAFile); err != nil {
			return nil, fmt.Errorf("%sCaFile: %w", prefix, err)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%sCertFile: %w", prefix, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
