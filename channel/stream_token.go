package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// A resume token of a stream from one source is a receipt handle. That of many is the base64url form of a version, the
// hash of the sources, an entry for each tail and for each subscriber with messages that aren't acknowledged, and a
// MAC. An entry is the source's index, epoch, clock, write, the message's time in milliseconds, and its ID with its
// length in front. Version 1 had no write and no time; its tokens are still accepted.
const (
	tokenVersion    = 2
	tokenVersion1   = 1
	tokenPurpose    = "tidemark stream"
	tokenHead       = 1 + 16
	positionBytes   = 1 + 16 + 8 // of an entry: index, epoch, clock
	entryBytes      = positionBytes + len(receipt.Write{}) + 8 + 1
	maxTokenEntries = maxTokenBytes/4*3 - tokenHead - receipt.MACBytes // bytes
)

// maxTokenBytes is the length of the longest resume token. One with more sources than fit leaves out the IDs of
// messages of tails, without which the message isn't recognized once it is gone, and subscribers, whose messages since
// the mark are sent again: first those whose last message is the oldest.
const maxTokenBytes = 2 << 10

var tokenEncoding = base64.RawURLEncoding.Strict()

// listOf returns a hash of the sources of a stream.
func listOf(targets []target) [16]byte {
	var names []byte
	for _, t := range targets {
		name := strings.ReplaceAll(t.channel, "/", "\x00") // no name has one: a slash then ends a name
		names = append(append(append(append(names, name...), '/'), t.subscriber...), '/')
	}
	sum := sha256.Sum256(names)
	return [16]byte(sum[:])
}

// Token returns the resume token for everything that has arrived.
func (s *Stream) Token() string {
	if len(s.sources) == 1 {
		return s.receipt(0)
	}
	raw := append(append(make([]byte, 0, 256), tokenVersion), s.list[:]...)
	tails := s.latest(func(i int) bool { return s.sources[i].isTail() && (!s.sources[i].fresh || s.at[i] == noChannel) })
	room := maxTokenEntries - entryBytes*len(tails) // for the IDs of tails, and for entries of subscribers
	for _, i := range tails {
		at := s.position(i)
		if len(at.MessageID) > room {
			at.MessageID = ""
		}
		room -= len(at.MessageID)
		raw = appendEntry(raw, i, &at)
	}
	for _, i := range s.latest(func(i int) bool { return !s.sources[i].isTail() && len(s.sources[i].sent) > 0 }) {
		at := s.position(i)
		if room -= entryBytes + len(at.MessageID); room < 0 {
			break
		}
		raw = appendEntry(raw, i, &at)
	}
	return tokenEncoding.EncodeToString(append(raw, s.service.tokens.Sign(raw)...))
}

// latest returns some sources, those with the latest messages first.
func (s *Stream) latest(of func(i int) bool) []int {
	which := make([]int, 0, 8)
	for i := range s.sources {
		if of(i) {
			which = append(which, i)
		}
	}
	slices.SortFunc(which, func(a, b int) int { return cmp.Compare(s.sources[b].order, s.sources[a].order) })
	return which
}

