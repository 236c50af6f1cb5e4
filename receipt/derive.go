package receipt

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
)

// MACBytes is the length of a MAC of Derived.
const MACBytes = sha256.Size

// Derived signs data for a purpose other than receipts, with keys that are derived from those of a keyring. It follows
// the keyring's Replace. Many goroutines may use it.
type Derived struct {
	of      *Keyring
	purpose string
	keys    atomic.Pointer[derivedKeys]
}

type derivedKeys struct {
	from *keys
	all  [][]byte
}

// Derive returns the keys of a purpose. Data signed for one purpose isn't valid for another one, or as a receipt.
func (k *Keyring) Derive(purpose string) *Derived { return &Derived{of: k, purpose: purpose} }

// Sign returns the HMAC-SHA256 of data with the key derived from the keyring's first key.
func (d *Derived) Sign(data []byte) []byte { return macOf(d.current()[0], data) }

// Signed reports whether mac is the MAC of data with a key derived from any key of the ring. Its time doesn't depend on
// the content of mac.
func (d *Derived) Signed(data, mac []byte) bool {
	for _, key := range d.current() {
		if hmac.Equal(macOf(key, data), mac) {
			return true
		}
	}
	return false
}

// current returns the derived keys, in the order of the keyring's, by HKDF-SHA256 (RFC 5869) with the purpose as info.
func (d *Derived) current() [][]byte {
	from := d.of.keys.Load()
	if made := d.keys.Load(); made != nil && made.from == from {
		return made.all
	}
	made := &derivedKeys{from: from}
	for _, key := range from.all {
		derived, err := hkdf.Key(sha256.New, key, nil, d.purpose, sha256.Size)
		if err != nil {
			panic(fmt.Sprintf("receipt: derive a key: %v", err)) // impossible: the length is allowed
		}
		made.all = append(made.all, derived)
	}
	d.keys.Store(made)
	return made.all
}

func macOf(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil)
}
