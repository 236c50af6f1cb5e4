package access

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxCredentialBytes is the longest credential. A longer one is refused before anything reads it.
const MaxCredentialBytes = 8 << 10

// Authenticator turns the credentials of one form into principals.
type Authenticator interface {
	// Accepts reports whether a credential looks like one that this authenticator reads, mostly by its prefix. It
	// leaves parsing to Authenticate.
	Accepts(credential string) bool
	// Authenticate returns the principal of a credential. Errors: ErrInvalidCredential, ErrExpired, ErrKeysUnavailable,
	// and those of the storage.
	Authenticate(ctx context.Context, credential string) (*Principal, error)
}

// Costly is an Authenticator that checks signatures, which take much longer than hashes.
type Costly interface {
	Authenticator
	// Knows reports whether a credential needs no check: it was found valid before, or is malformed.
	Knows(credential string) bool
}

// Owners knows the owners of tickets.
type Owners interface {
	// Owner returns the subject of the user who created a ticket, "" if an API key did, and the time of its creation.
	// It rarely reads the storage. Errors: one with fault.SlugNoTicket, and the store's.
	Owner(ctx context.Context, ticket string) (owner string, created time.Time, err error)
}

// Tickets are the tickets of matchmaking and their channels. With the zero value there are none, and no channel is a
// ticket's.
type Tickets struct {
	Owners     Owners
	Channels   string // prefix of the names of their channels, followed by the ticket's ID
	Subscriber string // of such a channel, the ticket's player
}

// of returns the ID of the ticket to which a channel belongs.
func (t *Tickets) of(channel string) (id string, ok bool) {
	if t.Owners == nil {
		return "", false
	}
	return strings.CutPrefix(channel, t.Channels)
}

// Revocations knows which credentials were revoked.
type Revocations interface {
	// Revoked reports whether a principal's credential was revoked. It only reads memory.
	Revoked(p *Principal) bool
	// Notify calls changed after each change, until stop is called.
	Notify(changed func()) (stop func())
}

// AllRevocations are the revocations of several sources.
type AllRevocations []Revocations

// Revoked reports whether a principal's credential was revoked in one of them.
func (a AllRevocations) Revoked(p *Principal) bool {
	return slices.ContainsFunc(a, func(r Revocations) bool { return r.Revoked(p) })
}

// Notify calls changed after each change of one of them, until stop is called.
func (a AllRevocations) Notify(changed func()) (stop func()) {
	var stops []func()
	for _, r := range a {
		stops = append(stops, r.Notify(changed))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Options are the parts of a Guard. Each may be missing.
type Options struct {
	Authenticators []Authenticator // the first one that accepts a credential decides
	Rules          []ChannelRule
	// Shared returns the rest of the name of a channel that belongs to no user, from where the names of users' channels
	// have the user, such as "topic:5" of notifications:topic:5, and "" for any other channel. No user's name, and nothing
	// that a rule captured, stands for a text that has the first byte of that rest. nil: there are no such channels.
	Shared  func(channel string) (rest string)
	Tickets Tickets
	Revoked Revocations
}

// Guard authenticates and authorizes requests. A nil Guard allows everything. Any number of goroutines may use it.
type Guard struct {
	authenticators []Authenticator
	rules          atomic.Pointer[Rules]
	shared         func(channel string) (rest string)
	tickets        Tickets
	revoked        Revocations

	mu      sync.Mutex
	holds   map[*hold]struct{} // that a revocation or a change of the rules can end
	stop    func()             // listening to revoked, while there are holds
	changed []func()           // of OnRules
}

// New returns a guard. It listens to o.Revoked while requests wait. The error names the invalid rule.
func New(o Options) (*Guard, error) {
	if t := &o.Tickets; t.Owners != nil && (t.Channels == "" || t.Subscriber == "") {
		return nil, errors.New("tickets need the names of their channels and of the subscriber")
	}
	rules, err := CompileRules(o.Rules)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		authenticators: slices.Clone(o.Authenticators), shared: o.Shared, tickets: o.Tickets, revoked: o.Revoked,
		holds: make(map[*hold]struct{}),
	}
	if g.shared == nil {
		g.shared = func(string) string { return "" }
	}
	g.rules.Store(&rules)
	return g, nil
}

// Authenticate returns the principal of a credential: Anonymous for "", and nil on an open service. Errors:
// ErrInvalidCredential, ErrExpired, ErrRevoked, and one of kind fault.Unavailable if the storage can't be read.
func (g *Guard) Authenticate(ctx context.Context, credential string) (*Principal, error) {
	switch {
	case g == nil:
		return nil, nil
	case credential == "":
		return anonymous, nil
	case len(credential) > MaxCredentialBytes:
		return nil, ErrInvalidCredential.WithCause(errTooLong)
	}
	for _, a := range g.authenticators {
		if !a.Accepts(credential) {
			continue
		}
		p, err := a.Authenticate(ctx, credential)
		if err == nil {
			err = g.Valid(p)
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return nil, ErrInvalidCredential.WithCause(errNoForm)
}

// IsCheap reports whether a credential can be authenticated without verifying a signature or reading the storage.
func (g *Guard) IsCheap(credential string) bool {
	if g == nil {
		return true
	}
	for _, a := range g.authenticators {
		if a.Accepts(credential) {
			costly, ok := a.(Costly)
			return !ok || costly.Knows(credential)
		}
	}
	return true // it is refused
}

// What is wrong with a credential, for the log.
var (
	errTooLong = errors.New("it is too long")
	errNoForm  = errors.New("it has no form that is accepted here")
	errSubject = errors.New("its subject or ID is too long, reserved, or has control characters")
)

// Revocable reports whether a revocation can name a subject or the ID of a token: others are refused, since nobody could
// revoke them.
func Revocable(name string) bool {
	return len(name) <= MaxSubjectBytes && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// Valid returns an error if the principal's credential has ended since it was authenticated, or if its subject is
// reserved or not Revocable. It only reads memory.
func (g *Guard) Valid(p *Principal) error {
	switch {
	case g == nil, p == nil:
		return nil
	case !Revocable(p.Subject), !Revocable(p.Credential), p.Subject == everybody:
		return ErrInvalidCredential.WithCause(errSubject)
	case hasEnded(p):
		return ErrExpired
	case g.revoked != nil && g.revoked.Revoked(p):
		return ErrRevoked
	}
	return nil
}

func hasEnded(p *Principal) bool {
	ends := p.Ends()
	return !ends.IsZero() && !time.Now().Before(ends)
}

// QueryToken reports whether a token may be sent in the query of a request to a channel. It returns false for requests
// without a channel (""), even if a rule matches the empty name.
func (g *Guard) QueryToken(channel string) bool {
	switch {
	case g == nil:
		return true
	case channel == "":
		return false
	}
	r := request{guard: g, resource: Resource{Channel: channel}}
	rule := r.rule()
	return rule != nil && rule.queryToken
}
