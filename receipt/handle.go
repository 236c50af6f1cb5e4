package receipt

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
)

const (
	// MaxChannelBytes is the longest channel name that fits into a handle.
	MaxChannelBytes = 512
	// MaxNameBytes is the longest subscriber name and message ID that fits into a handle.
	MaxNameBytes = 255
	// MaxHandleBytes is the length of the longest handle.
	MaxHandleBytes = (maxRawBytes*8 + 5) / 6
)

const (
	version     = 3
	versionLong = 4 // of a channel whose name is longer than one byte can say
	macBytes    = 16
	writeAt     = 1 + 16 + 8               // after version, epoch and clock
	namesAt     = writeAt + writeBytes + 8 // after the write and the time
	maxRawBytes = namesAt + 2 + MaxChannelBytes + 2*(1+MaxNameBytes) + macBytes
)

// handleEncoding refuses trailing bits, so that no two handles decode to the same bytes. It ignores line breaks, which
// decode refuses.
var handleEncoding = base64.RawURLEncoding.Strict()

// fields are the parts of a handle, as slices of its raw bytes.
type fields struct {
	signed     []byte // covered by the MAC
	mac        []byte
	epoch      ulid.ULID
	clock      clock.Clock
	write      Write
	published  int64 // Unix milliseconds; 0: unknown
	channel    []byte
	subscriber []byte
	messageID  []byte
}

// appendSigned appends the bytes of r's handle that the MAC covers.
func appendSigned(b []byte, r *Receipt) []byte {
	long := len(r.Channel) > MaxNameBytes
	if long {
		b = append(b, versionLong)
	} else {
		b = append(b, version)
	}
	b = append(b, r.Epoch[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Clock))
	b = append(b, r.Write[:]...)
	published := int64(0)
	if !r.PublishedAt.IsZero() {
		published = r.PublishedAt.UnixMilli()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(published))
	for i, name := range [...]string{r.Channel, r.Subscriber, r.MessageID} {
		if long && i == 0 {
			b = append(b, byte(len(name)>>8))
		}
		b = append(b, byte(len(name)))
		b = append(b, name...)
	}
	return b
}

// decode decodes a handle into buf. The error is ErrMalformed.
func decode(buf *[maxRawBytes]byte, handle string) ([]byte, error) {
	if len(handle) > MaxHandleBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, MaxHandleBytes)
	}
	if strings.ContainsAny(handle, "\r\n") {
		return nil, fmt.Errorf("%w: line break", ErrMalformed)
	}
	raw, err := handleEncoding.AppendDecode(buf[:0], []byte(handle))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return raw, nil
}

// split splits the raw bytes of a handle into fields, unverified. The error is ErrMalformed.
func split(raw []byte) (fields, error) {
	if len(raw) == 0 {
		return fields{}, fmt.Errorf("%w: empty", ErrMalformed)
	}
	if raw[0] != version && raw[0] != versionLong {
		return fields{}, fmt.Errorf("%w: unknown version %d", ErrMalformed, raw[0])
	}
	end := len(raw) - macBytes
	if end < namesAt {
		return fields{}, fmt.Errorf("%w: too short", ErrMalformed)
	}
	f := fields{
		signed:    raw[:end],
		mac:       raw[end:],
		epoch:     ulid.ULID(raw[1:17]),
		clock:     clock.Clock(binary.BigEndian.Uint64(raw[17:writeAt])),
		write:     Write(raw[writeAt : writeAt+writeBytes]),
		published: int64(binary.BigEndian.Uint64(raw[writeAt+writeBytes : namesAt])),
	}
	rest := raw[namesAt:end]
	if raw[0] == versionLong {
		if len(rest) < 2 || rest[0] == 0 || int(rest[0])<<8+int(rest[1]) > len(rest)-2 {
			return fields{}, fmt.Errorf("%w: channel is cut short", ErrMalformed)
		}
		n := 2 + int(rest[0])<<8 + int(rest[1])
		f.channel, rest = rest[2:n], rest[n:]
	}
	for _, name := range []struct {
		what string
		to   *[]byte
	}{{"channel", &f.channel}, {"subscriber", &f.subscriber}, {"message ID", &f.messageID}} {
		if *name.to != nil {
			continue
		}
		var ok bool
		if *name.to, rest, ok = cutName(rest); !ok {
			return fields{}, fmt.Errorf("%w: %s is cut short", ErrMalformed, name.what)
		}
	}
	if len(rest) > 0 {
		return fields{}, fmt.Errorf("%w: bytes after the names", ErrMalformed)
	}
	return f, nil
}

// cutName splits b after the name at its start, whose length precedes it.
func cutName(b []byte) (name, rest []byte, ok bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return nil, nil, false
	}
	end := 1 + int(b[0])
	return b[1:end], b[end:], true
}
