package channel

import (
	"mime"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxContentTypeBytes is the maximum length of the content type of a message, in bytes.
const MaxContentTypeBytes = 128

// jsonType is the media type of JSON, which has no parameters: those that it is sent with mean nothing.
const jsonType = "application/json"

// ParseContentType returns the content type of a message for a media type as RFC 9110 defines it, such as that of a
// header Content-Type: in lower case but for the values of its parameters other than charset, with the parameters in
// order, and without quotes. That of application/json is "", whatever its parameters. The error has
// fault.SlugContentType: the text is no media type, has more than MaxContentTypeBytes bytes, or a parameter that
// needs quotes.
func ParseContentType(text string) (string, error) {
	const field = "/contentType"
	if name, _, _ := strings.Cut(text, ";"); strings.EqualFold(strings.TrimSpace(name), jsonType) {
		return "", nil
	}
	if len(text) > 4*MaxContentTypeBytes { // parameters of RFC 2231 may become shorter
		return "", invalid(fault.SlugContentType, field, "the content type has %d bytes, at most %d are allowed",
			len(text), MaxContentTypeBytes)
	}
	name, parameters, err := mime.ParseMediaType(text)
	switch {
	case err != nil:
		return "", invalid(fault.SlugContentType, field, "the content type %.64q isn't a media type: %s", text,
			strings.TrimPrefix(err.Error(), "mime: "))
	case !strings.Contains(name, "/"):
		return "", invalid(fault.SlugContentType, field,
			"the content type %.64q isn't a media type such as text/plain", text)
	}
	if charset, ok := parameters["charset"]; ok {
		parameters["charset"] = strings.ToLower(charset)
	}
	normal := mime.FormatMediaType(name, parameters)
	switch {
	case len(normal) > MaxContentTypeBytes:
		return "", invalid(fault.SlugContentType, field, "the content type has %d bytes, at most %d are allowed",
			len(normal), MaxContentTypeBytes)
	case !IsContentType(normal):
		return "", invalid(fault.SlugContentType, field,
			"the content type %.64q has a parameter whose value needs quotes", text)
	}
	return normal, nil
}

// IsContentType reports whether a text has the form of the results of ParseContentType other than "": it is short, and
// has a slash and only printable ASCII without quotes and backslashes, so that it needs no escapes in JSON.
func IsContentType(text string) bool {
	if len(text) > MaxContentTypeBytes || !strings.Contains(text, "/") {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// checkType returns an error unless the draft's content type is one that its channel takes.
func (d *Draft) checkType(policy *Policy) error {
	if d.ContentType == "" {
		return nil
	}
	normal, err := ParseContentType(d.ContentType)
	switch {
	case err != nil:
		return err
	case normal != d.ContentType:
		return invalid(fault.SlugContentType, "", "the content type %.64q isn't in its normal form, %q",
			d.ContentType, normal)
	case policy.Schema != nil:
		return invalid(fault.SlugSchema, "", "the messages of this channel have a schema, so they are JSON and not %s",
			d.ContentType)
	}
	return nil
}
