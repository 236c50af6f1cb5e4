package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
)

// Where a client sends its credential.
const (
	authorizationHeader = "Authorization"
	bearerScheme        = "Bearer"
	tokenParameter      = "access_token" // for browsers, where a rule of the channel allows it
)

// ErrInQuery is the error of a credential in the query where no rule of the channel allows it.
var ErrInQuery = &fault.Error{
	Kind: fault.Invalid, Slug: fault.SlugTokenInQuery, Field: tokenParameter,
	Detail: "no rule of the channel allows " + tokenParameter + " here; send the token in the header Authorization",
}

// What is wrong with how a credential is sent.
var (
	errMalformed = &fault.Error{
		Kind: fault.Unauthenticated, Slug: fault.SlugInvalidCredential,
		Detail: "the request must have one header Authorization, with the scheme Bearer and one token",
	}
	errTwice = &fault.Error{
		Kind: fault.Invalid, Slug: fault.SlugTokenInQuery, Field: tokenParameter,
		Detail: "the request has more than one token; send it once",
	}
)

// BearerToken returns the token of the headers Authorization, or "" if there are none. The error is errMalformed.
func BearerToken(headers []string) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	sent, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(sent, bearerScheme) {
		return "", errMalformed
	}
	token = strings.TrimLeft(token, " ")
	return token, wellFormed(token)
}

// inToken has the bytes that a token may have. It may end with any number of "=".
var inToken = func() (set [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/") {
		set[b] = true
	}
	return set
}()

// wellFormed returns errMalformed unless a token has the form that RFC 6750 gives it.
func wellFormed(token string) error {
	text := strings.TrimRight(token, "=")
	for i := range len(text) {
		if !inToken[text[i]] {
			return errMalformed
		}
	}
	if text == "" {
		return errMalformed
	}
	return nil
}

// take removes the token from a request's URL, so that no other code reads, shows or logs it. It returns the last one,
// and how many there were.
func takeToken(r *http.Request) (token string, times int) {
	for rest := r.URL.RawQuery; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if isToken(pair) {
			times++
			_, value, _ := strings.Cut(pair, "=")
			token, _ = url.QueryUnescape(value) // "" if it is malformed: no token either
		}
	}
	if times > 0 {
		r.URL.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), isToken), "&")
		r.RequestURI = r.URL.RequestURI()
	}
	return token, times
}

// isToken reports whether a parameter of a query is the token, however its name is escaped.
func isToken(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	plain, err := url.QueryUnescape(name)
	return err == nil && plain == tokenParameter
}
