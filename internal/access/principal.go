package access

import (
	"context"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/names"
)

// MaxSubjectBytes is the longest subject and the longest ID of a credential.
const MaxSubjectBytes = 256

// Kind is the sort of a principal.
type Kind int

// The kinds of principals.
const (
	Nobody        Kind = iota // without credentials: Anonymous
	APIKey                    // a back end
	User                      // has a JSON Web Token
	Session                   // a user, too
	TicketHolder              // may read and cancel one ticket
	Administrator             // may do everything: the local one, Local
)

// Principal is the client that a credential identifies. Requests share it: it is never changed.
type Principal struct {
	Kind    Kind
	Subject string // of a User or a Session
	// Credential names the credential, with Kind, for revocations: an API key's ID, a token's jti, a session's ID, the
	// ID of a TicketHolder's ticket. It is never secret.
	Credential string
	// Issued is when the credential was issued; zero: unknown. Of a TicketHolder it is when the ticket was created;
	// zero: the ticket's ID is never reused.
	Issued  time.Time
	Expires time.Time // the credential isn't accepted from then on; zero: it doesn't expire
	Grants  Grants
	// Origin is where the authenticator found the principal: the key that verified a token, or the session in memory,
	// which is Lasting. Its Revocations look there. nil: the credential is looked up by its name.
	Origin any
	Limits Limits // of an APIKey
}

// Lasting is an Origin whose credential is renewed: Ends replaces Principal.Expires. It counts the requests that wait.
type Lasting interface {
	// Ends returns when the credential ends, as far as is known now.
	Ends() time.Time
	// Held is called with 1 when a request begins to wait with the credential, and with -1 when it has ended.
	Held(waits int)
}

// Ends returns when the credential ends, as far as is known now; zero: never.
func (p *Principal) Ends() time.Time {
	if l, ok := p.Origin.(Lasting); ok {
		return l.Ends()
	}
	return p.Expires
}

var (
	anonymous = &Principal{Kind: Nobody}
	local     = &Principal{Kind: Administrator}
)

// Anonymous returns the principal without credentials.
func Anonymous() *Principal { return anonymous }

// Local returns the administrator who has access to the machine: the admin socket.
func Local() *Principal { return local }

// Name returns a name for limits and logs, such as "key:<id>" or "user:<subject>". It is not secret, and has at most
// MaxSubjectBytes and a few bytes more.
func (p *Principal) Name() string {
	switch p.Kind {
	case APIKey:
		return "key:" + p.Credential
	case User, Session:
		return "user:" + p.Subject
	case TicketHolder:
		return "ticket:" + p.Credential
	case Administrator:
		return "admin"
	case Nobody:
		return "anonymous"
	}
	return "anonymous"
}

// User returns the subject of a user, or "" if it is none, or has no subject. p may be nil.
func (p *Principal) User() string {
	if p == nil || !p.isUser() {
		return ""
	}
	return p.Subject
}

// ChannelName returns the name that stands for the subject of a user in names of channels and subscribers: see
// names.OfSubject.
func (p *Principal) ChannelName() string { return names.OfSubject(p.Subject) }

// isUser reports whether the principal has a subject.
func (p *Principal) isUser() bool { return (p.Kind == User || p.Kind == Session) && p.Subject != "" }

// owns reports whether a subscriber belongs to the principal, unless a grant says otherwise: the name of a user, or the
// name, a colon and a device. A name that has a colon itself owns no subscriber: ann:phone is a device of ann.
func (p *Principal) owns(subscriber string) bool {
	name := p.ChannelName()
	switch p.Kind {
	case APIKey, Administrator:
		return true
	case Nobody, TicketHolder:
		name = everybody
	case User, Session:
		if !p.ownsAny() {
			return false
		}
	}
	rest, ok := strings.CutPrefix(subscriber, name)
	return ok && (rest == "" || rest[0] == ':')
}

// ownsAny reports whether there are subscribers that belong to the principal, unless a grant says otherwise.
func (p *Principal) ownsAny() bool {
	return p.Kind != User && p.Kind != Session || p.Subject != "" && !strings.Contains(p.ChannelName(), ":")
}

type principalKey struct{}

// With returns a context that carries a principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the principal of a context, or nil if there is none, as on an open service.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
