package keys

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// Options configures a Registry.
type Options struct {
	Store  Store        // the store that all servers share
	File   string       // path of the file of keys; "": there is none
	Logger *slog.Logger // required
}

// Registry holds the API keys and revocations that a server knows. It may be used by many goroutines.
type Registry struct {
	store Store
	file  *file // nil: there is none
	log   *slog.Logger

	mu      sync.RWMutex // of the next two
	known   known
	written []Position // of changes made here, at most one more than maxUnread, that Refresh hasn't taken yet

	listening sync.Mutex // of listeners
	listeners map[*func()]struct{}

	reading sync.Mutex // of progress; held while the store is read
	progress
}

// known holds the known keys and revocations.
type known struct {
	stored  map[string]*entry // keys of the store, by ID
	filed   map[string]*entry // keys of the file, by ID
	revoked map[revoked]Revocation
}

// entry is a key and its principal. It is immutable.
type entry struct {
	Key
	principal *access.Principal
}

var (
	_ access.Authenticator = (*Registry)(nil)
	_ access.Revocations   = (*Registry)(nil)
)

// New returns a registry that knows the keys of its file. Refresh reads the store. The error is that of the file.
func New(o Options) (*Registry, error) {
	r := &Registry{
		store: o.Store, log: o.Logger, listeners: map[*func()]struct{}{},
		known: known{stored: map[string]*entry{}, filed: map[string]*entry{}, revoked: map[revoked]Revocation{}},
	}
	if o.File == "" {
		return r, nil
	}
	r.file = &file{path: o.File}
	keys, err := r.file.read()
	if err != nil {
		return nil, err
	}
	r.known.filed = keys
	return r, nil
}

// Accepts reports whether a credential has the form of an API key.
func (r *Registry) Accepts(credential string) bool { return strings.HasPrefix(credential, Prefix) }

// What is wrong with an API key, for the log.
var (
	errForm   = errors.New("it isn't an API key, or not all of it")
	errNoKey  = errors.New("there is no API key with its ID")
	errSecret = errors.New("the API key with its ID has another secret")
)

// Authenticate returns the principal of an API key. It only reads memory. Errors: access.ErrInvalidCredential,
// access.ErrExpired, access.ErrRevoked for a key that was deleted.
func (r *Registry) Authenticate(_ context.Context, credential string) (*access.Principal, error) {
	id, ok := idOf(credential)
	if !ok {
		return nil, access.ErrInvalidCredential.WithCause(errForm)
	}
	sum := sha256.Sum256([]byte(credential))
	r.mu.RLock()
	found, deleted := r.known.key(id), r.known.deleted(id)
	r.mu.RUnlock()
	switch {
	case found == nil && deleted:
		return nil, access.ErrRevoked
	case found == nil:
		return nil, access.ErrInvalidCredential.WithCause(errNoKey)
	case subtle.ConstantTimeCompare(sum[:], found.Hash[:]) != 1:
		return nil, access.ErrInvalidCredential.WithCause(errSecret)
	case !found.Expires.IsZero() && !time.Now().Before(found.Expires):
		return nil, access.ErrExpired
	}
	return found.principal, nil
}

// key returns the key with an ID, or nil.
func (k *known) key(id string) *entry {
	if found := k.filed[id]; found != nil {
		return found
	}
	return k.stored[id]
}

// deleted reports whether a key is known to have been deleted.
func (k *known) deleted(id string) bool {
	_, ok := k.revoked[revoked{RevokedKey, id}]
	return ok
}

// Revoked reports whether the credential of a principal was revoked. An API key that has changed, as in its grants,
// counts as revoked: requests that wait with it end, and the client must send it again.
func (r *Registry) Revoked(p *access.Principal) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p.Kind == access.APIKey {
		found := r.known.key(p.Credential)
		return found == nil || found.principal != p
	}
	return (p.Kind == access.User || p.Kind == access.Session) && r.known.revokes(p, time.Now())
}

// Notify calls f after something was revoked or a key has changed, until stop is called. f must not block.
func (r *Registry) Notify(f func()) (stop func()) {
	r.listening.Lock()
	defer r.listening.Unlock()
	r.listeners[&f] = struct{}{}
	return func() {
		r.listening.Lock()
		defer r.listening.Unlock()
		delete(r.listeners, &f)
	}
}

// notify calls the listeners.
func (r *Registry) notify() {
	r.listening.Lock()
	listeners := maps.Clone(r.listeners)
	r.listening.Unlock()
	for f := range listeners {
		(*f)()
	}
}

// Counts are numbers about a registry, for metrics.
type Counts struct {
	Keys        int // usable or expired, without those of the file
	Configured  int // keys of the file
	Revocations int
	Loads       int       // times that everything was read
	Current     time.Time // when the store last had no new changes; zero: never
}

// Counts returns the present numbers.
func (r *Registry) Counts() Counts {
	r.mu.RLock()
	c := Counts{Keys: len(r.known.stored), Configured: len(r.known.filed), Revocations: len(r.known.revoked)}
	r.mu.RUnlock()
	c.Loads, c.Current = int(r.loads.Load()), time.Unix(0, r.current.Load())
	return c
}
