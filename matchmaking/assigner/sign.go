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

// The headers of a webhook's calls.
const (
	HeaderTimestamp      = "Tidemark-Timestamp"
	HeaderSignature      = "Tidemark-Signature"
	HeaderIdempotencyKey = "Idempotency-Key"
)

// DefaultTolerance is how far a call's time may be from the receiver's, where a Verifier doesn't say.
const DefaultTolerance = 5 * time.Minute

const signatureVersion = "v1="

// Errors of a Verifier.
var (
	ErrSignature = errors.New("the webhook's signature isn't right")
	ErrTimestamp = errors.New("the webhook's timestamp isn't right")
)

// Verifier tells whether a webhook's call comes from who knows the secret, for those who write webhooks in Go. It is
// safe for concurrent use.
type Verifier struct {
	// Secrets are those that are accepted: one, or two while a secret is being replaced. Empty ones aren't counted.
	Secrets []string
	// Tolerance is how far the call's time may be from Now. 0: DefaultTolerance.
	Tolerance time.Duration
	// Now is the receiver's clock. nil: time.Now.
	Now func() time.Time
}

// Verify checks the headers and the body of a call, the body as it was received. Errors: ErrTimestamp, where the
// call's time is missing or too far off; ErrSignature, where none of the signatures is made with one of the secrets.
// How long it takes tells nothing of the secrets.
func (v Verifier) Verify(header http.Header, body []byte) error {
	timestamp := header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s has no number of seconds", ErrTimestamp, HeaderTimestamp)
	}
	tolerance := v.Tolerance
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	if off := v.now().Sub(time.Unix(seconds, 0)).Abs(); off > tolerance {
		return fmt.Errorf("%w: it is more than %s off", ErrTimestamp, tolerance)
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

// signed tells whether one of the header's signatures, which commas may separate, is this one.
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

// Sign sets the headers that sign a body, as a webhook's calls have them: for tests of webhooks.
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
