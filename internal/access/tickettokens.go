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
	tokenPrefix     = "tmt_"
	tokenVersion    = 1
	tokenFixedBytes = 1 + 8 + 8
	// maxTokenBytes is the longest token: of an ID that is longer than any ticket's.
	maxTokenBytes = len(tokenPrefix) + (tokenFixedBytes+receipt.MaxNameBytes+receipt.MACBytes)*4/3 + 1
)

var tokenEncoding = base64.RawURLEncoding.Strict()

// TicketTokenOptions configures TicketTokens. All fields are required.
type TicketTokenOptions struct {
	Keys *receipt.Keyring
	// TTL is how long a token is accepted: at least as long as a ticket and its assignment can live.
	TTL time.Duration
	// Unique reports whether no other ticket ever has this ID.
	Unique func(ticket string) bool
}

// TicketTokens issues and verifies the tokens of tickets, as an [Authenticator]. A back end that creates tickets for
// its players gives each player the token of its ticket, which gives access to that ticket only: to read, watch and
// cancel it, and to fetch its assignment. A token isn't stored anywhere: it is signed with a key that is derived from
// the receipt keys, which all servers share. Any number of goroutines may use it.
//
// A token is "tmt_" and the base64url (RFC 4648, without padding or line breaks) of
//
//	version   1 byte, 1
//	created   8 bytes, when the ticket was created: Unix time in microseconds, big-endian
//	ends      8 bytes, from when on the token isn't accepted: Unix time in seconds, big-endian
//	ticket    its ID, the rest but the MAC
//	MAC       32 bytes, HMAC-SHA256 over all bytes before
type TicketTokens struct {
	TicketTokenOptions

	keys *receipt.Derived
}

var _ Authenticator = (*TicketTokens)(nil)

// NewTicketTokens returns an authenticator of tokens that are signed with these keys.
func NewTicketTokens(o TicketTokenOptions) *TicketTokens {
	return &TicketTokens{TicketTokenOptions: o, keys: o.Keys.Derive("tidemark ticket token 1")}
}

// Offer returns the token of a ticket, for the caller of a request that has created it. It is empty if the caller needs
// none: on an open service, and for users, who own their tickets.
func (h *TicketTokens) Offer(ctx context.Context, ticket string, created time.Time) string {
	caller := From(ctx)
	if caller == nil || caller.Kind != APIKey && caller.Kind != Administrator {
		return ""
	}
	raw := append(make([]byte, 0, tokenFixedBytes+len(ticket)+receipt.MACBytes), tokenVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(created.UnixMicro()))
	raw = binary.BigEndian.AppendUint64(raw, uint64(time.Now().Add(h.TTL).Unix()))
	raw = append(raw, ticket...)
	return tokenPrefix + tokenEncoding.EncodeToString(append(raw, h.keys.Sign(raw)...))
}

// Accepts reports whether a credential has the form of a ticket's token.
func (h *TicketTokens) Accepts(credential string) bool {
	return strings.HasPrefix(credential, tokenPrefix)
}

// What is wrong with a token, for the log.
var (
	errForm   = errors.New("it has not the form of a ticket's token")
	errForged = errors.New("it isn't signed with a known key")
)

// Authenticate returns the holder of a ticket. Errors: ErrInvalidCredential and ErrExpired.
func (h *TicketTokens) Authenticate(_ context.Context, credential string) (*Principal, error) {
	text := strings.TrimPrefix(credential, tokenPrefix)
	if len(credential) > maxTokenBytes || strings.ContainsAny(text, "\r\n") { // the decoder ignores line breaks
		return nil, ErrInvalidCredential.WithCause(errForm)
	}
	raw, err := tokenEncoding.DecodeString(text)
	end := len(raw) - receipt.MACBytes
	if err != nil || end <= tokenFixedBytes || raw[0] != tokenVersion {
		return nil, ErrInvalidCredential.WithCause(errForm)
	}
	if !h.keys.Signed(raw[:end], raw[end:]) {
		return nil, ErrInvalidCredential.WithCause(errForged)
	}
	p := &Principal{
		Kind: TicketHolder, Credential: string(raw[tokenFixedBytes:end]), Grants: ticketOnly,
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
