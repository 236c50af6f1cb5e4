// Package records has the options of records, as serve's configuration knows them.
package records

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records"
)

// Options configures records.
type Options struct {
	On       bool
	Sessions Sessions
	OAuth    OAuth
	Cache    Cache
	Metrics  KeyMetrics
}

// KeyMetrics configures the metrics of keys, by kind.
type KeyMetrics struct {
	Kinds []string // none: nothing is counted
	Every time.Duration
	Rate  int // keys to look at in a second
}

// Sessions configures sessions, and the tokens that are beside them.
type Sessions struct {
	Redis  string        // URL of another Redis for them; "": that of the channels
	TTL    time.Duration // of a session without activity
	Grants access.Grants // of a session's token
	Legacy bool          // the forms of the source's applications are accepted, and moved
}

// OAuth configures the tokens of providers.
type OAuth struct {
	Providers []string
	Keyset    string // file of the keys that seal the tokens; "": there are no OAuth tokens
}

// Cache configures caches.
type Cache struct {
	Redis  string // URL of another Redis for them, which may evict; "": that of the channels
	Memory int    // bytes for values that were read, in each process
}

// Bounds of sessions.
const (
	MinSessionTTL = time.Minute
	maxProviders  = 64
)

// MaxSessionTTL is the longest life of a session: the TTL of its kind.
var MaxSessionTTL = records.Session.TTL

var provider = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// ParseProvider parses the name of an OAuth provider.
func ParseProvider(text string) (string, error) {
	if !provider.MatchString(text) {
		return "", fmt.Errorf("%.64q isn't a provider, such as google: lower-case letters, digits, - and _", text)
	}
	return text, nil
}

// ParseKind parses the name of a kind of keys, or "unknown".
func ParseKind(text string) (string, error) {
	if text == "unknown" || slices.ContainsFunc(slices.Concat(records.Kinds, records.Others), func(k *records.Kind) bool { return k.Name == text }) {
		return text, nil
	}
	return "", fmt.Errorf("%.64q is no kind of keys: tidemark kinds lists them", text)
}

// CheckProviders refuses duplicates, and too many.
func CheckProviders(list []string) error {
	if len(list) > maxProviders {
		return fmt.Errorf("%d providers, at most %d are possible", len(list), maxProviders)
	}
	for i, one := range list {
		if slices.Contains(list[:i], one) {
			return fmt.Errorf("%q is there twice", one)
		}
	}
	return nil
}

// ParseGrants parses the grants of sessions.
func ParseGrants(text string) (access.Grants, error) { return access.ParseGrants([]byte(text)) }
