// Package tier reads cached values for the nodes of the read tier, and announces their changes. Start from [NewValues]
// and [NewAnnouncer].
//
// It has no keys of its own: values are those of package storage/redis/records/cache, and announcements are messages of
// channels.

package records
