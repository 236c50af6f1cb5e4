package matchmaking

import (
	"net/url"
	"strings"
)

// Hidden stands for each secret of a definition that is shown. In a definition that is put, it stands for the secret
// that is stored.
const Hidden = "xxxxx"

// Redacted returns the definition as it can be shown: with Hidden in place of the webhook's secret, and of the user
// information and the values of the query of each URL.
func (d Definition) Redacted() Definition {
	if d.Assigner.Secret != "" {
		d.Assigner.Secret = Hidden
	}
	for _, address := range d.addresses() {
		*address.url = RedactURL(*address.url)
	}
	return d
}

// address is a URL of a definition, and its key.
type address struct {
	path string
	url  *string
}

func (d *Definition) addresses() []address {
	return []address{{"match.url", &d.Match.URL}, {"evaluator.url", &d.Evaluator.URL}, {"assigner.url", &d.Assigner.URL}}
}

// RedactURL returns a URL without what may be a password or a token. A text that is no URL stays as it is.
func RedactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil && u.RawQuery == "" {
		return text
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), Hidden)
		} else {
			u.User = url.User(Hidden)
		}
	}
	if u.RawQuery != "" {
		parameters := strings.Split(u.RawQuery, "&")
		for i, p := range parameters {
			name, _, hasValue := strings.Cut(p, "=")
			parameters[i] = Hidden
			if hasValue {
				parameters[i] = name + "=" + Hidden
			}
		}
		u.RawQuery = strings.Join(parameters, "&")
	}
	return u.String()
}

// Hides reports whether Hidden stands for a secret of the definition.
func (d Definition) Hides() bool {
	for _, a := range d.addresses() {
		if hidesPart(*a.url) {
			return true
		}
	}
	return d.Assigner.Secret == Hidden
}

func hidesPart(text string) bool {
	u, err := url.Parse(text)
	return err == nil && strings.Contains(u.User.String()+"?"+u.RawQuery, Hidden)
}

// Reveal puts the secrets of stored, which is of the same queue, in the places of Hidden. A secret is only used with the
// URL that it is stored with, so that nobody who can't read it can send it elsewhere. Errors: SlugInvalidQueue.
func (d *Definition) Reveal(stored Definition) error {
	known := stored.addresses()
	for i, a := range d.addresses() {
		switch {
		case !hidesPart(*a.url):
		case *a.url == RedactURL(*known[i].url):
			*a.url = *known[i].url
		default:
			return InvalidQueue(a.path, "%s: %s stands for a stored secret, but the stored URL is another: give the whole URL", a.path, Hidden)
		}
	}
	const path = "assigner.secret"
	switch {
	case d.Assigner.Secret != Hidden:
	case stored.Assigner.Secret == "":
		return InvalidQueue(path, "%s: %s stands for the stored secret, but none is stored: give the secret", path, Hidden)
	case d.Assigner.URL != stored.Assigner.URL:
		return InvalidQueue(path, "%s: %s stands for the stored secret, which is for another URL: give the secret", path, Hidden)
	default:
		d.Assigner.Secret = stored.Assigner.Secret
	}
	return nil
}
