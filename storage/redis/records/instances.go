package records

import (
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Instances are the connections to the Redis instances of records. They can be the same.
type Instances struct {
	Records, Sessions, Cache *redis.Conn
}

// Of returns the connection to the Redis that has the keys of a kind.
func (i *Instances) Of(k *records.Kind) *redis.Conn {
	switch k.Instance {
	case records.Sessions:
		return i.Sessions
	case records.Cache:
		return i.Cache
	case records.Records:
	}
	return i.Records
}
