package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// explained is an error whose cause is the configuration of Redis or of its client, with what to change.
type explained struct {
	err    error
	advice string
}

func (e *explained) Error() string {
	return strings.TrimRight(e.err.Error(), ". ") + "; " + e.advice
}

func (e *explained) Unwrap() error { return e.err }

// Advice returns what to change so that an error doesn't occur again, or "" if that isn't known.
func Advice(err error) string {
	var e *explained
	if errors.As(err, &e) {
		return e.advice
	}
	return ""
}

// adviser knows the options that advice names.
type adviser struct {
	option   string // that holds the URL
	user     string
	prefix   string
	database bool // the URL has a database
	sentinel string
	tls      bool
}

func newAdviser(o Options, c rueidis.ClientOption) adviser {
	return adviser{
		option: cmp.Or(o.Option, "redis"), user: cmp.Or(c.Username, "default"), prefix: o.KeyPrefix,
		database: c.SelectDB != 0, sentinel: c.Sentinel.MasterSet, tls: c.TLSConfig != nil,
	}
}

// explain returns an error with what to change, if that is known, and other errors as they are.
func (a adviser) explain(err error) error {
	if err == nil || Advice(err) != "" {
		return err
	}
	if advice := a.advice(err); advice != "" {
		return &explained{err, advice}
	}
	return err
}

// credentials returns the options with the user and the password.
func (a adviser) credentials() string {
	if a.option == "redis" {
		return "--redis-username and --redis-password"
	}
	return "the user and the password in the URL of --" + a.option
}

func (a adviser) advice(err error) string {
	var refusal *rueidis.RedisError
	if errors.As(err, &refusal) {
		return a.ofRefusal(code(err), refusal.Error())
	}
	switch {
	case errors.Is(err, ErrReplica):
		return fmt.Sprintf("set --%s to the primary, or promote this server", a.option)
	case errors.Is(err, ErrSentinel):
		return "set --redis-sentinel-master to the name of the primary that it watches"
	}
	return a.ofCertificate(err)
}

// ofCertificate returns the advice for an error of a TLS handshake.
func (a adviser) ofCertificate(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return "set --redis-ca-file to the certificate of the authority that signed Redis's certificate"
	case errors.As(err, &name):
		return fmt.Sprintf("set --%s to a name that Redis's certificate has, or give Redis a certificate for this one",
			a.option)
	case errors.As(err, &invalid):
		return "give Redis a certificate that is valid"
	case errors.As(err, &alert):
		return "Redis refused the service's certificate, or that there is none: " +
			"set --redis-cert-file and --redis-key-file to one that Redis's tls-ca-cert-file has signed"
	}
	return ""
}

// ofRefusal returns the advice for an error reply.
func (a adviser) ofRefusal(code, text string) string {
	switch code {
	case codeNoPermission:
		return a.ofPermission(text)
	case "NOAUTH":
		return "Redis requires a password: set " + a.credentials()
	case "WRONGPASS":
		return fmt.Sprintf("Redis has no enabled user %q with this password: check %s", a.user, a.credentials())
	case codeReadOnly, codeMasterDown:
		return fmt.Sprintf("this Redis is a replica, which refuses writes: set --%s to its primary, or promote it", a.option)
	case "MISCONF":
		return "Redis can't write to its disk and refuses all writes: see its log, and free disk space or repair its directory"
	case "OOM":
		return "Redis has reached its maxmemory: raise it, or store less with shorter TTLs or --channel-max-messages; " +
			"acknowledgements still work"
	case "NOREPLICAS":
		return "fewer replicas are connected than Redis's min-replicas-to-write: see why, or change that setting of Redis"
	case "LOADING":
		return "Redis is reading its data from disk: if it takes longer, raise --redis-connect-timeout"
	case "CLUSTERDOWN":
		return "not all slots of the Cluster have a primary that works: see redis-cli --cluster check"
	case "DENIED":
		return "Redis accepts connections from its own machine only: give it a password and set " + a.credentials() +
			", or set its protected-mode to no"
	case codeMaxClients:
		return "Redis has as many clients as its maxclients allows: raise it"
	}
	return a.ofTopology(text)
}

// ofTopology returns the advice for the error reply of a server that is of another sort than the options say.
func (a adviser) ofTopology(text string) string {
	switch {
	case strings.Contains(text, "cluster support disabled"):
		return fmt.Sprintf("a list of addresses is for a Cluster or Sentinels: set --%s to the address of this server, "+
			"or --redis-sentinel-master", a.option)
	case strings.Contains(text, "SELECT is not allowed in cluster mode"):
		return fmt.Sprintf("a Cluster has only database 0: remove the number from the URL of --%s", a.option)
	case strings.Contains(text, "DB index is out of range"):
		return fmt.Sprintf("Redis has fewer databases: change the number in the URL of --%s", a.option)
	case strings.Contains(text, "No such master"):
		return fmt.Sprintf("set --redis-sentinel-master to the name that the Sentinels' configuration has, not %q",
			a.sentinel)
	case a.sentinel != "" && strings.Contains(strings.ToLower(text), "unknown command 'sentinel"):
		return fmt.Sprintf("with --redis-sentinel-master, --%s has the addresses of Sentinels, and this is no Sentinel",
			a.option)
	}
	return ""
}

// refusedCommand finds the command in the error reply of a server. A subcommand follows a '|'.
var refusedCommand = regexp.MustCompile(`permissions to run the '([a-z|_.-]+)' command`)

