package matchmaking

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"
)

// EpochAfter returns a new epoch that is later than another one, also where the clock of this server is behind.
func EpochAfter(earlier ulid.ULID) ulid.ULID {
	return ulid.MustNew(max(ulid.Now(), earlier.Time()+1), rand.Reader)
}
