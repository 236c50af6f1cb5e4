// Package jwt verifies JSON Web Tokens (RFC 7519), with the keys of files and of JSON Web Key Sets (RFC 7517).
//
// A [Verifier] is an access.Authenticator. The members of a token's header don't choose how it is verified. They are
// only compared with the configuration:
//
//	alg     must be one of Options.Algorithms. A key verifies only the algorithms of its own sort: a public key is never
//	        the secret of an HMAC, and there is no "none".
//	kid     is looked up in the keys that are known already. A key without an ID is tried for every token.
//	crit    is refused. jku, jwk, x5u and x5c are not used; a jwk or x5c that is malformed is refused.
//
// A token must expire, and have a subject. Verified tokens are cached by their SHA-256: up to 10,000 tokens, and up to
// 16 MiB of them.
//
// [Verifier.Run] keeps the keys current. A file is read again when it changes; a set is fetched every five minutes, and
// when a token has the ID of an unknown key, at most every ten seconds. Tokens whose keys are known never wait for
// that. While a set can't be fetched, its last keys stay in use for a day. When a key is removed, its tokens leave the
// cache, and the requests that wait with them end.
package jwt