// ofPermission returns the advice for an error reply that names a right that the user lacks.
func (a adviser) ofPermission(text string) string {
	command := refusedCommand.FindStringSubmatch(text)
	switch {
	case command != nil:
		return fmt.Sprintf("Redis's user %q lacks a right: ACL SETUSER %s +%s; tidemark doctor names all that it lacks",
			a.user, a.user, command[1])
	case strings.Contains(text, "channel"):
		return fmt.Sprintf("Redis's user %q lacks a right: ACL SETUSER %s &%s*, or set --key-prefix to the prefix of its "+
			"channels", a.user, a.user, a.prefix)
	case strings.Contains(text, "key"):
		return fmt.Sprintf("Redis's user %q lacks a right: ACL SETUSER %s ~%s*, or set --key-prefix to the prefix of its "+
			"keys", a.user, a.user, a.prefix)
	}
	return fmt.Sprintf("Redis's user %q may not run a command of a script: tidemark doctor names all rights that it lacks",
		a.user)
}

// identifyIn limits how long it may take to find what listens at all addresses, and probeIn at one.
const (
	identifyIn = 2 * time.Second
	probeIn    = identifyIn / 4
)

// identify looks what listens at the addresses after an error of the connection, and adds to the error what to change
// if that isn't a Redis that speaks as the options say. The result is then permanent.
func (c *Conn) identify(ctx context.Context, err error) error {
	if code(err) != codeNetwork || Advice(err) != "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), identifyIn)
	defer cancel()
	for _, address := range c.options.InitAddress {
		found := c.protocolAt(ctx, address)
		if advice := c.adviser.ofProtocol(address, found); advice != "" {
			return &explained{fmt.Errorf("%w: %w", ErrProtocol, err), advice}
		}
	}
	return err
}

// identifyEvery is the minimum time between two looks at what listens at the addresses of a Conn in use.
const identifyEvery = 10 * time.Second

// lookFor looks in the background what listens at the addresses after an error of the connection, and logs what to
// change, if anything: another program may have taken the port of Redis, or Redis was started with TLS.
func (c *Conn) lookFor(ctx context.Context, err error) {
	if code(err) != codeNetwork || errors.Is(err, context.Canceled) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	c.unlike.look(func() {
		if found := c.identify(ctx, err); Advice(found) != "" {
			c.logger.WarnContext(ctx, "redis can't be used", "error", found)
		}
	})
}

// protocol is what a server speaks.
type protocol string

const (
	protocolRedis protocol = "Redis"
	protocolTLS   protocol = "TLS"
	protocolHTTP  protocol = "HTTP"
	protocolHTTP2 protocol = "HTTP/2, as gRPC does"
	protocolOther protocol = "a protocol that isn't Redis's"
)

func (a adviser) ofProtocol(address string, found protocol) string {
	switch {
	case found == "", found == protocolRedis && !a.tls, found == protocolTLS && a.tls:
		return ""
	case found == protocolRedis:
		return fmt.Sprintf("%s speaks Redis without TLS: set --%s to redis:// in place of rediss://, "+
			"and don't set --redis-ca-file and --redis-cert-file", address, a.option)
	case found == protocolTLS:
		return fmt.Sprintf("%s speaks TLS: set --%s to rediss://, and --redis-ca-file unless an authority of the system "+
			"has signed Redis's certificate", address, a.option)
	}
	return fmt.Sprintf("%s speaks %s, so it is no Redis: set --%s to the address of one", address, found, a.option)
}

// protocolAt returns what the server at an address speaks, or "" if that can't be found.
func (c *Conn) protocolAt(ctx context.Context, address string) protocol {
	if found := c.probe(ctx, address, nil); found != "" {
		return found
	}
	//nolint:gosec // nothing but a PING is sent, to see whether TLS is spoken
	if c.probe(ctx, address, &tls.Config{InsecureSkipVerify: true}) != "" {
		return protocolTLS
	}
	return ""
}

// probe sends a PING, which Redis also takes without its protocol's framing, and returns what the reply looks like, or
// "" without one.
func (c *Conn) probe(ctx context.Context, address string, config *tls.Config) protocol {
	ctx, cancel := context.WithTimeout(ctx, probeIn)
	defer cancel()
	dialer := c.options.Dialer
	conn, err := c.options.DialCtxFn(ctx, address, &dialer, config)
	if err != nil {
		return protocolOfHandshake(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was written that matters
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // without one, Redis's own limits end it
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return ""
	}
	reply := make([]byte, 64)
	n, _ := conn.Read(reply) // what was read counts
	return protocolOf(reply[:n])
}

// protocolOfHandshake returns what a server speaks that refused a TLS handshake.
func protocolOfHandshake(err error) protocol {
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return protocolTLS
	}
	return ""
}

func protocolOf(reply []byte) protocol {
	text := string(reply)
	switch {
	case text == "":
		return ""
	case text[0] == '+', text[0] == '-':
		return protocolRedis
	case text[0] == 0x15, text[0] == 0x16: // an alert, a handshake
		return protocolTLS
	case strings.HasPrefix(text, "HTTP/"):
		return protocolHTTP
	case len(text) >= 9 && text[:2] == "\x00\x00" && text[3] == 4: // SETTINGS, the first frame
		return protocolHTTP2
	}
	return protocolOther
}
