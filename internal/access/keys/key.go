package keys

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

const (
	// Prefix begins every API key, so that scanners for leaked secrets can find it.
	Prefix = "tmk_"
	// MaxKeys is how many keys there may be in the store, and in the file.
	MaxKeys = 10_000
	// MaxRecordBytes is how large a key's record may be, as JSON.
	MaxRecordBytes = 16 << 10
	// MaxDescriptionBytes is how long a key's description may be.
	MaxDescriptionBytes = 1024
	// ExpiredLife is how long a key that has expired is still listed.
	ExpiredLife = 7 * 24 * time.Hour

	idBytes     = 10 // 16 characters of base32
	idLength    = 16
	secretBytes = 32
	keyLength   = len(Prefix) + idLength + 1 + 43
)

var (
	base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	idPattern   = regexp.MustCompile(`^[a-z2-7]{16}$`)
)

// Key is an API key without its secret.
type Key struct {
	ID          string          `json:"id,omitempty"`
	Hash        Hash            `json:"hash"` // of the whole key
	Description string          `json:"description,omitempty"`
	Grants      json.RawMessage `json:"grants"` // as access.ParseGrants reads them
	Limits      access.Limits   `json:"limits,omitzero"`
	Created     time.Time       `json:"created,omitzero"`
	Expires     time.Time       `json:"expires,omitzero"` // zero: never
	CreatedBy   string          `json:"createdBy,omitempty"`

	Configured bool `json:"-"` // it is from the file
}

// NewKey is the input of Create.
type NewKey struct {
	Description string
	Grants      json.RawMessage
	Limits      string    // as access.ParseLimits reads them
	Expires     time.Time // zero: never
	CreatedBy   string    // the name of the principal that makes it
}

// Hash is the SHA-256 of a key. Its text is hexadecimal.
type Hash [sha256.Size]byte

// MarshalText returns the hexadecimal text.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText parses the hexadecimal text.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("has %d characters, the SHA-256 of a key has %d hexadecimal digits", len(text),
			hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return errors.New("isn't hexadecimal")
	}
	return nil
}

// Generate makes a key, and returns it with its text, which is stored nowhere.
func Generate(n NewKey, now time.Time) (k Key, text string, err error) {
	limits, err := access.ParseLimits(n.Limits)
	if err != nil {
		return Key{}, "", invalidKey("limits", err.Error())
	}
	k = Key{
		ID: base32Lower.EncodeToString(random(idBytes)), Description: n.Description, Grants: compact(n.Grants),
		Limits:  limits,
		Created: now.UTC().Truncate(time.Millisecond), Expires: n.Expires.UTC(), CreatedBy: n.CreatedBy,
	}
	text = Prefix + k.ID + "_" + base64.RawURLEncoding.EncodeToString(random(secretBytes))
	k.Hash = sha256.Sum256([]byte(text))
	if !k.Expires.IsZero() && !k.Expires.After(now) {
		return Key{}, "", invalidKey("expires", "is in the past")
	}
	principal, err := k.check()
	if err != nil {
		return Key{}, "", err
	}
	if err := principal.Grants.CheckPatterns(); err != nil { // not of keys that exist: they go on working
		return Key{}, "", invalidGrants(err)
	}
	return k, text, nil
}

// random returns secret bytes. crypto/rand never fails.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// compact returns JSON without white space, and other text as it is.
func compact(text json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// idOf returns the ID in the text of a key.
func idOf(text string) (id string, ok bool) {
	if len(text) != keyLength || text[:len(Prefix)] != Prefix || text[len(Prefix)+idLength] != '_' {
		return "", false
	}
	return text[len(Prefix) : len(Prefix)+idLength], true
}

// check returns the principal of a key, or an error if the key is invalid.
func (k Key) check() (*access.Principal, error) {
	switch {
	case !idPattern.MatchString(k.ID):
		return nil, invalidKey("id", "isn't 16 characters from a to z and 2 to 7")
	case k.Hash == Hash{}:
		return nil, invalidKey("hash", "is missing: it is the SHA-256 of the key, in hexadecimal digits")
	case len(k.Description) > MaxDescriptionBytes || !utf8.ValidString(k.Description):
		return nil, invalidKey("description", fmt.Sprintf("isn't text of at most %d bytes", MaxDescriptionBytes))
	case len(k.Grants) == 0:
		return nil, invalidKey("grants", "is missing")
	}
	grants, err := access.ParseGrants(k.Grants)
	if err != nil {
		return nil, invalidGrants(err)
	}
	record, err := json.Marshal(k)
	if err != nil {
		return nil, invalidKey("", err.Error())
	}
	if len(record) > MaxRecordBytes {
		return nil, invalidKey("", fmt.Sprintf("has %d bytes as JSON, %d are allowed", len(record), MaxRecordBytes))
	}
	return &access.Principal{
		Kind: access.APIKey, Credential: k.ID, Issued: k.Created, Expires: k.Expires, Grants: grants, Limits: k.Limits,
	}, nil
}

// record returns the stored form of a key.
func (k Key) record() (Record, error) {
	id := k.ID
	k.ID = ""
	value, err := json.Marshal(k)
	if err != nil {
		return Record{}, fmt.Errorf("encode API key %s: %w", id, err)
	}
	r := Record{ID: id, Value: value}
	if !k.Expires.IsZero() {
		r.Until = k.Expires.Add(ExpiredLife)
	}
	return r, nil
}

// parseRecord is the inverse of record.
func parseRecord(r Record) (Key, error) {
	k := Key{}
	if err := strictjson.Unmarshal(r.Value, &k); err != nil {
		return Key{}, fmt.Errorf("the record of API key %.16q: %w", r.ID, err)
	}
	k.ID = r.ID
	return k, nil
}

func invalidKey(field, detail string) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidKey, Field: field,
		Detail: strings.TrimSpace(field + " " + detail)}
}

// invalidGrants returns the error for grants that can't be parsed, whose text begins with the place.
func invalidGrants(err error) error {
	place, _, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.Contains(place, " ") {
		place = "grants"
	}
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidKey, Field: place, Detail: err.Error()}
}
