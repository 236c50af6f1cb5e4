package keys

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
)

// Kind is the kind of credentials that a revocation is about.
type Kind string

// The kinds of revocations.
const (
	RevokedToken   Kind = "jti"     // the token with this jti
	RevokedSubject Kind = "subject" // all credentials of a subject from before the revocation
	RevokedKey     Kind = "key"     // an API key: it was deleted
)

const (
	// DefaultLife is how long a revocation lasts if its end isn't given. It must be longer than the lives of tokens.
	DefaultLife = 30 * 24 * time.Hour
	// MaxLife is how long a revocation may last.
	MaxLife = 400 * 24 * time.Hour
	// MaxRevocations is how many there may be at a time.
	MaxRevocations = 100_000
	// Margin is added to the requested life of a revocation: a token may be accepted for some time after its end,
	// because clocks differ.
	Margin = time.Hour
)

// Revocation makes credentials invalid before they expire. The zero time means now for At, and DefaultLife for Until.
type Revocation struct {
	Kind  Kind
	Name  string
	At    time.Time // when it was revoked: it is about a subject's credentials from before
	Until time.Time // when it ends
}

// revoked identifies what a revocation is about.
type revoked struct {
	kind Kind
	name string
}

func (r Revocation) of() revoked { return revoked{r.Kind, r.Name} }

// String returns the form that cursors contain.
func (r revoked) String() string { return string(r.kind) + ":" + r.name }

// check returns an error unless the revocation of a token or a subject is valid.
func (r Revocation) check(now time.Time) error {
	switch {
	case r.Kind != RevokedToken && r.Kind != RevokedSubject:
		return invalidRevocation("", "give either jti or subject")
	case len(r.Name) == 0 || len(r.Name) > access.MaxSubjectBytes:
		return invalidRevocation(string(r.Kind), fmt.Sprintf("has %d bytes, it must have from 1 to %d", len(r.Name),
			access.MaxSubjectBytes))
	case !access.Revocable(r.Name):
		return invalidRevocation(string(r.Kind), "has characters that can't be printed")
	case r.Until.IsZero():
		return nil
	case !r.Until.After(now):
		return invalidRevocation("until", "is in the past")
	case r.Until.After(now.Add(MaxLife)):
		return invalidRevocation("until", fmt.Sprintf("is more than %d days from now", int(MaxLife.Hours()/24)))
	}
	return nil
}

func invalidRevocation(field, detail string) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidRevocation, Field: field,
		Detail: strings.TrimSpace(field + " " + detail)}
}

// revokes reports whether a principal's credential is revoked by its jti or its subject.
func (k *known) revokes(p *access.Principal, now time.Time) bool {
	if p.Credential != "" {
		if r, ok := k.revoked[revoked{RevokedToken, p.Credential}]; ok && now.Before(r.Until) {
			return true
		}
	}
	if p.Subject == "" {
		return false
	}
	r, ok := k.revoked[revoked{RevokedSubject, p.Subject}]
	return ok && now.Before(r.Until) && !p.Issued.After(r.At)
}
