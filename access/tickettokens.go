// Package holders makes and reads the tokens of tickets. A back end that creates tickets for its players gives each
// player the token of its ticket, which is good for that ticket alone: to read, watch and cancel it, and to fetch its
// assignment.
//
// Start from [Holders]. A token isn't stored anywhere: it is signed, with a key that is derived from the receipt keys,
// which all servers share.
//
// # Format
//
// A token is "tmt_" and the base64url (RFC 4648, without padding, without line breaks) of
//
//	version   1 byte, 1
//	created   8 bytes, when the ticket was created: Unix time in microseconds, big-endian
//	ends      8 bytes, from when on the token isn't accepted: Unix time in seconds, big-endian
//	ticket    its ID, the rest but the MAC
//	MAC       32 bytes, HMAC-SHA256 over all bytes before

package access

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/receipt"
)

const (
	prefix     = "tmt_"
	version    = 1
	fixedBytes = 1 + 8 + 8
	// maxBytes is the longest token: of an ID that is longer than any ticket's.
	maxBytes = len(prefix) + (fixedBytes+receipt.MaxNameBytes+receipt.MACBytes)*4/3 + 1
)

var encoding = base64.RawURLEncoding.Strict()

// TicketTokenOptions configures Holders. All fields are required.
type TicketTokenOptions struct {
	Keys *receipt.Keyring
	// TTL is how long a token is accepted: at least as long as a ticket and its assignment can live.
	TTL time.Duration
	// Unique reports whether no other ticket ever has this ID.
	Unique func(ticket string) bool
}

// Holders makes and reads the tokens of tickets. It is the [Authenticator] of their holders. Many goroutines may use
// it.
type TicketTokens struct {
	TicketTokenOptions

	keys *receipt.Derived
}

var _ Authenticator = (*TicketTokens)(nil)

// NewTicketTokens returns the tokens that are signed with these keys.
func NewTicketTokens(o TicketTokenOptions) *TicketTokens {
	return &TicketTokens{TicketTokenOptions: o, keys: o.Keys.Derive("tidemark ticket token 1")}
}

// Offer returns the token of a ticket, for the caller of a request that has created it. It is empty if the caller needs
// none: on an open service, and for users, whose tickets are their own.
func (h *TicketTokens) Offer(ctx context.Context, ticket string, created time.Time) string {
	caller := From(ctx)
	if caller == nil || caller.Kind != APIKey && caller.Kind != Administrator {
		return ""
	}
	raw := append(make([]byte, 0, fixedBytes+len(ticket)+receipt.MACBytes), version)
	raw = binary.BigEndian.AppendUint64(raw, uint64(created.UnixMicro()))
	raw = binary.BigEndian.AppendUint64(raw, uint64(time.Now().Add(h.TTL).Unix()))
	raw = append(raw, ticket...)
	return prefix + encoding.EncodeToString(append(raw, h.keys.Sign(raw)...))
}

// Accepts reports whether a credential has the form of a ticket's token.
func (h *TicketTokens) Accepts(credential string) bool { return strings.HasPrefix(credential, prefix) }

// What is wrong with a token, for the log.
var (
	errForm   = errors.New("it has not the form of a ticket's token")
	errForged = errors.New("it isn't signed with a known key")
)

// Authenticate returns the holder of a ticket. Errors: ErrInvalidCredential and ErrExpired.
func (h *TicketTokens) Authenticate(_ context.Context, credential string) (*Principal, error) {
	text := strings.TrimPrefix(credential, prefix)
	if len(credential) > maxBytes || strings.ContainsAny(text, "\r\n") { // the decoder ignores line breaks
		return nil, ErrInvalidCredential.WithCause(errForm)
	}
	raw, err := encoding.DecodeString(text)
	end := len(raw) - receipt.MACBytes
	if err != nil || end <= fixedBytes || raw[0] != version {
		return nil, ErrInvalidCredential.WithCause(errForm)
	}
	if !h.keys.Signed(raw[:end], raw[end:]) {
		return nil, ErrInvalidCredential.WithCause(errForged)
	}
	p := &Principal{
		Kind: TicketHolder, Credential: string(raw[fixedBytes:end]), Grants: ticketOnly,
		Expires: time.Unix(int64(binary.BigEndian.Uint64(raw[9:])), 0),
	}
	if !h.Unique(p.Credential) {
		p.Issued = time.UnixMicro(int64(binary.BigEndian.Uint64(raw[1:])))
	}
	if !time.Now().Before(p.Expires) {
		return nil, ErrExpired
	}
	return p, nil
}

// ticketOnly are the grants of holders: calls about tickets, of which the guard allows those about their own.
var ticketOnly = Grants{{
	Actions:  []Action{Ticket},
	Channels: []Pattern{}, Subscribers: []Pattern{}, Queues: []Pattern{}, Owners: []Pattern{},
}}
