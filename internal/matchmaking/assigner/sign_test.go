package assigner

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func TestSignatureIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	Sign(header, "secret", time.Unix(1700000000, 999), []byte(`{"a":1}`))
	require.Equal(t, "1700000000", header.Get("Tidemark-Timestamp"))
	// printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret
	require.Equal(t, "v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686",
		header.Get("Tidemark-Signature"))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	at, body := time.Unix(1700000000, 0), []byte(`{"action":"allocate"}`)
	for name, c := range map[string]struct {
		change   func(header http.Header)
		body     string
		secrets  []string
		off      time.Duration
		tolerate time.Duration
		want     error
	}{
		"right":         {},
		"second secret": {secrets: []string{"new", "secret"}},
		"several signatures": {change: func(h http.Header) {
			h.Set(HeaderSignature,
				"v0=aa, "+h.Get(HeaderSignature))
		}},
		"at the tolerance's end":  {off: DefaultTolerance},
		"sender's clock is ahead": {off: -DefaultTolerance},
		"wrong secret":            {secrets: []string{"other"}, want: ErrSignature},
		"no secret":               {secrets: []string{}, want: ErrSignature},
		"other body":              {body: `{"action":"release"}`, want: ErrSignature},
		"no signature":            {change: func(h http.Header) { h.Del(HeaderSignature) }, want: ErrSignature},
		"empty signature":         {change: func(h http.Header) { h.Set(HeaderSignature, "v1=") }, want: ErrSignature},
		"no version": {change: func(h http.Header) { h.Set(HeaderSignature, h.Get(HeaderSignature)[3:]) },
			want: ErrSignature},
		"upper case": {change: func(h http.Header) {
			h.Set(HeaderSignature,
				strings.ToUpper(h.Get(HeaderSignature)))
		}, want: ErrSignature},
		"other time": {change: func(h http.Header) { h.Set(HeaderTimestamp, "1700000001") },
			want: ErrSignature},
		"no time":   {change: func(h http.Header) { h.Del(HeaderTimestamp) }, want: ErrTimestamp},
		"no number": {change: func(h http.Header) { h.Set(HeaderTimestamp, "now") }, want: ErrTimestamp},
		"the end of time": {change: func(h http.Header) { h.Set(HeaderTimestamp, "-9223372036854775808") },
			want: ErrTimestamp},
		"too old":              {off: DefaultTolerance + time.Second, want: ErrTimestamp},
		"too far ahead":        {off: -DefaultTolerance - time.Second, want: ErrTimestamp},
		"too old for this one": {off: 3 * time.Second, tolerate: 2 * time.Second, want: ErrTimestamp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			Sign(header, "secret", at, body)
			if c.change != nil {
				c.change(header)
			}
			received := body
			if c.body != "" {
				received = []byte(c.body)
			}
			v := Verifier{Secrets: c.secrets, Tolerance: c.tolerate, Now: func() time.Time { return at.Add(c.off) }}
			if c.secrets == nil {
				v.Secrets = []string{"secret"}
			}
			require.ErrorIs(t, v.Verify(header, received), c.want)
		})
	}
}

func TestVerifyNeverTakesAnEmptySecret(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	Sign(header, "", time.Now(), nil)
	require.ErrorIs(t, Verifier{Secrets: []string{""}}.Verify(header, nil), ErrSignature)
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, secret, want string }{
		"line end":      {text: "secret\n", secret: "secret"},
		"CR LF":         {text: "secret\r\n", secret: "secret"},
		"no line end":   {text: " secret ", secret: " secret "},
		"empty":         {text: "\n", want: "is empty"},
		"lines":         {text: "a\nb\n", want: "has more than one line"},
		"far too large": {text: strings.Repeat("x", secretBytes+1), want: "has more than 16384 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secret")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			a, err := New(matchmaking.Definition{Assigner: matchmaking.AssignBy{
				Kind: matchmaking.AssignWebhook, URL: "http://127.0.0.1:1", SecretFile: path,
			}}, nil)
			if c.want != "" {
				require.EqualError(t, err, "assigner.secretFile: "+path+" "+c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.secret, a.(*webhook).secret)
		})
	}
}

func TestSecretsAreOneOrNone(t *testing.T) {
	t.Parallel()
	by := matchmaking.AssignBy{Kind: matchmaking.AssignWebhook, URL: "http://127.0.0.1:1", Secret: "a", SecretFile: "b"}
	_, err := New(matchmaking.Definition{Assigner: by}, nil)
	require.EqualError(t, err, "assigner.secret: secret and secretFile are both set")
	by.Secret, by.SecretFile = "", filepath.Join(t.TempDir(), "none")
	_, err = New(matchmaking.Definition{Assigner: by}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "assigner.secretFile: ")
}
