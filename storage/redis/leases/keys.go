package leases

// Layout makes the keys of leases from their names. Both keys of a lease must have the same hash tag, and so one slot.
type Layout struct {
	Holder func(name string) string // the key of the holder of a lease
	Topic  func(name string) string // the sharded pub/sub channel for notifications of its release
}

// layout returns the keys that docs/redis-internals.md documents.
func layout(prefix string) Layout {
	return Layout{
		Holder: func(name string) string { return holder(prefix, name) },
		Topic:  func(name string) string { return topic(prefix, name) },
	}
}

func holder(prefix, name string) string { return topic(prefix, name) + ".holder" }

func topic(prefix, name string) string { return prefix + "lease.{" + name + "}" }
