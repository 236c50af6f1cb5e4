package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
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
	sentinel string
	tls      bool
	secrets  []string
}

func newAdviser(o Options, c rueidis.ClientOption) adviser {
	return adviser{
		option: cmp.Or(o.Option, "redis"), user: cmp.Or(c.Username, "default"), prefix: o.KeyPrefix,
		sentinel: c.Sentinel.MasterSet, tls: c.TLSConfig != nil,
		secrets: []string{c.Password, c.Sentinel.Password},
	}
}

// explain returns an error with what to change, if that is known, and without passwords.
func (a adviser) explain(err error) error {
	if err == nil || Advice(err) != "" {
		return err
	}
	err = a.hide(err)
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
	case errors.Is(err, ErrCluster):
		return fmt.Sprintf("set --%s to a standalone Redis, or leave out --records-keys plain", a.option)
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
		option := a.option
		if option == "redis" {
			option = "redis-server-name"
		}
		return fmt.Sprintf("set --%s to a name that Redis's certificate has, or give Redis a certificate for this name",
			option)
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
	case strings.Contains(strings.ToLower(text), "unknown command"), strings.Contains(text, "Unknown Redis command"):
		return "Redis lacks a command, or has renamed it: remove rename-command from its configuration, or use Redis 7.0 " +
			"or newer; tidemark doctor names all commands that it lacks"
	}
	return ""
}

// refusedCommand finds the command in the error reply of a server. A subcommand follows a '|'.
var refusedCommand = regexp.MustCompile(`permissions to run the '([a-z|_.-]+)' command`)

// ofPermission returns the advice for an error reply that names a right that the user lacks.
func (a adviser) ofPermission(text string) string {
	command := refusedCommand.FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "the user needs "): // of a script, with the commands
		return fmt.Sprintf("tidemark doctor names all rights that Redis's user %q lacks", a.user)
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

// identify returns an error if a server at one of the addresses isn't a Redis that speaks as the options say. The client
// must not connect to such a server: it panics on replies that it didn't ask for.
func (c *Conn) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), identifyIn)
	defer cancel()
	for _, address := range c.options.InitAddress {
		found, reply := c.protocolAt(ctx, address)
		if advice := c.adviser.ofProtocol(address, found); advice != "" {
			return &explained{fmt.Errorf("%w: to a PING it replied %.100q", ErrProtocol, reply), advice}
		}
	}
	return nil
}

// ofNetwork returns the advice for an address at which nothing was found.
func (a adviser) ofNetwork(err error) string {
	var unknown *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens there: start Redis, or set --%s to its address", a.option)
	case errors.As(err, &unknown):
		return fmt.Sprintf("the name can't be resolved: correct it in --%s, or in the DNS", a.option)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer: see that Redis runs and that no firewall is in between, or correct --%s", a.option)
	}
	return ""
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
		if err := c.identify(ctx); err != nil {
			c.logger.WarnContext(ctx, "redis can't be used", "error", err)
		}
	})
}

// protocol is the protocol of a server.
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

// protocolAt returns what the server at an address speaks, or "" if that can't be found, and its reply to a PING.
func (c *Conn) protocolAt(ctx context.Context, address string) (protocol, string) {
	//nolint:gosec // nothing but a PING is sent, to see whether TLS is spoken
	encrypted := &tls.Config{InsecureSkipVerify: true}
	if !c.adviser.tls {
		if reply := c.ping(ctx, address, nil); reply != "" {
			return protocolOf(reply), reply
		}
		if reply := c.ping(ctx, address, encrypted); reply != "" {
			return protocolTLS, reply
		}
		return "", ""
	}
	if reply := c.ping(ctx, address, encrypted); reply != "" {
		if found := protocolOf(reply); found != protocolRedis {
			return found, reply
		}
		return protocolTLS, reply
	}
	reply := c.ping(ctx, address, nil)
	return protocolOf(reply), reply
}

// ping sends a PING, and returns the beginning of the reply, or "" without one.
func (c *Conn) ping(ctx context.Context, address string, config *tls.Config) string {
	ctx, cancel := context.WithTimeout(ctx, probeIn)
	defer cancel()
	dialer := c.options.Dialer
	conn, err := c.options.DialCtxFn(ctx, address, &dialer, config)
	if err != nil {
		return replyOfHandshake(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was written that matters
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // without one, the limits of Redis end it
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return ""
	}
	reply := make([]byte, 100)
	n, err := conn.Read(reply)
	if n == 0 {
		return replyOfHandshake(err) // TLS 1.3 reports a missing certificate after the handshake
	}
	return string(reply[:n])
}

// replyOfHandshake returns the alert with which a server refused a TLS handshake, or "".
func replyOfHandshake(err error) string {
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return string(tlsAlert)
	}
	return ""
}

// The first bytes of messages of TLS.
const tlsAlert, tlsHandshake = '\x15', '\x16'

func protocolOf(reply string) protocol {
	switch {
	case reply == "":
		return ""
	case strings.HasPrefix(reply, "+PONG"), strings.HasPrefix(reply, "-ERR max number of clients"),
		reply[0] == '-' && !strings.HasPrefix(reply, "-ERR"): // such as NOAUTH and LOADING
		return protocolRedis
	case reply[0] == tlsAlert, reply[0] == tlsHandshake:
		return protocolTLS
	case strings.HasPrefix(reply, "HTTP/"):
		return protocolHTTP
	case len(reply) >= 9 && reply[:2] == "\x00\x00" && reply[3] == 4: // SETTINGS, the first frame
		return protocolHTTP2
	}
	return protocolOther
}
