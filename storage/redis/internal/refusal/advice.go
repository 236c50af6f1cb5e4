package refusal

import (
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

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/redact"
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

// Explained returns an error with what to change, which Advice returns.
func Explained(err error, advice string) error { return &explained{err, advice} }

// Advice returns what to change so that an error doesn't occur again, or "" if that isn't known.
func Advice(err error) string {
	var e *explained
	if errors.As(err, &e) {
		return e.advice
	}
	return ""
}

// Adviser explains errors. Its fields replace {option}, {user}, {prefix} and {sentinel} in the table's advice;
// {credentials} there stands for the options with the user and the password.
type Adviser struct {
	Option   string // that holds the URL
	User     string
	Prefix   string   // of keys
	Sentinel string   // name of the primary
	Secrets  []string // which no text may have
}

// Explain returns an error with what to change, if that is known, and without secrets.
func (a Adviser) Explain(err error) error {
	if err == nil || Advice(err) != "" {
		return err
	}
	err = a.hide(err)
	if advice := a.advice(err); advice != "" {
		return Explained(err, advice)
	}
	return err
}

func (a Adviser) advice(err error) string {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return a.ofCertificate(err)
	}
	return a.ofReply(reply.Error())
}

// ofReply returns the advice for the text of an error reply.
func (a Adviser) ofReply(text string) string {
	c := ofText(text)
	if c.Code == NoPermission {
		return a.ofPermission(text)
	}
	credentials := "--redis-username and --redis-password"
	if a.Option != "redis" {
		credentials = "the user and the password in the URL of --" + a.Option + ", or --" + a.Option + "-password-file"
	}
	return strings.NewReplacer("{option}", a.Option, "{user}", a.User, "{prefix}", a.Prefix, "{sentinel}", a.Sentinel,
		"{credentials}", credentials).Replace(c.advice)
}

// refusedCommand finds the command in the error reply of a server. A subcommand follows a '|'.
var refusedCommand = regexp.MustCompile(`permissions to run the '([a-z|_.-]+)' command`)

// ofPermission returns the advice for an error reply that names a right that the user lacks.
func (a Adviser) ofPermission(text string) string {
	command := refusedCommand.FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "the user needs "): // of a script, with the commands
		return fmt.Sprintf("tidemark doctor names all rights that Redis's user %q lacks", a.User)
	case command != nil:
		return fmt.Sprintf("Redis's user %q lacks a right: ACL SETUSER %s +%s; tidemark doctor names all that it lacks",
			a.User, a.User, command[1])
	case strings.Contains(text, "channel"):
		return fmt.Sprintf("Redis's user %q lacks a right: ACL SETUSER %s &%s*, or set --key-prefix to the prefix of its "+
			"channels", a.User, a.User, a.Prefix)
	case strings.Contains(text, "key"):
		return fmt.Sprintf("Redis's user %q lacks a right: ACL SETUSER %s ~%s*, or set --key-prefix to the prefix of its "+
			"keys", a.User, a.User, a.Prefix)
	}
	return fmt.Sprintf("Redis's user %q may not run a command of a script: tidemark doctor names all rights that it lacks",
		a.User)
}

// ofCertificate returns the advice for an error of a TLS handshake.
func (a Adviser) ofCertificate(err error) string {
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
		option := a.Option
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

// OfNetwork returns the advice for an address at which nothing was found.
func (a Adviser) OfNetwork(err error) string {
	var unknown *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens there: start Redis, or set --%s to its address", a.Option)
	case errors.As(err, &unknown):
		return fmt.Sprintf("the name can't be resolved: correct it in --%s, or in the DNS", a.Option)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer: see that Redis runs and that no firewall is in between, or correct --%s", a.Option)
	}
	return ""
}

// hidden is an error without the secrets in its text: some servers repeat the commands that they refuse.
type hidden struct {
	error

	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.error }

// hide removes the secrets from the text of an error.
func (a Adviser) hide(err error) error {
	text := err.Error()
	for _, secret := range a.Secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, redact.Mark)
		}
	}
	if text == err.Error() {
		return err
	}
	return &hidden{err, text}
}
