package leases

// Layout makes the keys of leases from their names. All keys of a lease must have one hash tag, and so one slot.
type Layout struct {
	Lease func(name string) string // the key of a lease
	Topic func(name string) string // the sharded pub/sub channel that tells of its release
}

// layout returns the keys of docs/redis-internals.md. The name of a lease is its hash tag.
func layout(prefix string) Layout {
	key := func(name string) string { return prefix + "lease.{" + name + "}" }
	return Layout{Lease: key, Topic: key}
}
