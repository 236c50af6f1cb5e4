package matchmaking

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"
)

// NewID returns a ULID that no other server makes. Its entropy is from crypto/rand: ulid's default is seeded with the time.
func NewID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// EpochAfter returns a new epoch that is later than another one, also where the clock of this server is behind.
func EpochAfter(earlier ulid.ULID) ulid.ULID {
	return ulid.MustNew(max(ulid.Now(), earlier.Time()+1), rand.Reader)
}
