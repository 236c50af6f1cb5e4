package matchmaking

import "github.com/tidemark-dev/tidemark/internal/redact"

// Hidden replaces each secret of a definition in output. In a definition that is put it means the stored secret.
const Hidden = redact.Mark

// Redacted returns the definition with Hidden in place of the webhook's secret, and of the user information and query
// values of each URL.
func (d Definition) Redacted() Definition {
	if d.Assigner.Secret != "" {
		d.Assigner.Secret = Hidden
	}
	for _, address := range d.addresses() {
		*address.url = redact.URL(*address.url)
	}
	return d
}

// address is a URL of a definition, and its key.
type address struct {
	path string
	url  *string
}

func (d *Definition) addresses() []address {
	return []address{{"match.url", &d.Match.URL}, {"evaluator.url", &d.Evaluator.URL},
		{"assigner.url", &d.Assigner.URL}}
}

// Hides reports whether the definition contains Hidden in place of a secret.
func (d Definition) Hides() bool {
	for _, a := range d.addresses() {
		if redact.InURL(*a.url) {
			return true
		}
	}
	return d.Assigner.Secret == Hidden
}

// Unhide replaces Hidden by the secrets of stored, the definition of the same queue. A secret is used only with the URL
// that it is stored with, so that a client without access to the secret can't redirect it to another URL. Errors:
// fault.SlugInvalidQueue.
func (d *Definition) Unhide(stored Definition) error {
	current := stored.addresses()
	for i, a := range d.addresses() {
		switch {
		case !redact.InURL(*a.url):
		case *a.url == redact.URL(*current[i].url):
			*a.url = *current[i].url
		default:
			return InvalidQueue(a.path,
				"%s: %s stands for a stored secret, but the stored URL is another: give the whole URL", a.path, Hidden)
		}
	}
	const path = "assigner.secret"
	switch {
	case d.Assigner.Secret != Hidden:
	case stored.Assigner.Secret == "":
		return InvalidQueue(path, "%s: %s stands for the stored secret, but none is stored: give the secret", path,
			Hidden)
	case d.Assigner.URL != stored.Assigner.URL:
		return InvalidQueue(path, "%s: %s stands for the stored secret, which is for another URL: give the secret",
			path, Hidden)
	default:
		d.Assigner.Secret = stored.Assigner.Secret
	}
	return nil
}
