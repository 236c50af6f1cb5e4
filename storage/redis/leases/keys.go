package leases

// Layout makes the keys of leases from their names. All keys of a lease must have the same hash tag, and so one slot.
type Layout struct {
	Holder func(name string) string // the key of the holder of a lease
	Topic  func(name string) string // the sharded pub/sub channel for notifications of its release
	// Fence is the key that keeps the last fence, so that the holder's key ends with the lease; nil: the holder's key
	// keeps it, for an hour longer.
	Fence func(name string) string
}

// of returns the keys of a lease that scripts get.
func (l *Layout) of(name string) []string {
	if l.Fence == nil {
		return []string{l.Holder(name)}
	}
	return []string{l.Holder(name), l.Fence(name)}
}

// layout returns the keys that docs/redis/leases.md documents.
func layout(prefix string) Layout {
	return Layout{
		Holder: func(name string) string { return holder(prefix, name) },
		Topic:  func(name string) string { return topic(prefix, name) },
	}
}

func holder(prefix, name string) string { return topic(prefix, name) + ".holder" }

func topic(prefix, name string) string { return prefix + "lease.{" + name + "}" }
