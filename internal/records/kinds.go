package records

import "time"

const (
	day = 24 * time.Hour

	kib = 1 << 10
	mib = 1 << 20
)

// Reasons for permanent keys.
const (
	kept      = "kept until it is deleted"
	analytics = "data of analytics"
)

// The kinds of sessions and tokens.
var (
	SessionKind = define(Kind{
		Name: "session", Pattern: "session:{<user>}:<hash>", Type: Hash,
		Form: "its fields; the hash is the token's SHA-256",
		TTL:  30 * day, Secret: true, MaxBytes: 32 * kib, Instance: Sessions,
	})
	UserSessionsKind = define(Kind{
		Name: "user-sessions", Pattern: "user_sessions:{<user>}", Type: Set, Form: "hashes of the user's sessions",
		TTL: 30 * day, MaxBytes: mib, Instance: Sessions,
	})
	OAuthAccessKind = define(Kind{
		Name: "oauth-access", Pattern: "oauth_access:{<user>}:<provider>", Type: String, Form: "sealed token",
		TTL: time.Hour, Secret: true, MaxBytes: 16 * kib, Instance: Sessions,
	})
	OAuthRefreshKind = define(Kind{
		Name: "oauth-refresh", Pattern: "oauth_refresh:{<user>}:<provider>", Type: String, Form: "sealed token",
		TTL: 30 * day, Secret: true, MaxBytes: 16 * kib, Instance: Sessions,
	})
	OAuthStateKind = define(Kind{
		Name: "oauth-state", Pattern: "oauth_state:{<hash>}", Type: Hash,
		Form: "its fields; the hash is the state's SHA-256",
		TTL:  10 * time.Minute, Secret: true, MaxBytes: 16 * kib, Instance: Sessions,
	})
	VerificationKind = define(Kind{
		Name: "verification", Pattern: "verification:{<user>}:<type>:<hash>", Type: Hash,
		Form: "its fields; the hash is the token's SHA-256",
		TTL:  time.Hour, Secret: true, MaxBytes: 32 * kib, Instance: Sessions,
	})
	CurrentVerificationKind = define(Kind{
		Name: "verification-current", Pattern: "verification_current:{<user>}:<type>", Type: String,
		Form: "hash of the token that is valid",
		TTL:  time.Hour, MaxBytes: 64, Instance: Sessions,
	})
)

// The kinds of settings.
var (
	SettingKind = define(Kind{
		Name: "setting", Pattern: "env_vars:{<name>}", Type: String, Form: "text",
		Why: kept, Secret: true, MaxBytes: 16 * kib, Instance: Records,
	})
	SettingsKind = define(Kind{
		Name: "settings", Pattern: "env_vars", Type: Hash,
		Form: "name → `secret` or `public`, and when it was marked, in µs",
		Why:  "the index of the settings", MaxBytes: 2 * mib, Instance: Records,
	})
)

// The kinds of keys beside cached values.
var (
	CacheLoadKind = define(Kind{
		Name: "cache-load", Pattern: "cache_load:{<id>}:<kind>", Type: String,
		Form: "token of the put that is storing the value",
		TTL:  10 * time.Second, MaxBytes: 256, Instance: Cache, loads: true,
	})
	CacheTagKind = define(Kind{
		Name: "cache-tag", Pattern: "cache_tag:{<tag>}", Type: SortedSet,
		Form: "keys of the values with the tag, by when they end",
		TTL:  31 * day, MaxBytes: 64 * mib, Instance: Records, Quotes: true, // tags can be what users have typed
	})
	CachePrefixKind = define(Kind{
		Name: "cache-prefix", Pattern: "cache_prefix:{<kind>}", Type: SortedSet,
		Form: "IDs of the values of a kind, by their text",
		TTL:  31 * day, MaxBytes: 64 * mib, Instance: Records,
	})
	CacheEndsKind = define(Kind{
		Name: "cache-ends", Pattern: "cache_prefix_ends:{<kind>}", Type: SortedSet,
		Form: "IDs of the values of a kind, by when they end",
		TTL:  31 * day, MaxBytes: 64 * mib, Instance: Records,
	})
)

// The kinds of views, states, statistics and locks.
var (
	ViewedKind = define(Kind{
		Name: "viewed", Pattern: "viewed:{<id>}", Type: String, Form: "counter", Why: analytics, MaxBytes: 20,
		Instance: Records,
	})
	MigratedViewsKind = define(Kind{
		Name: "migrated-views", Pattern: "migrated_views_{<timestamp>}", Type: Hash,
		Form: "ID → views, _timestamp, _total",
		Why:  analytics, MaxBytes: 64 * mib, Instance: Records,
	})
	ViewedFlushKind = define(Kind{
		Name: "viewed-flush", Pattern: "viewed_flush:{<id>}:<process>", Type: String,
		Form: "number of the process's last flush with the ID",
		TTL:  10 * time.Minute, MaxBytes: 20, Instance: Records,
	})
	MigratedCurrentKind = define(Kind{
		Name: "migrated-current", Pattern: "migrated_views_current", Type: String,
		Form: "timestamp of the last import that is complete",
		Why:  analytics, MaxBytes: 20, Instance: Records,
	})
	MigratedSlugsKind = define(Kind{
		Name: "migrated-slugs", Pattern: "migrated_views_slugs", Type: Hash, Form: "slug → ID",
		Why: analytics, MaxBytes: 64 * mib, Instance: Records,
	})
	StateKind = define(Kind{
		Name: "state", Pattern: "state:{<process>}:<id>", Type: Hash, Form: "fields of the process",
		TTL: time.Hour, MaxBytes: 64 * kib, Instance: Records,
	})
	MetricKind = define(Kind{
		Name: "metric", Pattern: "metrics:{<name>}:<period>", Type: String, Form: "number",
		TTL: 30 * day, MaxBytes: 32, Instance: Records,
	})
	StatsKind = define(Kind{
		Name: "stats", Pattern: "stats:{<entity>}:<timeframe>", Type: Hash, Form: "counters",
		TTL: 30 * day, MaxBytes: 64 * kib, Instance: Records,
	})
	AddedKind = define(Kind{
		Name: "added", Pattern: "added:{<name>}:<counters>:<id>", Type: String,
		Form: "mark of an addition that isn't repeated",
		TTL:  time.Hour, MaxBytes: 1, Instance: Records,
	})
	LockKind = define(Kind{
		Name: "lock", Pattern: "lock:{<op>}:<id>", Type: String, Form: "fence, end, and SHA-256 of the holder's token",
		TTL: time.Hour, MaxBytes: 256, Instance: Records,
	})
	LockFenceKind = define(Kind{
		Name: "lock-fence", Pattern: "lock_fence:{<op>}:<id>", Type: String,
		Form: "last fence, 0, and SHA-256 of the token that has released the lock",
		TTL:  2 * time.Hour, MaxBytes: 256, Instance: Records,
	})
)

// PendingCopiesKind are the channels with messages that aren't copied to all followers yet.
var PendingCopiesKind = define(Kind{
	Name: "pending-copies", Pattern: "pending_copies:{all}", Type: SortedSet,
	Form: "channel → when a message was last announced, in ms",
	Why:  "emptied when all is copied", MaxBytes: 32 * mib, Instance: Records,
})
