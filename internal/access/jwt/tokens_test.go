package jwt_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	accessjwt "github.com/tidemark-dev/tidemark/internal/access/jwt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The keys that tests sign with.
var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	p256Key  = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	edKey    = sync.OnceValue(
		func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", 32))) })
	secret = []byte(strings.Repeat("s", 32))
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func pemOf(kind string, content []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

func publicPEM(key crypto.Signer) string {
	return pemOf("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key.Public())))
}

// jwk returns a JSON Web Key.
func jwk(id string, key any) string {
	if signer, ok := key.(crypto.Signer); ok {
		key = signer.Public()
	}
	return string(must(jose.JSONWebKey{Key: key, KeyID: id}.MarshalJSON()))
}

// jwks returns a set of keys.
func jwks(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// write writes a file of keys.
func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// fields are members of a header or of claims.
type fields map[string]any

// claims returns the claims of a token that is valid for an hour, with additional ones.
func claims(others fields) fields {
	c := fields{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix(),
		"tidemark": []fields{{"actions": []string{"publish"}}}}
	for name, value := range others {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// sign returns a token. header replaces members of its header; text is its claims, as JSON or as a string of it.
func sign(t testing.TB, algorithm string, key any, header fields, text any) string {
	t.Helper()
	head := fields{"typ": "JWT", "alg": algorithm}
	for name, value := range header {
		head[name] = value
	}
	return signText(t, algorithm, key, string(must(json.Marshal(head))), text)
}

func signText(t testing.TB, algorithm string, key any, head string, text any) string {
	t.Helper()
	body, ok := text.(string)
	if !ok {
		body = string(must(json.Marshal(text)))
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(head)) + "." + encode([]byte(body))
	return signed + "." + encode(signatureOf(t, algorithm, key, signed))
}

// signatureOf signs a text as in RFC 7518. The signature of the algorithm none is empty.
func signatureOf(t testing.TB, algorithm string, key any, signed string) []byte {
	t.Helper()
	if algorithm == "none" {
		return nil
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[algorithm[2:]]
	var digest []byte
	if hash != 0 {
		h := hash.New()
		h.Write([]byte(signed))
		digest = h.Sum(nil)
	}
	switch algorithm[:2] {
	case "RS":
		return must(rsa.SignPKCS1v15(rand.Reader, key.(*rsa.PrivateKey), hash, digest))
	case "PS":
		return must(rsa.SignPSS(rand.Reader, key.(*rsa.PrivateKey), hash, digest, nil))
	case "ES":
		k := key.(*ecdsa.PrivateKey)
		r, s, err := ecdsa.Sign(rand.Reader, k, digest)
		require.NoError(t, err)
		size := (k.Curve.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case "HS":
		mac := hmac.New(hash.New, key.([]byte))
		mac.Write([]byte(signed))
		return mac.Sum(nil)
	}
	require.Equal(t, "EdDSA", algorithm)
	return ed25519.Sign(key.(ed25519.PrivateKey), []byte(signed))
}

func newVerifier(t testing.TB, o accessjwt.Options) *accessjwt.Verifier {
	t.Helper()
	if o.Algorithms == nil {
		o.Algorithms = []string{"RS256", "ES256", "EdDSA"}
	}
	v, err := accessjwt.New(o)
	require.NoError(t, err)
	return v
}

// TestAlgorithms signs with each algorithm, for keys in each form.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	p384, p521 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)),
		must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	long := []byte(strings.Repeat("l", 64))
	tests := map[string]struct {
		sign any
		file string
	}{
		"RS256": {rsaKey(), publicPEM(rsaKey())},
		"RS384": {rsaKey(), pemOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey))},
		"RS512": {rsaKey(), jwk("", rsaKey())},
		"PS256": {rsaKey(), jwks(jwk("", p256Key()), jwk("", rsaKey()))},
		"PS384": {rsaKey(), publicPEM(rsaKey())},
		"PS512": {rsaKey(), publicPEM(edKey()) + publicPEM(rsaKey())},
		"ES256": {p256Key(), publicPEM(p256Key())},
		"ES384": {p384, publicPEM(p384)},
		"ES512": {p521, jwk("", p521)},
		"EdDSA": {edKey(), publicPEM(edKey())},
		"HS256": {secret, jwk("", secret)},
		"HS384": {long, jwk("", long)},
		"HS512": {long, jwk("", long)},
	}
	require.Len(t, tests, len(accessjwt.Algorithms))
	for algorithm, tt := range tests {
		v := newVerifier(t, accessjwt.Options{Keys: []string{write(t, tt.file)}, Algorithms: accessjwt.Algorithms})
		token := sign(t, algorithm, tt.sign, nil, claims(nil))
		require.True(t, v.Accepts(token))
		p, err := v.Authenticate(t.Context(), token)
		require.NoError(t, err, algorithm)
		require.Equal(t, "user:ann", p.Name())
	}
}

// TestPrincipal reads all claims of a token.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, accessjwt.Options{
		Keys: []string{write(t, publicPEM(edKey()))}, Issuer: "issuer", Audience: []string{"a", "b"},
		Leeway: 5 * time.Second, Claim: "https://grants",
	})
	now := time.Now().Truncate(time.Second)
	token := sign(t, "EdDSA", edKey(), nil, fields{
		"sub": "ann", "jti": "7", "iss": "issuer", "aud": []string{"x", "b"}, "iat": now.Unix(),
		"nbf":            now.Add(4 * time.Second).Unix(),
		"exp":            now.Add(-time.Second).Unix(),
		"https://grants": []fields{{"actions": []string{"publish"}, "channels": []string{"chat.{sub}"}}},
		"tidemark":       "not this one", "nested": []any{fields{"a": []any{nil, 1.5}}},
	})
	require.False(t, v.Knows(token))
	first, err := v.Authenticate(t.Context(), token)
	require.NoError(t, err)
	require.True(t, v.Knows(token))
	require.Equal(t, access.User, first.Kind)
	require.Equal(t, "ann 7", first.Subject+" "+first.Credential)
	require.True(t, now.Equal(first.Issued))
	require.True(t, now.Add(4*time.Second).Equal(first.Expires), "the end is that of the token, and the leeway")
	require.Equal(t, `[{[publish] [chat.{sub}] [] [] [] []}]`, fmt.Sprint(first.Grants))

	again, err := v.Authenticate(t.Context(), token)
	require.NoError(t, err)
	require.Same(t, first, again, "a token that was seen isn't verified again")
	entries, bytes := accessjwt.Remembered(v)
	require.Equal(t, []int{1, len(token)}, []int{entries, bytes})

	p, err := v.Authenticate(t.Context(), sign(t, "EdDSA", edKey(), nil, claims(fields{"iss": "issuer", "aud": "a"})))
	require.NoError(t, err)
	require.Empty(t, p.Grants, "a token without the claim grants nothing")
}

// TestSubjectClaim: with another claim as the subject, sub is neither needed nor used.
func TestSubjectClaim(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, accessjwt.Options{Keys: []string{write(t, publicPEM(edKey()))}, SubjectClaim: "preferred_username"})
	for name, others := range map[string]fields{
		"beside sub":  {"sub": "f3a1", "preferred_username": "ann"},
		"without sub": {"sub": nil, "preferred_username": "ann"},
	} {
		p, err := v.Authenticate(t.Context(), sign(t, "EdDSA", edKey(), nil, claims(others)))
		require.NoError(t, err, name)
		require.Equal(t, "ann", p.Subject, name)
	}
	for name, others := range map[string]fields{
		"missing": {"sub": "ann"}, "empty": {"preferred_username": ""}, "null": {"preferred_username": nil},
		"a number": {"preferred_username": 7}, "a list": {"preferred_username": []string{"ann"}},
	} {
		_, err := v.Authenticate(t.Context(), sign(t, "EdDSA", edKey(), nil, claims(others)))
		require.ErrorIs(t, err, access.ErrInvalidCredential, name)
		require.ErrorContains(t, err, "the claims have no subject: preferred_username is missing, empty or no text", name)
	}
}

// TestAttacks: tokens that aren't signed with a configured key, or aren't valid for this service and now, are refused.
func TestAttacks(t *testing.T) {
	t.Parallel()
	public := []byte(publicPEM(rsaKey()))
	now := time.Now()
	rs := func(header fields, text any) string { return sign(t, "RS256", rsaKey(), header, text) }
	valid := rs(fields{"kid": "rsa"}, claims(nil))
	parts := strings.Split(valid, ".")
	set := jwks(jwk("rsa", rsaKey()), jwk("secret", secret), jwk("p256", p256Key()))
	usual := accessjwt.Options{Keys: []string{write(t, set)}, Algorithms: []string{"RS256", "ES256", "HS256"}}
	strict := usual
	strict.Issuer, strict.Audience = "issuer", []string{"a"}
	none := sign(t, "none", nil, fields{"kid": "rsa"}, claims(nil))

	tests := []struct {
		name, token string
		options     accessjwt.Options
		want        error
		reason      string
	}{
		{"valid", valid, usual, nil, ""},
		{"none", none, usual, access.ErrInvalidCredential, "algorithm"},
		{"none with a signature", none + parts[2], usual, access.ErrInvalidCredential, "algorithm"},
		{"None", rs(fields{"alg": "None", "kid": "rsa"}, claims(nil)), usual, access.ErrInvalidCredential, "algorithm"},
		{"no algorithm", rs(fields{"alg": nil, "kid": "rsa"}, claims(nil)), usual, access.ErrInvalidCredential,
			"algorithm"},
		{"not configured", sign(t, "RS512", rsaKey(), fields{"kid": "rsa"}, claims(nil)), usual,
			access.ErrInvalidCredential, "algorithm"},
		{"two algorithms", signText(t, "RS256", rsaKey(), `{"alg":"none","alg":"RS256","kid":"rsa"}`, claims(nil)),
			usual, access.ErrInvalidCredential, "header"},
		{"public key as secret", sign(t, "HS256", public, fields{"kid": "rsa"}, claims(nil)), usual,
			access.ErrInvalidCredential, "no key"},
		{"as DER", sign(t, "HS256", must(x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)), fields{"kid": "rsa"},
			claims(nil)), usual, access.ErrInvalidCredential, "no key"},
		{"with the secret's ID", sign(t, "HS256", public, fields{"kid": "secret"}, claims(nil)), usual,
			access.ErrInvalidCredential, "signature"},
		{"another algorithm's key", rs(fields{"kid": "p256"}, claims(nil)), usual, access.ErrInvalidCredential,
			"no key"},
		{"another key", sign(t, "RS256", otherRSA(), fields{"kid": "rsa"}, claims(nil)), usual,
			access.ErrInvalidCredential, "signature"},
		{"kid is a path", rs(fields{"kid": "../../../../dev/null"}, claims(nil)), usual, access.ErrInvalidCredential,
			"no key"},
		{"kid is the file", rs(fields{"kid": usual.Keys[0]}, claims(nil)), usual, access.ErrInvalidCredential,
			"no key"},
		{"kid is a URL", rs(fields{"kid": "http://127.0.0.1:1/"}, claims(nil)), usual, access.ErrInvalidCredential,
			"no key"},
		{"kid is an injection", rs(fields{"kid": "x' UNION SELECT 'k"}, claims(nil)), usual,
			access.ErrInvalidCredential, "no key"},
		{"kid isn't text", rs(fields{"kid": []int{1}}, claims(nil)), usual, access.ErrInvalidCredential, "header"},
		{"kid is long", rs(fields{"kid": strings.Repeat("k", 257)}, claims(nil)), usual, access.ErrInvalidCredential,
			"too long"},
		{"no kid", rs(nil, claims(nil)), usual, access.ErrInvalidCredential, "no key"},
		{"own key", sign(t, "RS256", otherRSA(), fields{"jwk": json.RawMessage(jwk("rsa", otherRSA())),
			"jku": "http://127.0.0.1:1/", "kid": "rsa"}, claims(nil)), usual, access.ErrInvalidCredential, "signature"},
		{"crit", rs(fields{"kid": "rsa", "crit": []string{"exp"}}, claims(nil)), usual, access.ErrInvalidCredential,
			"crit"},
		{"no signature", parts[0] + "." + parts[1] + ".", usual, access.ErrInvalidCredential, "signature"},
		{"other claims", parts[0] + "." + strings.Split(rs(nil, claims(fields{"sub": "root"})), ".")[1] + "." +
			parts[2], usual, access.ErrInvalidCredential, "signature"},
		{"padding", valid + "==", usual, access.ErrInvalidCredential, "base64"},
		{"a line end", valid + "\n", usual, access.ErrInvalidCredential, "line end"},
		{"base64 in another form", valid[:len(valid)-1] + string(valid[len(valid)-1]+1), usual,
			access.ErrInvalidCredential, ""},

		{"expired", rs(fields{"kid": "rsa"}, claims(fields{"exp": now.Add(-time.Second).Unix()})), usual,
			access.ErrExpired, ""},
		{"expired, with another key", sign(t, "RS256", otherRSA(), fields{"kid": "rsa"}, claims(fields{"exp": 1})),
			usual, access.ErrInvalidCredential, "signature"},
		{"expired, of another issuer", rs(fields{"kid": "rsa"}, claims(fields{"exp": 1, "iss": "x", "aud": "a"})),
			strict, access.ErrInvalidCredential, "issuer"},
		{"no end", rs(fields{"kid": "rsa"}, claims(fields{"exp": nil})), usual, access.ErrInvalidCredential, "exp"},
		{"null end", rs(fields{"kid": "rsa"}, `{"sub":"ann","exp":null}`), usual, access.ErrInvalidCredential, "exp"},
		{"far end", rs(fields{"kid": "rsa"}, claims(fields{"exp": 1e30})), usual, access.ErrInvalidCredential,
			"out of range"},
		{"negative", rs(fields{"kid": "rsa"}, claims(fields{"nbf": -1e30})), usual, access.ErrInvalidCredential,
			"out of range"},
		{"end as text", rs(fields{"kid": "rsa"}, claims(fields{"exp": "9999999999"})), usual,
			access.ErrInvalidCredential, "claims"},
		{"not yet", rs(fields{"kid": "rsa"}, claims(fields{"nbf": now.Add(time.Minute).Unix()})), usual,
			access.ErrInvalidCredential, "not valid yet"},
		{"issuer", rs(fields{"kid": "rsa"}, claims(fields{"iss": "Issuer", "aud": "a"})), strict,
			access.ErrInvalidCredential, "issuer"},
		{"no issuer", rs(fields{"kid": "rsa"}, claims(fields{"aud": "a"})), strict, access.ErrInvalidCredential, "iss"},
		{"audience", rs(fields{"kid": "rsa"}, claims(fields{"iss": "issuer", "aud": []string{"b", "A"}})), strict,
			access.ErrInvalidCredential, "audience"},
		{"no audience", rs(fields{"kid": "rsa"}, claims(fields{"iss": "issuer"})), strict, access.ErrInvalidCredential,
			"aud"},
		{"empty audience", rs(fields{"kid": "rsa"}, claims(fields{"iss": "issuer", "aud": []string{""}})), strict,
			access.ErrInvalidCredential, "aud"},
		{"null in an audience", rs(fields{"kid": "rsa"}, claims(fields{"iss": "issuer", "aud": []any{"a", nil}})), strict,
			access.ErrInvalidCredential, "claims"},
		{"four parts", valid + ".x", usual, access.ErrInvalidCredential, "signature"},
		{"malformed key in the header", rs(fields{"kid": "rsa", "jwk": fields{"kty": "RSA"}}, claims(nil)), usual,
			access.ErrInvalidCredential, "header"},
		{"for another service", rs(fields{"kid": "rsa"}, claims(fields{"aud": "a"})), usual,
			access.ErrInvalidCredential, "audience"},
		{"no subject", rs(fields{"kid": "rsa"}, claims(fields{"sub": nil})), usual, access.ErrInvalidCredential,
			"subject"},
		{"subject as number", rs(fields{"kid": "rsa"}, claims(fields{"sub": 1})), usual, access.ErrInvalidCredential,
			"claims"},
		{"duplicate subject", rs(fields{"kid": "rsa"}, `{"sub":"ann","exp":9999999999,"sub":"root"}`), usual,
			access.ErrInvalidCredential, "claims"},
		{"duplicate grants",
			rs(fields{"kid": "rsa"}, `{"sub":"ann","exp":9999999999,"tidemark":[],"tidemark":[{"actions":["admin"]}]}`),
			usual, access.ErrInvalidCredential, "claims"},
		{"duplicate inside", rs(fields{"kid": "rsa"}, `{"sub":"ann","exp":9999999999,"x":{"a":1,"a":2}}`), usual,
			access.ErrInvalidCredential, "claims"},
		{"wrong grants",
			rs(fields{"kid": "rsa"}, claims(fields{"tidemark": []fields{{"actions": []string{"everything"}}}})), usual,
			access.ErrInvalidCredential, "isn't an action"},
		{"grants as text", rs(fields{"kid": "rsa"}, claims(fields{"tidemark": "publish"})), usual,
			access.ErrInvalidCredential, "array"},
		{"null grants", rs(fields{"kid": "rsa"}, `{"sub":"ann","exp":9999999999,"tidemark":null}`), usual,
			access.ErrInvalidCredential, "array"},
		{"claims aren't an object", rs(fields{"kid": "rsa"}, `[]`), usual, access.ErrInvalidCredential, "claims"},
		{"null claims", rs(fields{"kid": "rsa"}, `null`), usual, access.ErrInvalidCredential, "exp"},
		{"invalid UTF-8", rs(fields{"kid": "rsa"}, "{\"sub\":\"a\xff\",\"exp\":9999999999}"), usual,
			access.ErrInvalidCredential, "claims"},
		{"nested junk", rs(fields{"kid": "rsa"}, strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000)), usual,
			access.ErrInvalidCredential, ""},
		{"junk in the header", signText(t, "RS256", rsaKey(), strings.Repeat("[", 4000), claims(nil)), usual,
			access.ErrInvalidCredential, "header"},
		{"100 KB", rs(fields{"kid": "rsa"}, claims(fields{"x": strings.Repeat("x", 75_000)})), usual,
			access.ErrInvalidCredential, "too long"},
		{"no token", "..", usual, access.ErrInvalidCredential, "header"},
		{"dots", strings.Repeat(".", 8000), usual, access.ErrInvalidCredential, "header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, tt.options)
			p, err := v.Authenticate(t.Context(), tt.token)
			require.ErrorIs(t, err, tt.want)
			if tt.want == nil {
				return
			}
			require.Nil(t, p)
			require.ErrorContains(t, err, tt.reason)
			require.Less(t, len(err.Error()), 300)
			require.NotContains(t, err.Error(), parts[2][:20])
			entries, _ := accessjwt.Remembered(v)
			require.Zero(t, entries, "what is refused isn't remembered")
		})
	}
}

