package jwt

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeys       = 64 // of a file or a set
	minRSABits    = 2048
	maxRSABits    = 8192 // larger ones take too long to verify
	minSecretSize = 32   // bytes
)

// key verifies tokens.
type key struct {
	id         string // "": it is tried for every token
	algorithms []string
	material   any         // as jose.JSONWebSignature verifies with it
	mark       string      // the same for the same key
	removed    atomic.Bool // it was removed: the tokens that it verified are no longer valid
}

// publicAlgorithms returns the algorithms that a public key verifies.
func publicAlgorithms(public any) ([]string, error) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, fmt.Errorf("an RSA key of %d bits, which must have %d to %d", bits, minRSABits, maxRSABits)
		}
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case *ecdsa.PublicKey:
		switch k.Curve.Params().Name {
		case "P-256":
			return []string{"ES256"}, nil
		case "P-384":
			return []string{"ES384"}, nil
		case "P-521":
			return []string{"ES512"}, nil
		}
		return nil, fmt.Errorf("a key of the curve %s, which no algorithm has", k.Curve.Params().Name)
	case ed25519.PublicKey:
		return []string{"EdDSA"}, nil
	case *rsa.PrivateKey, *ecdsa.PrivateKey, ed25519.PrivateKey:
		return nil, errors.New("a private key: the service needs the public one only")
	}
	return nil, fmt.Errorf("a key of the type %T, which no algorithm has", public)
}

// secretAlgorithms returns the algorithms for which a secret is long enough (RFC 7518, 3.2).
func secretAlgorithms(secret []byte) ([]string, error) {
	if len(secret) < minSecretSize {
		return nil, fmt.Errorf("a secret of %d bytes, which must have at least %d", len(secret), minSecretSize)
	}
	return []string{"HS256", "HS384", "HS512"}[:min(len(secret)/16-1, 3)], nil
}

// newKey returns a key. allowSecret is whether it may be a secret. algorithm, if not empty, is the only one that it is
// for.
func newKey(id, algorithm string, material any, allowSecret bool) (*key, error) {
	k := &key{id: id, material: material}
	var err error
	var content []byte
	if secret, ok := material.([]byte); ok {
		if !allowSecret {
			return nil, errors.New("a secret, which a set that is fetched can't have")
		}
		content = secret
		k.algorithms, err = secretAlgorithms(secret)
	} else if k.algorithms, err = publicAlgorithms(material); err == nil {
		content, err = x509.MarshalPKIXPublicKey(material)
	}
	if err != nil {
		return nil, err
	}
	if algorithm != "" {
		if !slices.Contains(k.algorithms, algorithm) {
			return nil, fmt.Errorf("a key for the algorithm %.16q, which it doesn't fit", algorithm)
		}
		k.algorithms = []string{algorithm}
	}
	k.mark = fmt.Sprintf("%q %v %x", id, k.algorithms, sha256.Sum256(content))
	return k, nil
}

// parseFile parses the keys of a file: PEM, or a JSON Web Key or a set of them. All must be usable.
func parseFile(text []byte) ([]*key, error) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		return parsePEM(text)
	}
	keys, unusable, err := parseSet(text, true)
	if err == nil && len(unusable) > 0 {
		err = unusable[0]
	}
	if err == nil && len(keys) == 0 {
		err = errors.New("has no keys")
	}
	return keys, err
}

func parsePEM(text []byte) (keys []*key, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		var public any
		switch block.Type {
		case "PUBLIC KEY":
			public, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			public, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var certificate *x509.Certificate
			if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
				public = certificate.PublicKey
			}
		default:
			err = fmt.Errorf("has a %.32q, only public keys and certificates are of use", block.Type)
		}
		if err != nil {
			return nil, err
		}
		k, err := newKey("", "", public, false)
		if err != nil {
			return nil, fmt.Errorf("has %w", err)
		}
		if keys = append(keys, k); len(keys) > maxKeys {
			return nil, fmt.Errorf("has more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("has no key: neither PEM nor a JSON Web Key")
	}
	return keys, nil
}

// parseSet parses a JSON Web Key Set, or one key. Keys that can't be used are left out, with the reasons why.
func parseSet(text []byte, allowSecret bool) (keys []*key, unusable []error, err error) {
	var set struct {
		Type string            `json:"kty"`
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, nil, fmt.Errorf("is no JSON Web Key Set: %w", err)
	}
	switch {
	case set.Type != "":
		set.Keys = []json.RawMessage{text}
	case set.Keys == nil:
		return nil, nil, errors.New("is no JSON Web Key Set: it has no keys")
	case len(set.Keys) > maxKeys:
		return nil, nil, fmt.Errorf("has %d keys, at most %d are allowed", len(set.Keys), maxKeys)
	}
	for i, raw := range set.Keys {
		k, err := parseKey(raw, allowSecret)
		if err != nil {
			unusable = append(unusable, fmt.Errorf("key %d is %w", i, err))
			continue
		}
		keys = append(keys, k)
	}
	return keys, unusable, nil
}

func parseKey(raw []byte, allowSecret bool) (*key, error) {
	var parsed jose.JSONWebKey
	if err := parsed.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("invalid: %w", err)
	}
	switch {
	case parsed.Use != "" && parsed.Use != "sig":
		return nil, fmt.Errorf("a key for the use %.16q, not for signatures", parsed.Use)
	case len(parsed.KeyID) > maxIDBytes:
		return nil, fmt.Errorf("a key with an ID of %d bytes, at most %d are allowed", len(parsed.KeyID), maxIDBytes)
	}
	return newKey(parsed.KeyID, parsed.Algorithm, parsed.Key, allowSecret)
}
