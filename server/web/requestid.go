package web

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/id"
)

// maxRequestIDBytes is the longest request ID that is accepted from a client.
const maxRequestIDBytes = 128

// RequestID returns the ID that a client sent if it is sane, and otherwise a new ULID.
func RequestID(sent []string, now time.Time) string {
	if len(sent) == 1 && saneRequestID(sent[0]) {
		return sent[0]
	}
	return id.At(now).String()
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
