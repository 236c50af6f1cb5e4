package adopt

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/settings"
)

// kind is a kind of Discours.io's keys. One of text, hash and note is set.
type kind struct {
	of     *records.Kind // the records of this service
	begin  string        // what its keys begin with
	end    string        // what they end with
	parts  int           // of its keys: 2 are separated by the last colon; 0: one
	note   string        // why its records aren't taken over
	shared bool          // the service has a key of the same name, so that it is never removed
	// text returns the change by which a text is taken over; its Adopted is empty if nothing is to be written. The error
	// is a refusal, with which only Adopted may be written, or one of the encryption.
	text func(r *run, one record, old Text, was State) (Change, error)
	// hash takes over a hash, or with Apply off, checks it.
	hash func(ctx context.Context, r *run, one record) outcome
}

// record is a key of Discours.io.
type record struct {
	kind *kind
	key  string
	ref  Ref
}

// Notes on kinds that aren't taken over.
const (
	atFirstUse = "the service accepts them with --legacy-sessions, and moves each when it is used"
	unknown    = "they end within an hour; the service knows only tokens that it has issued itself"
	ends       = "values with a TTL end by themselves"
	owned      = "the application's keys have no owner in them"
	otherIDs   = "the service makes their IDs of parameters; the application's have another form"
	running    = "they belong to a process that runs"
	beginAgain = "they begin again"
)

// plain are the kinds of Discours.io's keys besides those of cached values and of legacy sessions.
var plain = []*kind{
	{of: records.SourceSession, begin: "session:", note: atFirstUse},
	{of: records.SourceUserSessions, begin: "user_sessions:", note: atFirstUse},
	{of: records.OAuthAccess, begin: "oauth_access:", parts: 2, text: token},
	{of: records.OAuthRefresh, begin: "oauth_refresh:", parts: 2, text: token},
	{of: records.OAuthState, begin: "oauth_state:", note: unknown},
	{of: records.Verification, begin: "verification:", note: unknown},
	{of: records.Setting, begin: "env_vars:", text: setting},
	{of: records.Viewed, begin: "viewed:", text: views},
	{of: records.MigratedSlugs, begin: "migrated_views_slugs", shared: true, hash: slugs},
	{of: records.MigratedViews, begin: "migrated_views_", hash: imported},
	{of: records.Lock, begin: "lock:", note: running},
	{of: records.State, begin: "state:", note: running},
	{of: records.Metric, begin: "metrics:", note: beginAgain},
	{of: records.Stats, begin: "stats:", note: beginAgain},
}

// legacySession is the kind of sessions whose keys begin with their user.
var legacySession = &kind{of: records.LegacySession, note: atFirstUse}

// kinds are the kinds of a source's keys.
type kinds []*kind

// kindsOf returns the kinds of a source that caches values of a site's kinds.
func kindsOf(caches *entities.Kinds) kinds {
	all := slices.Clone(plain)
	for _, cache := range caches.All() {
		begin, rest, _ := strings.Cut(cache.Pattern, "{")
		_, end, _ := strings.Cut(rest, "}")
		k := &kind{of: cache.Kind, begin: begin, end: end, note: ends}
		switch {
		case cache.Owned():
			k.end, k.note = "", owned
		case cache.TTL != 0:
		case cache.Definition().IDs == "plain":
			k.note, k.text = "", cached(cache)
		default:
			k.note = otherIDs
		}
		all = append(all, k)
	}
	return append(all, legacySession)
}

// parse returns the record of a key of Discours.io: of the kind with the longest beginning that it has.
func (ks kinds) parse(key string) (record, bool) {
	if strings.ContainsAny(key, "{}") {
		return record{}, false
	}
	var k *kind
	for _, other := range ks {
		if other.begin != "" && strings.HasPrefix(key, other.begin) && strings.HasSuffix(key[len(other.begin):], other.end) &&
			(k == nil || len(other.begin)+len(other.end) > len(k.begin)+len(k.end)) {
			k = other
		}
	}
	if k == nil {
		_, ok := records.LegacySession.Parse(key)
		return record{kind: legacySession, key: key}, ok
	}
	rest := strings.TrimSuffix(key[len(k.begin):], k.end)
	one := record{k, key, Ref{k.of, []string{rest}}}
	switch {
	case k.of == records.MigratedSlugs:
		one.ref.Parts = nil
		return one, rest == ""
	case k.of == records.MigratedViews:
		_, err := strconv.ParseUint(rest, 10, 64)
		return one, err == nil
	case k.parts == 2:
		at := strings.LastIndex(rest, ":")
		if at < 0 {
			return record{}, false
		}
		one.ref.Parts = []string{rest[:at], rest[at+1:]}
	}
	return one, rest != ""
}

// Names returns the names of the kinds of records that a source has which caches values of a site's kinds.
func Names(caches *entities.Kinds) (names []string) {
	for _, k := range kindsOf(caches) {
		names = append(names, k.of.Name)
	}
	return names
}

// refusal is why a record can't be taken over.
type refusal string

func (r refusal) Error() string { return string(r) }

// ErrNoHash is the error of a source whose key isn't a hash.
var ErrNoHash error = refusal("it isn't a hash")

const (
	errWrongType = refusal("it isn't a string")
	errDiffers   = refusal("the service has another value, which stays")
	errRemoved   = refusal("the service had an earlier value, which was removed")
	errEnded     = refusal("the service had this value, which has ended or was removed")
	errBusy      = refusal("it kept changing")
)

// isRefusal reports whether an error concerns only one record.
func isRefusal(err error) bool {
	var reason refusal
	var f *fault.Error
	return errors.As(err, &reason) || errors.As(err, &f) && (f.Kind == fault.Invalid || f.Kind == fault.TooLarge) ||
		errors.Is(err, counters.ErrRange) || errors.Is(err, counters.ErrImport) || errors.Is(err, settings.ErrTooMany)
}
