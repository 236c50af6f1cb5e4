package web

import (
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/oklog/ulid/v2"
)

// maxRequestIDBytes is the longest request ID that is accepted from a client.
const maxRequestIDBytes = 128

// requestID returns the ID that the client sent if it is sane, and otherwise a new ULID.
func requestID(header http.Header, now time.Time) string {
	if sent := header[headerRequestID]; len(sent) == 1 && saneRequestID(sent[0]) {
		return sent[0]
	}
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(now)) // fails only after the year 10889
	// An ID has to be unique, not secret.
	binary.BigEndian.PutUint64(id[6:], rand.Uint64())          //nolint:gosec // see above
	binary.BigEndian.PutUint16(id[14:], uint16(rand.Uint32())) //nolint:gosec // see above
	return id.String()
}

// saneRequestID reports whether an ID is short and consists of visible ASCII characters, so that it can't forge log lines.
func saneRequestID(id string) bool {
	if id == "" || len(id) > maxRequestIDBytes {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
