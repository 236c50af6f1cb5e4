// Package sessions keeps sessions in Redis. [Store] implements the store of package records/sessions;
// docs/redis-internals.md documents the keys and the scripts.
//
// A session and the set of its user's sessions have one slot, that of the user. Each operation is one script. Only the
// keys of the source's applications, which are read and removed once, have slots of their own.
//
// Errors of Redis are those of package fault: unavailable if Redis can't be reached or refuses writes, internal
// otherwise.

package records
