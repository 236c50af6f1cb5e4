// Package records has the options of records, as serve's configuration knows them.

package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/tokens"
)

// RecordOptions configures records.
type RecordOptions struct {
	On       bool
	Sessions SessionOptions
	OAuth    OAuthOptions
	Cache    CacheOptions
	Metrics  KeyMetricsOptions
}

// KeyMetricsOptions configures the metrics of keys, by kind.
type KeyMetricsOptions struct {
	Kinds []string // none: nothing is counted
	Every time.Duration
	Rate  int // keys to look at in a second
}

// SessionOptions configures sessions, and the tokens that are beside them.
type SessionOptions struct {
	Redis  string        // URL of another Redis for them; "": that of the channels
	TTL    time.Duration // of a session without activity
	Grants access.Grants // of a session's token
	Legacy bool          // the forms of the source's applications are accepted, and moved
}

// OAuthOptions configures the tokens of providers.
type OAuthOptions struct {
	Providers []string
	Keyset    string // file of the keys that seal the tokens; "": there are no OAuth tokens
}

// CacheOptions configures caches.
type CacheOptions struct {
	Redis  string // URL of another Redis for them, which may evict; "": that of the channels
	Memory int    // bytes for values that were read, in each process
}

// MinSessionTTL is the shortest life of a session.
const MinSessionTTL = time.Minute

// MaxSessionTTL is the longest life of a session: the TTL of its kind.
var MaxSessionTTL = records.Session.TTL

// ParseProvider parses the name of an OAuth provider.
func ParseProvider(text string) (string, error) { return text, tokens.CheckProvider(text) }

// ParseKind parses the name of a kind of keys, or "unknown".
func ParseKind(text string) (string, error) {
	if text == "unknown" || slices.ContainsFunc(slices.Concat(records.Kinds, records.Others),
		func(k *records.Kind) bool { return k.Name == text }) {
		return text, nil
	}
	return "", fmt.Errorf("%.64q is no kind of keys: tidemark kinds lists them", text)
}

// ParseGrants parses the grants of sessions.
func ParseGrants(text string) (access.Grants, error) { return access.ParseGrants([]byte(text)) }
