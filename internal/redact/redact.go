// Package redact removes secrets from text that is shown or logged, and shortens it.
package redact

import (
	"net/url"
	"regexp"
	"strings"
)

// Mark replaces a secret.
const Mark = "xxxxx"

// userInfo is the user and the password in a text that isn't a URL for Go, such as one with several hosts.
var userInfo = regexp.MustCompile(`://.*@`)

// URL returns a URL with Mark in place of possible passwords and tokens: the password, a user name without one, and the
// values of the query. In a text that isn't a URL for Go, Mark is in place of all between "://" and the last "@".
func URL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return userInfo.ReplaceAllLiteralString(text, "://"+Mark+"@")
	case u.User == nil && u.RawQuery == "":
		return text
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), Mark)
		} else {
			u.User = url.User(Mark)
		}
	}
	if u.RawQuery != "" {
		parameters := strings.Split(u.RawQuery, "&")
		for i, p := range parameters {
			name, _, hasValue := strings.Cut(p, "=")
			parameters[i] = Mark
			if hasValue {
				parameters[i] = name + "=" + Mark
			}
		}
		u.RawQuery = strings.Join(parameters, "&")
	}
	return u.String()
}

// InURL reports whether Mark stands for a secret of the URL.
func InURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(userInfo.FindString(text), Mark)
	}
	return strings.Contains(u.User.String()+"?"+u.RawQuery, Mark)
}

// credential matches API keys, tokens of tickets, sessions, verifications and locks, and JSON Web Tokens.
var credential = regexp.MustCompile(`\btm[a-z]_[0-9A-Za-z_-]{16,}|\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*`)

// Credentials returns a text with Mark in place of everything in the form of a credential.
func Credentials(text string) string {
	if !strings.Contains(text, "tm") && !strings.Contains(text, "eyJ") {
		return text
	}
	return credential.ReplaceAllString(text, Mark)
}

// Cut returns text, or if it is longer than limit bytes its beginning and an ellipsis.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