// TestEarlyTokens: the answer to a token that begins in a moment says when to try it again.
func TestEarlyTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t, accessjwt.Options{Keys: []string{write(t, publicPEM(edKey()))}, Leeway: 5 * time.Second})
		begins := func(in time.Duration) string {
			now := time.Now()
			return sign(t, "EdDSA", edKey(), nil, fields{"sub": "ann", "nbf": now.Add(in).Unix(),
				"exp": now.Add(time.Hour).Unix()})
		}
		for in, want := range map[time.Duration]time.Duration{8 * time.Second: 3 * time.Second, time.Hour: 0} {
			var e *fault.Error
			_, err := v.Authenticate(t.Context(), begins(in))
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, access.ErrInvalidCredential)
			require.Equal(t, want, e.RetryAfter)
		}
		early := begins(8 * time.Second)
		<-time.After(3 * time.Second)
		_, err := v.Authenticate(t.Context(), early)
		require.NoError(t, err)
	})
}

// TestKeysWithoutID: keys without an ID are tried for tokens with and without one.
func TestKeysWithoutID(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, accessjwt.Options{Keys: []string{write(t, publicPEM(otherRSA())+publicPEM(rsaKey())),
		write(t, jwks(jwk("ed", edKey())))}})
	for _, token := range []string{
		sign(t, "RS256", rsaKey(), nil, claims(nil)), sign(t, "RS256", otherRSA(), fields{"kid": "x"}, claims(nil)),
		sign(t, "EdDSA", edKey(), fields{"kid": "ed"}, claims(nil)), sign(t, "RS256", rsaKey(), fields{"kid": "ed"},
			claims(nil)),
	} {
		_, err := v.Authenticate(t.Context(), token)
		require.NoError(t, err)
	}
}

