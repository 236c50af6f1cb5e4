package assigner

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook's requests.
const (
	HeaderTimestamp      = "Tidemark-Timestamp"
	HeaderSignature      = "Tidemark-Signature"
	HeaderIdempotencyKey = "Idempotency-Key"
)

// DefaultTolerance is the default of Verifier.Tolerance.
const DefaultTolerance = 5 * time.Minute

const signatureVersion = "v1="

// Errors of a Verifier.
var (
	ErrSignature = errors.New("invalid webhook signature")
	ErrTimestamp = errors.New("invalid webhook timestamp")
)

// Verifier checks the signatures of webhook requests, in webhooks written in Go. It is safe for concurrent use.
type Verifier struct {
	// Secrets are the accepted secrets: one, or two while a secret is being replaced. Empty ones are ignored.
	Secrets []string
	// Tolerance is the largest difference between the timestamp and Now. 0: DefaultTolerance.
	Tolerance time.Duration
	// Now is the receiver's clock. nil: time.Now.
	Now func() time.Time
}

// Verify checks the headers and the unchanged body of a request. It fails with ErrTimestamp if the timestamp is missing
// or outside the tolerance, and with ErrSignature if no signature was made with one of the secrets. Its running time
// does not depend on the secrets.
func (v Verifier) Verify(header http.Header, body []byte) error {
	timestamp := header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is not a number of seconds", ErrTimestamp, HeaderTimestamp)
	}
	tolerance := v.Tolerance
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	if off := v.now().Sub(time.Unix(seconds, 0)).Abs(); off > tolerance {
		return fmt.Errorf("%w: more than %s from the current time", ErrTimestamp, tolerance)
	}
	for _, secret := range v.Secrets {
		if secret != "" && signed(header, signature(secret, timestamp, body)) {
			return nil
		}
	}
	return ErrSignature
}

func (v Verifier) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}

// signed reports whether want is among the signatures, which may be separated by commas.
func signed(header http.Header, want string) bool {
	found := false
	for _, line := range header.Values(HeaderSignature) {
		for given := range strings.SplitSeq(line, ",") {
			if hmac.Equal([]byte(strings.TrimSpace(given)), []byte(want)) {
				found = true
			}
		}
	}
	return found
}

// Sign sets the headers that sign a body, as in a webhook's requests. It is meant for tests of webhooks.
func Sign(header http.Header, secret string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set(HeaderTimestamp, timestamp)
	header.Set(HeaderSignature, signature(secret, timestamp, body))
}

func signature(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return signatureVersion + hex.EncodeToString(mac.Sum(nil))
}
