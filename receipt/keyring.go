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
	"time"
)

// Errors of Verify. They come wrapped: use errors.Is.
var (
	// ErrMalformed reports that the text isn't a handle: it isn't base64url, has a wrong length or an unknown version,
	// or its clock is invalid.
	ErrMalformed = errors.New("receipt handle is malformed")
	// ErrForged reports that no key of the ring signed the handle: it was damaged or invented, or its key was removed.
	ErrForged = errors.New("receipt handle is not signed with a known key")
	// ErrWrongChannel reports a handle of another channel.
	ErrWrongChannel = errors.New("receipt handle is of another channel")
	// ErrWrongSubscriber reports a handle of another subscriber of the channel.
	ErrWrongSubscriber = errors.New("receipt handle is of another subscriber")
)

// Keyring signs and verifies handles. Many goroutines may use it. Make one with NewKeyring; the zero value must not be
// used.
type Keyring struct {
	keys atomic.Pointer[keys]
}

// keys are the keys of a keyring between two calls of Replace.
type keys struct {
	all     []Key
	workers sync.Pool // of *worker
}

// worker is the state of one call of Sign or Verify. It is reused, since making one costs more than using it.
type worker struct {
	macs []hash.Hash // one for each key, in the order of the keys
	raw  [maxRawBytes]byte
	text [MaxHandleBytes]byte
	sum  [sha256.Size]byte
}

// NewKeyring returns a keyring. The first key signs, and all keys verify, so that a key can be replaced: put the new
// key first, and remove the old one when its handles aren't needed any more. With several servers, add the new key as
// the second one everywhere before it becomes the first one anywhere. The keys are copied. The error is ErrNoKey or
// ErrShortKey.
func NewKeyring(keys ...Key) (*Keyring, error) {
	k := &Keyring{}
	if err := k.Replace(keys...); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace replaces all keys, by the rules of NewKeyring. Concurrent calls of Sign and Verify use either the old keys or
// the new ones. After an error, ErrNoKey or ErrShortKey, the keyring keeps its keys.
func (k *Keyring) Replace(with ...Key) error {
	if len(with) == 0 {
		return ErrNoKey
	}
	owned := make([]Key, len(with))
	for i, key := range with {
		if err := key.check(); err != nil {
			return fmt.Errorf("key %d of %d: %w", i+1, len(with), err)
		}
		owned[i] = slices.Clone(key)
	}
	k.keys.Store(&keys{all: owned, workers: sync.Pool{New: func() any {
		w := &worker{macs: make([]hash.Hash, len(owned))}
		for i, key := range owned {
			w.macs[i] = hmac.New(sha256.New, key)
		}
		return w
	}}})
	return nil
}

// Sign returns the handle of r, at most MaxHandleBytes long. A receipt has one handle per key. Sign panics if a name is
// longer than MaxChannelBytes or MaxNameBytes, or the clock isn't valid: the caller must have checked both.
func (k *Keyring) Sign(r Receipt) string {
	if len(r.Channel) > MaxChannelBytes || max(len(r.Subscriber), len(r.MessageID)) > MaxNameBytes {
		panic(fmt.Sprintf("receipt: name of more than %d or %d bytes", MaxChannelBytes, MaxNameBytes))
	}
	if !r.Clock.Valid() {
		panic(fmt.Sprintf("receipt: %d is no clock", r.Clock))
	}
	keys := k.keys.Load()
	w := keys.workers.Get().(*worker)
	defer keys.workers.Put(w)

	raw := appendSigned(w.raw[:0], &r)
	raw = append(raw, w.mac(0, raw)...)
	handleEncoding.Encode(w.text[:], raw)
	return string(w.text[:handleEncoding.EncodedLen(len(raw))])
}

// Verify returns the receipt of a handle that was signed with one of the keys for this subscriber of this channel. The
// error is ErrMalformed, ErrForged, ErrWrongChannel (also if the subscriber is wrong too) or ErrWrongSubscriber.
//
// The caller must check that the epoch is still that of the channel, and that the message at the clock is still that of
// the write.
func (k *Keyring) Verify(handle, channel, subscriber string) (Receipt, error) {
	keys := k.keys.Load()
	w := keys.workers.Get().(*worker)
	defer keys.workers.Put(w)

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
	r := Receipt{
		Channel: channel, Subscriber: subscriber, Epoch: f.epoch, Clock: f.clock,
		MessageID: string(f.messageID), Write: f.write,
	}
	if f.published != 0 {
		r.PublishedAt = time.UnixMilli(f.published)
	}
	return r, nil
}

// mac returns the MAC of data with a key. It is valid until the next call.
func (w *worker) mac(key int, data []byte) []byte {
	h := w.macs[key]
	h.Reset()
	h.Write(data)
	return h.Sum(w.sum[:0])[:macBytes]
}

// signedByAny reports whether mac is the MAC of data with one of the keys. Its time doesn't depend on the content of
// mac.
func (w *worker) signedByAny(data, mac []byte) bool {
	for key := range w.macs {
		if hmac.Equal(w.mac(key, data), mac) {
			return true
		}
	}
	return false
}