// TestBadOptions: options that can't verify tokens safely are refused at the start.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	weak := must(rsa.GenerateKey(rand.Reader, 1024))
	p224 := must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	private := pemOf("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(edKey())))
	all := accessjwt.Algorithms
	file := func(content string) accessjwt.Options {
		return accessjwt.Options{Keys: []string{write(t, content)}, Algorithms: all}
	}
	tests := []struct {
		options accessjwt.Options
		want    string
	}{
		{accessjwt.Options{}, "jwtKeys: isn't set"},
		{accessjwt.Options{Keys: []string{"k"}}, "jwtAlgorithms: isn't set"},
		{accessjwt.Options{Keys: []string{"k"}, Algorithms: []string{"none"}}, `jwtAlgorithms: "none" isn't one of`},
		{accessjwt.Options{Keys: []string{"k"}, Algorithms: []string{"rs256"}}, `jwtAlgorithms: "rs256" isn't one of`},
		{accessjwt.Options{Keys: []string{"k"}, Algorithms: all, Claim: "sub"}, `jwtClaim: "sub" has a meaning`},
		{accessjwt.Options{Keys: []string{"k"}, Algorithms: all, SubjectClaim: "iss"},
			`jwtSubjectClaim: "iss" has a meaning`},
		{accessjwt.Options{Keys: []string{"k"}, Algorithms: all, Claim: "g", SubjectClaim: "g"},
			`jwtSubjectClaim: "g" has a meaning`},
		{accessjwt.Options{Keys: []string{"/missing/k"}, Algorithms: all}, "jwtKeys: /missing/k: open"},
		{accessjwt.Options{Keys: []string{"http://issuer.example/keys"}, Algorithms: all}, "with https"},
		{accessjwt.Options{Keys: []string{"http://127.0.0.1.example/keys"}, Algorithms: all}, "with https"},
		{accessjwt.Options{Keys: []string{"file:///etc/passwd"}, Algorithms: all}, "isn't the URL"},
		{accessjwt.Options{Keys: []string{"ftp://issuer.example/keys"}, Algorithms: all}, "with https"},
		{accessjwt.Options{Keys: []string{"https://u:secret@/x"}, Algorithms: all}, "isn't the URL"},
		{accessjwt.Options{Keys: []string{write(t, publicPEM(edKey()))}, Algorithms: []string{"RS256"}},
			"has a key for EdDSA, none of which is in jwtAlgorithms"},
		{file(""), "has no key"},
		{file("secret"), "has no key"},
		{file(publicPEM(weak)), "an RSA key of 1024 bits"},
		{file(publicPEM(p224)), "a key of the curve P-224"},
		{file(private), `has a "PRIVATE KEY"`},
		{file(pemOf("PUBLIC KEY", []byte("x"))), "asn1"},
		{file(strings.Repeat(publicPEM(edKey()), 65)), "more than 64 keys"},
		{file(strings.Repeat("#", 1<<20+1)), "more than 1048576 bytes"},
		{file("{"), "is no JSON Web Key Set"},
		{file("{}"), "it has no keys"},
		{file(jwks()), "has no keys"},
		{file(jwks(strings.TrimSuffix(strings.Repeat(jwk("", edKey())+",", 65), ","))), "has 65 keys"},
		{file(jwk("", secret[:31])), "a secret of 31 bytes"},
		{file(jwk("", weak)), "an RSA key of 1024 bits"},
		{file(string(must(jose.JSONWebKey{Key: edKey()}.MarshalJSON()))), "a private key"},
		{file(string(must(jose.JSONWebKey{Key: rsaKey().Public(), Algorithm: "HS256"}.MarshalJSON()))),
			`for the algorithm "HS256", which it doesn't fit`},
		{file(string(must(jose.JSONWebKey{Key: secret, Algorithm: "HS512"}.MarshalJSON()))),
			`for the algorithm "HS512", which it doesn't fit`},
		{file(string(must(jose.JSONWebKey{Key: edKey().Public(), Use: "enc"}.MarshalJSON()))), `for the use "enc"`},
		{file(jwk(strings.Repeat("k", 257), edKey())), "an ID of 257 bytes"},
		{file(`{"kty":"oct"}`), "invalid"},
		{file(`{"kty":"none","k":""}`), "invalid"},
	}
	for _, tt := range tests {
		_, err := accessjwt.New(tt.options)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "secret@")
	}
}

