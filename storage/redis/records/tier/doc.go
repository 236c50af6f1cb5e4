// Package tier reads cached values for the nodes of the read tier. Start from [NewValues].
//
// It has no keys of its own: values are those of package storage/redis/records/cache.
package tier
