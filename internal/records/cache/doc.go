// Package cache defines the store of the cached values of a site. Start from [Store]. Package
// storage/redis/records/cache implements it; package internal/records/entities checks what is put, and package
// internal/records/tier reads through nodes.
//
// # What a reader can rely on
//
// After a put or an invalidation has returned, no process answers an older value for longer than Redis's notification
// takes to arrive there, and the process that made the change answers none at all; except for what nodes answer, see
// package internal/records/tier. An invalidation by tag or prefix
// removes all values with it whose puts had returned. Of a put and another change at the same time one counts as the
// last: a put that is overtaken by an invalidation doesn't store its value after that.
//
// The store doesn't know when a value was read from the source of truth: a put that begins after an invalidation stores
// its value, also if that is older.
//
// After a fail-over of Redis that loses its last writes, an invalidation can be lost, too. Values then stay until their
// TTL.
package cache
