package access_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/receipt"
)

const ttl = 11 * time.Minute

func ring(t testing.TB, keys ...byte) *receipt.Keyring {
	t.Helper()
	all := make([]receipt.Key, len(keys))
	for i, b := range keys {
		all[i] = bytes.Repeat([]byte{b}, receipt.MinKeyBytes)
	}
	k, err := receipt.NewKeyring(all...)
	require.NoError(t, err)
	return k
}

func newHolders(keys *receipt.Keyring) *access.TicketTokens {
	return access.NewTicketTokens(access.TicketTokenOptions{Keys: keys, TTL: ttl,
		Unique: func(id string) bool { return id == "unique" }})
}

// backEnd returns the context of a request of a back end.
func backEnd(ctx context.Context) context.Context {
	return access.With(ctx, &access.Principal{Kind: access.APIKey, Credential: "k"})
}

var created = time.UnixMicro(1_767_225_600_123_456)

// TestToken: a token names its ticket and one life of it, until its end, also after the key was replaced.
func TestToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := ring(t, 1)
		h := newHolders(keys)
		token, unique := h.Offer(backEnd(t.Context()), "ann", created), h.Offer(backEnd(t.Context()), "unique", created)
		require.True(t, h.Accepts(token))
		require.NoError(t, keys.Replace(bytes.Repeat([]byte{2}, receipt.MinKeyBytes),
			bytes.Repeat([]byte{1}, receipt.MinKeyBytes)))

		p, err := h.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, "ticket:ann", p.Name())
		require.Equal(t, access.TicketHolder, p.Kind)
		require.True(t, created.Equal(p.Issued))
		require.Equal(t, time.Now().Add(ttl).Unix(), p.Expires.Unix())
		p, err = h.Authenticate(t.Context(), unique)
		require.NoError(t, err)
		require.Equal(t, "unique", p.Credential)
		require.Zero(t, p.Issued, "it has one life only")

		time.Sleep(ttl) //nolint:forbidigo // the time of synctest
		_, err = h.Authenticate(t.Context(), token)
		require.ErrorIs(t, err, access.ErrExpired)
	})
}

// TestOffer: only back ends get a token, and only from a service that requires credentials.
func TestOffer(t *testing.T) {
	t.Parallel()
	h := newHolders(ring(t, 1))
	require.Empty(t, h.Offer(t.Context(), "ann", created), "an open service")
	for kind, offered := range map[access.Kind]bool{
		access.APIKey: true, access.Administrator: true, access.User: false, access.Session: false,
		access.TicketHolder: false, access.Nobody: false,
	} {
		require.Equal(t, offered, h.Offer(access.With(t.Context(), &access.Principal{Kind: kind}), "ann",
			created) != "", kind)
	}
}

// TestForgedTokens: a token is refused if anything is changed, cut off or added.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	keys := ring(t, 1)
	h := newHolders(keys)
	token := h.Offer(backEnd(t.Context()), "ann", created)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "tmt_"))
	require.NoError(t, err)
	encode := func(raw []byte) string { return "tmt_" + base64.RawURLEncoding.EncodeToString(raw) }
	require.Equal(t, token, encode(raw))
	body := slices.Clone(raw[:len(raw)-receipt.MACBytes])
	later := slices.Clone(raw)
	binary.BigEndian.PutUint64(later[9:], uint64(time.Now().Add(time.Hour*24*365).Unix()))
	otherwise := func(purpose string) string { return encode(slices.Concat(body, keys.Derive(purpose).Sign(body))) }
	forged := map[string]string{
		"nothing": "tmt_", "no MAC": encode(body), "only a MAC": encode(raw[len(body):]),
		"another prefix": "tmk_" + token[4:], "upper case": strings.ToUpper(token), "padding": token + "=",
		"a line break": token[:20] + "\n" + token[20:], "a byte more": encode(append(slices.Clone(raw), 0)),
		"an ID that is longer": encode(slices.Concat(body, []byte("e"), raw[len(body):])),
		"a later end":          encode(later), "a later end and another key": newHolders(ring(t, 9)).Offer(
			backEnd(t.Context()), "ann", created),
		"a key for another purpose": otherwise("receipts"), "another version": encode(append([]byte{2}, raw[1:]...)),
		"no ID":        encode(slices.Concat(body[:17], keys.Derive("tidemark ticket token 1").Sign(body[:17]))),
		"a receipt":    "tmt_" + keys.Sign(receipt.Receipt{Channel: "ticket.ann", Subscriber: "player"}),
		"a long token": token + strings.Repeat("A", 4000), "trailing bits": token[:len(token)-1] + "_",
	}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		forged["byte "+string(rune('0'+i))] = encode(changed)
		forged["cut "+string(rune('0'+i))] = encode(raw[:i])
	}
	for name, credential := range forged {
		if name == "another prefix" {
			require.False(t, h.Accepts(credential))
		}
		_, err := h.Authenticate(t.Context(), credential)
		require.ErrorIs(t, err, access.ErrInvalidCredential, name)
	}
}

func FuzzAuthenticate(f *testing.F) {
	h := newHolders(ring(f, 1))
	f.Add(h.Offer(backEnd(f.Context()), "ann", created))
	f.Add("tmt_AQ")
	f.Fuzz(func(t *testing.T, credential string) {
		p, err := h.Authenticate(t.Context(), credential)
		if err == nil {
			require.Equal(t, "ann", p.Credential)
		} else {
			require.Nil(t, p)
		}
	})
}
