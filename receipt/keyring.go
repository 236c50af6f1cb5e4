package receipt

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
)

// Errors of Verify. They come wrapped: use errors.Is.
var (
	// ErrMalformed says that the text isn't a handle: it isn't base64url, its
	// length doesn't fit, its version is unknown, or its clock is no clock.
	ErrMalformed = errors.New("receipt handle is malformed")
	// ErrForged says that no key of the ring signed the handle: it was
	// damaged, made up, or signed with a key that was since removed.
	ErrForged = errors.New("receipt handle is not signed with a known key")
	// ErrWrongChannel says that the handle was given out for another channel.
	ErrWrongChannel = errors.New("receipt handle is of another channel")
	// ErrWrongSubscriber says that the handle was given out to another
	// subscriber of the channel.
	ErrWrongSubscriber = errors.New("receipt handle is of another subscriber")
)

// Keyring signs and verifies handles. Any number of goroutines may use one.
// Make one with NewKeyring; the zero value has no keys and must not be used.
type Keyring struct {
	workers atomic.Pointer[sync.Pool] // of *worker, all with the same keys
}

// worker is what one call of Sign or Verify needs. It is used by one goroutine
// at a time and kept for the next call, as making it costs more than its work.
type worker struct {
	macs []hash.Hash // one for each key, in the order of the keys
	raw  [maxRawBytes]byte
	text [MaxHandleBytes]byte
	sum  [sha256.Size]byte
}

// NewKeyring returns a keyring whose first key signs and all of whose keys
// verify, so that a key can be replaced: put the new one first and remove the
// old one when its last handles have no more use. On several servers, add the
// new key as a second one everywhere before it becomes the first anywhere.
// The keys are copied. The error is ErrNoKey or ErrShortKey.
func NewKeyring(keys ...Key) (*Keyring, error) {
	k := &Keyring{}
	if err := k.Replace(keys...); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace replaces all keys, under the same rules as NewKeyring. Calls of Sign and
// Verify that run at the same time use either the keys before or these. If there
// is an error, ErrNoKey or ErrShortKey, the keyring keeps its keys.
func (k *Keyring) Replace(keys ...Key) error {
	if len(keys) == 0 {
		return ErrNoKey
	}
	owned := make([]Key, len(keys))
	for i, key := range keys {
		if err := key.check(); err != nil {
			return fmt.Errorf("key %d of %d: %w", i+1, len(keys), err)
		}
		owned[i] = slices.Clone(key)
	}
	k.workers.Store(&sync.Pool{New: func() any {
		w := &worker{macs: make([]hash.Hash, len(owned))}
		for i, key := range owned {
			w.macs[i] = hmac.New(sha256.New, key)
		}
		return w
	}})
	return nil
}

// Sign returns the handle of r, at most MaxHandleBytes long. The same receipt
// under the same key has the same handle. Sign panics if a name is longer than
// MaxNameBytes or the clock is not Valid: both are to be checked where they
// come in.
func (k *Keyring) Sign(r Receipt) string {
	if max(len(r.Channel), len(r.Subscriber), len(r.MessageID)) > MaxNameBytes {
		panic(fmt.Sprintf("receipt: name of more than %d bytes", MaxNameBytes))
	}
	if !r.Clock.Valid() {
		panic(fmt.Sprintf("receipt: %d is no clock", r.Clock))
	}
	workers := k.workers.Load()
	w := workers.Get().(*worker)
	defer workers.Put(w)

	raw := appendSigned(w.raw[:0], &r)
	raw = append(raw, w.mac(0, raw)...)
	handleEncoding.Encode(w.text[:], raw)
	return string(w.text[:handleEncoding.EncodedLen(len(raw))])
}

// Verify returns the receipt that a handle stands for, if it was signed with
// one of the keys, for this subscriber of this channel. Otherwise the receipt is
// zero and the error is ErrMalformed, ErrForged, ErrWrongChannel or
// ErrWrongSubscriber. A handle that is of another channel and of another
// subscriber is ErrWrongChannel.
//
// Whether the epoch is still that of the channel, the clock was given out and
// its message still has the ID is for the caller to find out.
func (k *Keyring) Verify(handle, channel, subscriber string) (Receipt, error) {
	workers := k.workers.Load()
	w := workers.Get().(*worker)
	defer workers.Put(w)

	raw, err := decode(&w.raw, handle)
	if err != nil {
		return Receipt{}, err
	}
	f, err := split(raw)
	if err != nil {
		return Receipt{}, err
	}
	if !w.signedByAny(f.signed, f.mac) {
		return Receipt{}, ErrForged
	}
	switch {
	case !f.clock.Valid():
		return Receipt{}, fmt.Errorf("%w: %d is no clock", ErrMalformed, f.clock)
	case string(f.channel) != channel:
		return Receipt{}, ErrWrongChannel
	case string(f.subscriber) != subscriber:
		return Receipt{}, ErrWrongSubscriber
	}
	return Receipt{
		Channel:    channel,
		Subscriber: subscriber,
		Epoch:      f.epoch,
		Clock:      f.clock,
		MessageID:  string(f.messageID),
	}, nil
}

// mac returns the MAC of data under the key with this index. It is valid until
// the next call.
func (w *worker) mac(key int, data []byte) []byte {
	h := w.macs[key]
	h.Reset()
	h.Write(data)
	return h.Sum(w.sum[:0])[:macBytes]
}

// signedByAny reports whether mac is the MAC of data under one of the keys. The
// time that it takes doesn't depend on how much of a wrong MAC is right.
func (w *worker) signedByAny(data, mac []byte) bool {
	for key := range w.macs {
		if hmac.Equal(w.mac(key, data), mac) {
			return true
		}
	}
	return false
}