func appendEntry(raw []byte, i int, at *receipt.Receipt) []byte {
	raw = append(append(raw, byte(i)), at.Epoch[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(at.Clock))
	published := int64(0)
	if !at.PublishedAt.IsZero() {
		published = at.PublishedAt.UnixMilli()
	}
	raw = binary.BigEndian.AppendUint64(append(raw, at.Write[:]...), uint64(published))
	return append(append(raw, byte(len(at.MessageID))), at.MessageID...)
}

// resume returns the receipts of a token by source. One that this service has not signed, as far as it knows now, is no
// error, since a browser would give up: no receipt is returned, and each source begins with a gap.
func (s *Stream) resume(ctx context.Context, token string) ([]*receipt.Receipt, error) {
	receipts := make([]*receipt.Receipt, len(s.sources))
	if token == "" {
		return receipts, nil
	}
	v := verifier{service: s.service}
	if len(s.sources) == 1 {
		t := s.targets[0]
		r, err := v.verify(ctx, token, t.channel, t.subscriber)
		if !isUnsigned(err) {
			receipts[0] = r
			return receipts, atToken(err)
		}
	}
	signed, err := v.signedToken(ctx, token)
	switch {
	case err != nil:
		return nil, err
	case signed == nil && len(s.sources) > 1: // is it a receipt handle?
		if _, err := v.verify(ctx, token, "", ""); err != nil && !isUnsigned(err) {
			return nil, atToken(err)
		}
	}
	switch {
	case signed != nil && (len(s.sources) == 1 || [16]byte(signed[1:tokenHead]) != s.list):
		return nil, refuseToken(fault.SlugReceiptChannel, "is of other channels or subscribers, or of another order of them")
	case signed != nil && s.entries(signed[0], signed[tokenHead:], receipts):
		return receipts, nil
	}
	for i := range s.sources {
		s.sources[i].lapsed = true
	}
	return make([]*receipt.Receipt, len(s.sources)), nil
}

// isUnsigned reports whether an error of verify is that of a text that no known key has signed.
func isUnsigned(err error) bool {
	return errors.Is(err, receipt.ErrForged) || errors.Is(err, receipt.ErrMalformed)
}

// entries decodes the entries of a token.
func (s *Stream) entries(version byte, raw []byte, receipts []*receipt.Receipt) bool {
	size := entryBytes
	if version == tokenVersion1 {
		size = positionBytes + 1
	}
	for len(raw) >= size {
		i, end := int(raw[0]), size+int(raw[size-1])
		if i >= len(s.targets) || end > len(raw) {
			return false
		}
		r := &receipt.Receipt{
			Channel: s.targets[i].channel, Subscriber: s.targets[i].subscriber, Epoch: ulid.ULID(raw[1:17]),
			Clock: clock.Clock(binary.BigEndian.Uint64(raw[17:positionBytes])), MessageID: string(raw[size:end]),
		}
		if written := raw[positionBytes : size-1]; len(written) > 0 {
			r.Write = receipt.Write(written[:len(r.Write)])
			if ms := binary.BigEndian.Uint64(written[len(r.Write):]); ms != 0 {
				r.PublishedAt = time.UnixMilli(int64(ms))
			}
		}
		receipts[i], raw = r, raw[end:]
	}
	return len(raw) == 0
}

// signedToken returns the signed part of a token of a stream from many sources, or nil if no known key has signed it.
func (v *verifier) signedToken(ctx context.Context, token string) ([]byte, error) {
	raw, err := tokenEncoding.DecodeString(token)
	if err != nil || len(token) > maxTokenBytes || len(raw) < tokenHead+receipt.MACBytes ||
		raw[0] != tokenVersion && raw[0] != tokenVersion1 {
		return nil, nil //nolint:nilerr,nilnil // another text isn't signed
	}
	signed, mac := raw[:len(raw)-receipt.MACBytes], raw[len(raw)-receipt.MACBytes:]
	if v.service.tokens.Signed(signed, mac) {
		return signed, nil
	}
	if err := v.findKeys(ctx); err != nil || !v.service.tokens.Signed(signed, mac) {
		return nil, err
	}
	return signed, nil
}

// atToken sets the field of an error to the token.
func atToken(err error) error { return ofField(err, "lastEventId", "resume token") }

// ofField changes an error about a receipt handle to one about another field.
func ofField(err error, field, name string) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Field != "" {
		other := *e
		other.Field, other.Detail = field, strings.Replace(e.Detail, "receipt handle", name, 1)
		return &other
	}
	return err
}

func refuseToken(slug fault.Slug, what string) error {
	return invalid(slug, "lastEventId", "the resume token %s", what)
}
