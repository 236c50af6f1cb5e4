package receipt_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/receipt"
)

func TestGenerateKey(t *testing.T) {
	t.Parallel()
	a, err := receipt.GenerateKey()
	require.NoError(t, err)
	b, err := receipt.GenerateKey()
	require.NoError(t, err)
	require.Len(t, a, receipt.MinKeyBytes)
	require.NotEqual(t, a, b)

	parsed, err := receipt.ParseKey(a.Encode())
	require.NoError(t, err)
	require.Equal(t, a, parsed)
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	// 0xfb 0xff encodes to characters in which the two alphabets differ.
	key := receipt.Key(bytes.Repeat([]byte{0xfb, 0xff}, 20))
	tests := map[string]struct {
		text string
		err  error
	}{
		"standard":             {base64.StdEncoding.EncodeToString(key), nil},
		"standard, no padding": {base64.RawStdEncoding.EncodeToString(key), nil},
		"url":                  {base64.URLEncoding.EncodeToString(key), nil},
		"url, no padding":      {base64.RawURLEncoding.EncodeToString(key), nil},
		"of a file":            {"  " + base64.StdEncoding.EncodeToString(key) + "\n", nil},
		"broken into lines": {base64.StdEncoding.EncodeToString(key[:30]) + "\r\n" +
			base64.StdEncoding.EncodeToString(key[30:]), nil},
		"both alphabets":   {base64.StdEncoding.EncodeToString(key) + "_w", receipt.ErrKeySyntax},
		"other characters": {strings.Repeat("secret! ", 8), receipt.ErrKeySyntax},
		"half a padding":   {strings.TrimSuffix(base64.StdEncoding.EncodeToString(key), "="), receipt.ErrKeySyntax},
		"bits left over":   {strings.Repeat("secret", 8) + "9", receipt.ErrKeySyntax},
		"empty":            {"", receipt.ErrShortKey},
		"31 bytes":         {base64.StdEncoding.EncodeToString(key[:31]), receipt.ErrShortKey},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := receipt.ParseKey(tt.text)
			require.ErrorIs(t, err, tt.err)
			if tt.err == nil {
				require.Equal(t, key, parsed)
				return
			}
			require.Nil(t, parsed)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestNewKeyringErrors(t *testing.T) {
	t.Parallel()
	_, err := receipt.NewKeyring()
	require.ErrorIs(t, err, receipt.ErrNoKey)
	for _, short := range []receipt.Key{nil, {}, fixedKey(1)[:receipt.MinKeyBytes-1]} {
		_, err = receipt.NewKeyring(fixedKey(1), short)
		require.ErrorIs(t, err, receipt.ErrShortKey)
		require.ErrorContains(t, err, "key 2 of 2")
	}
}

func TestKeyIsNotShown(t *testing.T) {
	t.Parallel()
	key := receipt.Key(strings.Repeat("secret", 6))
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		_, _ = fmt.Fprintf(&out, verb+"\n", key)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("text", "key", key)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "key", key)

	for _, form := range []string{
		"secret", fmt.Sprintf("%x", "secret"), fmt.Sprintf("%X", "secret"),
		strings.Trim(fmt.Sprintf("%d", []byte("secret")), "["), key.Encode(), base64.StdEncoding.EncodeToString(key),
	} {
		require.NotContains(t, out.String(), strings.TrimSuffix(form, "]"))
	}
	require.Equal(t, 10, strings.Count(out.String(), "[receipt key]"))
}
