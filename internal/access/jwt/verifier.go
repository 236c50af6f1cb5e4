package jwt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// DefaultClaim is the claim that has a token's grants.
const DefaultClaim = "tidemark"

// DefaultSubjectClaim is the claim that has a token's subject.
const DefaultSubjectClaim = "sub"

// Algorithms are the algorithms that can be configured.
var Algorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512",
}

// Options define which tokens are valid.
type Options struct {
	Keys       []string      // files, in PEM or as JSON Web Keys, and URLs of sets
	Algorithms []string      // some of Algorithms
	Issuer     string        // that iss must be; "": any
	Audience   []string      // aud must have one of them; none: tokens with an audience are refused
	Leeway     time.Duration // by which clocks may differ
	Claim      string        // that has the grants; "": DefaultClaim
	// SubjectClaim is the claim that is the user's subject; "": DefaultSubjectClaim.
	SubjectClaim string

	Transport http.RoundTripper // nil: one of its own
	Log       *slog.Logger      // nil: none
}

// What is wrong with a token, for the log.
var (
	errTooLong   = errors.New("the token is too long")
	errSignature = errors.New("the signature of the token is invalid")
	errAlgorithm = errors.New("the algorithm of the token isn't one of those that are configured")
	errNoKey     = errors.New("no key verifies the token: there is none with its key's ID, or for its algorithm")
)

// Verifier verifies tokens. It is an access.Authenticator. It is also an access.Revocations: tokens whose key was
// removed are revoked. Any number of goroutines may use it.
type Verifier struct {
	options Options
	keys    *keyring
	seen    *seen
	files   []*file
	sets    []*set
	log     *slog.Logger

	mu        sync.Mutex
	listeners map[*func()]struct{}
}

// New returns a verifier with the keys of the files. Its error names the key of the options that is wrong. Keys of sets
// are fetched by Run, or when they are needed.
func New(o Options) (*Verifier, error) {
	o.Claim, o.SubjectClaim = cmp.Or(o.Claim, DefaultClaim), cmp.Or(o.SubjectClaim, DefaultSubjectClaim)
	if err := o.check(); err != nil {
		return nil, err
	}
	v := &Verifier{options: o, keys: newKeyring(len(o.Keys)), seen: newSeen(), log: o.Log,
		listeners: make(map[*func()]struct{})}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	for i, name := range o.Keys {
		if strings.Contains(name, "://") {
			s, err := newSet(i, name, o.Transport)
			if err != nil {
				return nil, fmt.Errorf("jwtKeys: %w", err)
			}
			v.sets = append(v.sets, s)
			continue
		}
		f := &file{source: i, path: name}
		keys, err := f.read()
		if err == nil {
			err = o.fit(keys)
		}
		if err != nil {
			return nil, fmt.Errorf("jwtKeys: %s: %w", name, err)
		}
		v.keys.replace(i, keys)
		v.files = append(v.files, f)
	}
	return v, nil
}

func (o *Options) check() error {
	if len(o.Keys) == 0 {
		return errors.New("jwtKeys: isn't set")
	}
	if len(o.Algorithms) == 0 {
		return errors.New("jwtAlgorithms: isn't set")
	}
	for _, a := range o.Algorithms {
		if !slices.Contains(Algorithms, a) {
			return fmt.Errorf("jwtAlgorithms: %q isn't one of %s", a, strings.Join(Algorithms, ", "))
		}
	}
	registered := []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}
	switch {
	case slices.Contains(registered, o.Claim):
		return fmt.Errorf("jwtClaim: %q has a meaning of its own", o.Claim)
	case o.SubjectClaim != DefaultSubjectClaim && slices.Contains(append(registered, o.Claim), o.SubjectClaim):
		return fmt.Errorf("jwtSubjectClaim: %q has a meaning of its own", o.SubjectClaim)
	}
	return nil
}

// fit returns an error for a key that is for none of the algorithms.
func (o *Options) fit(keys []*key) error {
	for _, k := range keys {
		if !slices.ContainsFunc(k.algorithms, func(a string) bool { return slices.Contains(o.Algorithms, a) }) {
			return fmt.Errorf("has a key for %s, none of which is in jwtAlgorithms", strings.Join(k.algorithms, ", "))
		}
	}
	return nil
}

// Source is the state of a file of keys, or of a set of keys.
type Source struct {
	Name     string    // the path of the file, or host and path of the set's URL
	Failures uint64    // fetches that failed; of a file: changes after which it could not be read
	Fetched  time.Time // the last fetch that succeeded; zero: none, or it is a file
	Set      bool
}

