// Package keyset encrypts values with the keys of a file, by Tink (github.com/tink-crypto/tink-go). It is the sealer of
// package internal/records/tokens.
//
// The file is a Tink keyset in JSON, in the clear: read access to it suffices to decrypt. [Create] makes it readable by
// its owner only, and [Open] refuses one that others may read. New values are sealed with the keyset's primary key,
// AES-256-GCM; values sealed with the other keys can still be opened.
//
// # Rotation
//
// [Stage] adds a key that isn't used yet, and [Rotate] makes the newest key the primary one. A server reads its file at
// start-up. So with several servers, stage a key, give all of them the file, and rotate then: no server receives a
// value sealed with a key that it doesn't have.
package keyset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	// MaxKeys is the maximum number of keys in a keyset.
	MaxKeys = 100

	maxFileBytes = 64 << 10
	fileMode     = 0o600
	notOwners    = 0o037 // forbidden file modes: any access by others, more than read access by the group
	prefixBytes  = 5     // of a sealed value: a version, and the ID of its key
)

// Errors of opening values.
var (
	// ErrUnknownKey means that a value was sealed with a key that isn't in the keyset.
	ErrUnknownKey = errors.New("it was sealed with a key that isn't in the keyset")
	// ErrNotSealed means that a value was changed, was sealed for another purpose, or was never sealed.
	ErrNotSealed = errors.New("it isn't what was sealed for this purpose")
)

// Keyset seals and opens values. It may be used by many goroutines.
type Keyset struct {
	handle    *keyset.Handle
	primitive tink.AEAD
}

// Open reads the keyset in a file.
func Open(path string) (*Keyset, error) {
	k, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("keyset %s: %w", path, err)
	}
	return k, nil
}

func open(path string) (*Keyset, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, bare(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, bare(err)
	}
	if mode := info.Mode().Perm(); mode&notOwners != 0 {
		return nil, fmt.Errorf("its mode is %04o, so that others can read or change it: use chmod %04o", mode, fileMode)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("has more than %d bytes", maxFileBytes)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, errors.New(
			`isn't a keyset: make one with "tidemark oauth keyset create"`) // Tink's error could contain parts of it
	}
	return of(handle)
}

// bare returns the reason without the path, which the caller knows.
func bare(err error) error {
	var failed *os.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// of returns a keyset whose keys can seal. Keys without an ID prefix are refused, since they can't be distinguished.
func of(handle *keyset.Handle) (*Keyset, error) {
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, errors.New("has keys of another sort than AEAD")
	}
	for _, info := range handle.KeysetInfo().GetKeyInfo() {
		if info.GetOutputPrefixType().String() != "TINK" {
			return nil, errors.New("has a key without a prefix of Tink")
		}
	}
	return &Keyset{handle: handle, primitive: primitive}, nil
}

// Keys returns how many keys there are.
func (k *Keyset) Keys() int { return k.handle.Len() }

// Seal encrypts a value for a purpose.
func (k *Keyset) Seal(value, purpose []byte) ([]byte, error) {
	sealed, err := k.primitive.Encrypt(value, purpose)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open decrypts a value that was sealed for the same purpose. Errors: ErrUnknownKey, ErrNotSealed.
func (k *Keyset) Open(sealed, purpose []byte) ([]byte, error) {
	value, err := k.primitive.Decrypt(sealed, purpose)
	switch {
	case err == nil:
		return value, nil
	case len(sealed) > prefixBytes && sealed[0] == 1 && !slices.Contains(k.ids(), binary.BigEndian.Uint32(sealed[1:])):
		return nil, ErrUnknownKey
	}
	return nil, ErrNotSealed
}

func (k *Keyset) ids() []uint32 {
	var ids []uint32
	for _, info := range k.handle.KeysetInfo().GetKeyInfo() {
		ids = append(ids, info.GetKeyId())
	}
	return ids
}

// Create writes a keyset of one key to a new file. It never overwrites a file.
func Create(path string) error {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode) //nolint:gosec // the operator's file
	if err != nil {
		return fmt.Errorf("create a keyset: %w", err)
	}
	return write(file, handle)
}

// Stage adds a key that isn't used for sealing yet.
func Stage(path string) error {
	return change(path, func(m *keyset.Manager, _ []uint32, _ uint32) error {
		_, err := m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// Rotate makes the newest key the primary one. If it is that already, Rotate adds a key first.
func Rotate(path string) error {
	return change(path, func(m *keyset.Manager, ids []uint32, primary uint32) (err error) {
		newest := ids[len(ids)-1]
		if newest == primary {
			if newest, err = m.Add(aead.AES256GCMKeyTemplate()); err != nil {
				return err
			}
		}
		return m.SetPrimary(newest)
	})
}

// change replaces the file with a changed keyset atomically, also in a crash.
func change(path string, do func(m *keyset.Manager, ids []uint32, primary uint32) error) error {
	k, err := Open(path)
	if err != nil {
		return err
	}
	if k.Keys() >= MaxKeys {
		return fmt.Errorf("keyset %s: has %d keys, at most %d are allowed", path, k.Keys(), MaxKeys)
	}
	m := keyset.NewManagerFromHandle(k.handle)
	if err := do(m, k.ids(), k.handle.KeysetInfo().GetPrimaryKeyId()); err != nil {
		return fmt.Errorf("keyset %s: %w", path, err)
	}
	handle, err := m.Handle()
	if err != nil {
		return fmt.Errorf("keyset %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".keyset-*") // its mode is 0600
	if err != nil {
		return fmt.Errorf("keyset %s: %w", path, err)
	}
	if err = write(file, handle); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("keyset %s: %w", path, err)
	}
	return nil
}

// write writes a keyset to a new file, and closes it.
func write(file *os.File, handle *keyset.Handle) error {
	var text bytes.Buffer
	err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text))
	if err == nil {
		_, err = file.Write(append(text.Bytes(), '\n'))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