// TestAccepts tells tokens from other credentials.
func TestAccepts(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, accessjwt.Options{Keys: []string{write(t, publicPEM(edKey()))}})
	require.True(t, v.Accepts("e30.e30.AA"))
	for _, other := range []string{"", "tmk_id_secret", "tmt_01J.duel.eu_x", "a.b", "a.b.c.d.e"} {
		require.False(t, v.Accepts(other), other)
	}
}

// FuzzToken: no text without a signature is a token.
func FuzzToken(f *testing.F) {
	v := newVerifier(f, accessjwt.Options{Keys: []string{write(f, publicPEM(edKey()))}})
	f.Add("e30.e30.AA")
	f.Add("eyJhbGciOiJFZERTQSIsImtpZCI6ImEifQ.eyJzdWIiOiJhbm4iLCJleHAiOjk5OTk5OTk5OTl9." + strings.Repeat("A", 86))
	f.Fuzz(func(t *testing.T, token string) {
		_, err := v.Authenticate(t.Context(), token)
		require.ErrorIs(t, err, access.ErrInvalidCredential)
	})
}

// BenchmarkSeen authenticates a token that was seen before, and checks a request.
func BenchmarkSeen(b *testing.B) {
	v := newVerifier(b, accessjwt.Options{Keys: []string{write(b, publicPEM(rsaKey()))}})
	g := must(access.New(access.Options{Authenticators: []access.Authenticator{v}}))
	token := sign(b, "RS256", rsaKey(), nil, claims(nil))
	b.ReportMetric(float64(len(token)), "B/token")
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.Authenticate(b.Context(), token)
		if err == nil {
			err = g.Check(b.Context(), p, access.Publish, access.Resource{Channel: "c"})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNew verifies tokens that were not seen before.
func BenchmarkNew(b *testing.B) {
	v := newVerifier(b, accessjwt.Options{Keys: []string{write(b, publicPEM(p256Key()))}})
	list := make([]string, 1000)
	for i := range list {
		list[i] = sign(b, "ES256", p256Key(), nil, claims(fields{"jti": fmt.Sprint(i)}))
	}
	b.ResetTimer()
	for i := range b.N {
		if i%len(list) == 0 {
			b.StopTimer()
			v = newVerifier(b, accessjwt.Options{Keys: []string{write(b, publicPEM(p256Key()))}})
			b.StartTimer()
		}
		if _, err := v.Authenticate(b.Context(), list[i%len(list)]); err != nil {
			b.Fatal(err)
		}
	}
}
