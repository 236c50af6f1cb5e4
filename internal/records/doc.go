// Package records keeps the records that Tidemark has in Redis besides channels and tickets. It has the table of their
// kinds, and the records that a row of the table and a verb suffice for: cached values, settings, views, states and
// statistics.
//
// A [Kind] describes one key pattern: the type, content and lifetime of its keys. A [Table] has all of them: those of
// the service, which are variables here, and those of the cached values of a site, which are data. The stores make
// their keys with kinds, docs/records.md and the diagnostics are made from a table.
//
//   - [Values] are the cached values. [SearchID] and [ListID] make the IDs of searches and lists, so that equal queries
//     have one key.
//   - [Settings] are the settings of applications, Discours.io's env_vars.
//   - [Views] counts views in memory and writes them once a second, reads totals, and imports the views of an earlier
//     system.
//   - [States] keeps fields of a process that is running, for an hour at most.
//   - [Stats] keeps counters by hour, day and week, and returns ranges of them.
//
// Each declares the interface of its storage, which is safe to repeat: a call whose answer was lost changes nothing a
// second time. The packages below this one have records with laws of their own: sessions, tokens, locks, followers, and
// the tier that reads values through nodes. Package site reads the table of a site.
//
// # What a reader of cached values can rely on
//
// After a put or an invalidation has returned, no process answers an older value for longer than Redis's notification
// takes to arrive there, and the process that made the change answers none at all; except for what nodes answer, see
// package internal/records/tier. An invalidation by tag or prefix removes all values with it whose puts had returned.
// Of a put and another change at the same time one counts as the last: a put that is overtaken by an invalidation
// doesn't store its value after that.
//
// The store doesn't know when a value was read from the source of truth: a put that begins after an invalidation stores
// its value, also if that is older.
//
// After a fail-over of Redis that loses its last writes, an invalidation can be lost, too. Values then stay until their
// TTL.
//
// # The order in which settings are written
//
// Each change of a setting is published on the channel [SettingsChannel], by name and without the value, so that a
// process is notified at once: it subscribes, lists the settings, and reads a setting again when a message names it.
//
// A setting is a mark in one index, and a value in a slot of its own. A put marks it, writes the value and publishes,
// in this order; a delete removes the value, then the mark, and publishes. If one of them is interrupted, a repeat
// completes it. A setting that becomes secret is marked before its value is written, and one that becomes public after
// that: no reader without access to secrets is ever shown one. While a put may still write a secret value, another one
// can't make the setting public: it stays secret, and the answer reports that.
package records