// Sources returns the states of all files and sets.
func (v *Verifier) Sources() (all []Source) {
	for _, f := range v.files {
		all = append(all, Source{Name: f.path, Failures: f.failures.Load()})
	}
	for _, s := range v.sets {
		s.mu.Lock()
		all = append(all, Source{Name: s.name(), Failures: s.failed, Fetched: s.loaded, Set: true})
		s.mu.Unlock()
	}
	return all
}

// Accepts reports whether a credential has the three parts of a token. Credentials of the service itself begin with tm
// and aren't accepted. No token does: its header is a JSON object.
func (v *Verifier) Accepts(credential string) bool {
	return strings.Count(credential, ".") == 2 && !strings.HasPrefix(credential, "tm")
}

// Knows reports whether a token was verified before.
func (v *Verifier) Knows(token string) bool {
	return len(token) <= access.MaxCredentialBytes && v.seen.get(sha256.Sum256([]byte(token))) != nil
}

// soon is how long before its nbf a client is advised to try a token again: issuers' clocks differ by less.
const soon = time.Minute

// Authenticate returns the user that a token describes. Errors: access.ErrInvalidCredential with the reason as its
// cause, and with the time for a retry if the token begins soon, access.ErrExpired, access.ErrKeysUnavailable, and that
// of ctx. The expiry of a token that was seen before isn't checked again: access.Guard does that.
func (v *Verifier) Authenticate(ctx context.Context, token string) (*access.Principal, error) {
	if len(token) > access.MaxCredentialBytes {
		return nil, access.ErrInvalidCredential.WithCause(errTooLong)
	}
	d := sha256.Sum256([]byte(token))
	if p := v.seen.get(d); p != nil {
		return p, nil
	}
	h, err := readHeader(token)
	if err == nil && !slices.Contains(v.options.Algorithms, h.Algorithm) {
		err = errAlgorithm
	}
	if err != nil {
		return nil, access.ErrInvalidCredential.WithCause(err)
	}
	found, known, err := v.verify(token, h)
	if !known && (errors.Is(err, errNoKey) || errors.Is(err, errSignature)) && len(v.sets) > 0 {
		if errFetch := v.refresh(ctx); errFetch != nil {
			return nil, errFetch
		}
		found, _, err = v.verify(token, h)
	}
	switch {
	case errors.Is(err, access.ErrExpired):
		return nil, err
	case err != nil:
		invalid := access.ErrInvalidCredential.WithCause(err)
		if early := (*earlyError)(nil); errors.As(err, &early) && early.startsIn <= soon {
			invalid.RetryAfter = early.startsIn
		}
		return nil, invalid
	}
	v.seen.add(d, found)
	return found.principal, nil
}

// Revoked reports whether the key that verified a principal's token was removed.
func (v *Verifier) Revoked(p *access.Principal) bool {
	k, ok := p.Origin.(*key)
	return ok && k.removed.Load()
}

// Notify calls removed after keys were removed, until stop is called.
func (v *Verifier) Notify(removed func()) (stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners[&removed] = struct{}{}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.listeners, &removed)
	}
}

// replace replaces the keys of a source, and ends the tokens of removed keys.
func (v *Verifier) replace(source int, keys []*key) {
	if !v.keys.replace(source, keys) {
		return
	}
	v.seen.forget()
	v.mu.Lock()
	listeners := slices.Collect(maps.Keys(v.listeners))
	v.mu.Unlock()
	for _, removed := range listeners {
		(*removed)()
	}
}

// verify verifies a token with the current keys. known reports whether there is one with its key's ID. The error
// is errNoKey if none may verify it, and errSignature if none does.
func (v *Verifier) verify(token string, h header) (found verified, known bool, err error) {
	keys, known := v.keys.find(h.KeyID, h.Algorithm)
	if len(keys) == 0 {
		return verified{}, known, errNoKey
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(h.Algorithm)})
	if err != nil {
		return verified{}, known, errHeader // the library's error has parts of the token
	}
	for _, k := range keys {
		text, err := signed.Verify(k.material)
		if err != nil {
			continue
		}
		c, err := readClaims(text)
		if err == nil {
			c.setSubject(v.options.SubjectClaim)
			err = c.check(&v.options, time.Now())
		}
		if err != nil {
			return verified{}, known, err
		}
		p, err := c.principal(k, v.options.Claim, v.options.Leeway)
		return verified{principal: p, by: k, bytes: len(token)}, known, err
	}
	return verified{}, known, errSignature
}

// refresh fetches all sets again, unless that was tried a moment ago.
func (v *Verifier) refresh(ctx context.Context) error {
	var failed error
	for _, s := range v.sets {
		if err := v.fetch(ctx, s, unknownPause); err != nil {
			failed = err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		unavailable := access.ErrKeysUnavailable.WithCause(failed)
		unavailable.RetryAfter = retryPause
		return unavailable
	}
	return nil
}
