package shards

// keys makes the keys of a cache. They share its name as hash tag, and so one slot.
type keys struct{ prefix, cache string }

// base returns the common beginning of all keys.
func (k keys) base() string { return k.prefix + "sc.{" + k.cache + "}." }

// dcs returns the key of the set of the cache's data centres.
func (k keys) dcs() string { return k.base() + "dcs" }

// layout returns the key of the layout of a data centre.
func (k keys) layout(dc string) string { return k.base() + "layout." + dc }

// shards returns the key of the holders of the shards of a data centre.
func (k keys) shards(dc string) string { return k.base() + "shards." + dc }

// topic returns the sharded pub/sub channel for notifications of a data centre.
func (k keys) topic(dc string) string { return k.base() + "changed." + dc }
