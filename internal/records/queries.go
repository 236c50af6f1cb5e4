package records

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of searches and of the parameters of lists.
const (
	MaxParameterBytes = 8 << 10 // of a text, and of all parameters together
	maxParameters     = 64
)

// hashed is the prefix of a long query's ID, before the hex SHA-256 of its full ID. No other ID begins with it: a
// single colon is followed by a parameter, which has an equals sign.
const hashed = "sha256:"

// SearchID returns the ID of a search in the cache. Searches that differ only in letter case, in white space around and
// between words, in the Unicode form of the text, or in the order of their parameters have the same ID. All others have
// different ones. The ID is the normalized text and, each after a colon, the parameters, sorted by name and then by
// value, as in
//
//	go redis:limit=10:offset=0
//
// A colon of the text or of a value is doubled. Values are not normalized. An ID longer than 512 bytes is replaced by
// its hash. Errors: ErrInvalidQuery.
func SearchID(text string, parameters url.Values) (string, error) {
	text, err := normalize(text)
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", invalidQuery("a search has a text")
	}
	return identify(text, parameters)
}

// ListID returns the ID of a list of publications in the cache: its parameters as in SearchID, without a text, as in
//
//	limit=20:offset=0:sort=created_at
//
// Errors: ErrInvalidQuery.
func ListID(parameters url.Values) (string, error) {
	id, err := identify("", parameters)
	if err == nil && id == "" {
		err = invalidQuery("a list has at least one parameter, such as limit=20")
	}
	return id, err
}

// CanonicalSearchID returns the canonical form of a search's ID. id has the form of an ID, but needn't be normalized.
// An ID of SearchID is returned as it is. Errors: ErrInvalidQuery.
func CanonicalSearchID(id string) (string, error) {
	if isHash(id) {
		return id, nil
	}
	text, rest, more := cut(id)
	parameters, err := parseParameters(rest, more)
	if err != nil {
		return "", err
	}
	return SearchID(text, parameters)
}

// CanonicalListID returns the canonical form of a list's ID, as CanonicalSearchID does. Errors: ErrInvalidQuery.
func CanonicalListID(id string) (string, error) {
	if isHash(id) {
		return id, nil
	}
	parameters, err := parseParameters(id, true)
	if err != nil {
		return "", err
	}
	return ListID(parameters)
}

// listParameters returns the parameters of a list's canonical ID, and searchParameters those of a search.
func listParameters(id string) (url.Values, error) { return parseParameters(id, true) }

func searchParameters(id string) (url.Values, error) {
	_, rest, more := cut(id)
	return parseParameters(rest, more)
}

// normalize returns the text of a search in lower case and Unicode's form NFC, with one space between words.
func normalize(text string) (string, error) {
	if err := checkText("text", text); err != nil {
		return "", err
	}
	// NFC comes first and last: İ, composed or not, has the lower case i, and ẖ is composed while its upper case isn't.
	text = norm.NFC.String(strings.ToLower(norm.NFC.String(text)))
	text = strings.Join(strings.Fields(text), " ")
	return text, checkControl("text", text)
}

type parameter struct{ name, value string }

// identify returns the ID of a normalized text, or "" without one, with parameters.
func identify(text string, parameters url.Values) (string, error) {
	list, err := sorted(parameters)
	if err != nil {
		return "", err
	}
	parts := make([]string, 0, len(list)+1)
	if text != "" {
		parts = append(parts, double(text))
	}
	for _, p := range list {
		parts = append(parts, p.name+"="+double(p.value))
	}
	id := strings.Join(parts, ":")
	if len(id) > MaxQueryBytes {
		sum := sha256.Sum256([]byte(id))
		id = hashed + hex.EncodeToString(sum[:])
	}
	return id, nil
}

// sorted checks parameters and orders them.
func sorted(parameters url.Values) ([]parameter, error) {
	var list []parameter
	size := 0
	for name, values := range parameters {
		if err := checkParameter(name); err != nil {
			return nil, err
		}
		for _, value := range values {
			if err := cmp.Or(checkText(name, value), checkControl(name, value)); err != nil {
				return nil, err
			}
			list = append(list, parameter{name, value})
			size += len(name) + len(value)
		}
	}
	if len(list) > maxParameters || size > MaxParameterBytes {
		return nil, invalidQuery("%d parameters of %d bytes; at most %d of %d bytes are allowed", len(list), size,
			maxParameters, MaxParameterBytes)
	}
	slices.SortFunc(list, func(a, b parameter) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	return list, nil
}

// checkParameter refuses the name of a parameter that isn't 1 to 64 letters, digits, "_", "-" and ".".
func checkParameter(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if name == "" || len(name) > 64 || strings.Trim(name, allowed) != "" {
		return invalidQuery("%.64q can't be the name of a parameter: these have 1 to 64 letters, digits, _, - and .", name)
	}
	return nil
}

// checkText refuses a text that is too long or isn't UTF-8.
func checkText(what, text string) error {
	switch {
	case len(text) > MaxParameterBytes:
		return invalidQuery("%s has %d bytes, at most %d are allowed", what, len(text), MaxParameterBytes)
	case !utf8.ValidString(text):
		return invalidQuery("%s isn't UTF-8", what)
	}
	return nil
}

func checkControl(what, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return invalidQuery("%s has control characters", what)
	}
	return nil
}

// parseParameters reads the parameters of an ID, if there are more than were read.
func parseParameters(id string, more bool) (url.Values, error) {
	parameters := url.Values{}
	for more {
		var pair string
		pair, id, more = cut(id)
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, invalidQuery(
				"%.64q isn't a parameter, such as limit=20; a colon of the text or of a value is written twice", pair)
		}
		parameters.Add(name, value)
	}
	return parameters, nil
}

// cut returns the text before the first single colon, with its double colons made single, and the text after it. more
// reports whether there is a single colon.
func cut(id string) (first, rest string, more bool) {
	for i := 0; i < len(id); i++ {
		switch {
		case id[i] != ':':
		case strings.HasPrefix(id[i+1:], ":"):
			i++
		default:
			return single(id[:i]), id[i+1:], true
		}
	}
	return single(id), "", false
}

func double(text string) string { return strings.ReplaceAll(text, ":", "::") }
func single(text string) string { return strings.ReplaceAll(text, "::", ":") }

// isHash reports whether an ID is that of a long query.
func isHash(id string) bool {
	digits, ok := strings.CutPrefix(id, hashed)
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}
