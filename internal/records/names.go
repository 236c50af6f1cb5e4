package records

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/fault"
)

// Bounds of names chosen by callers.
const (
	MaxIDBytes    = 128 // users, IDs of entities, operations, processes and the like
	MaxQueryBytes = 512 // search queries, and the parameters of lists
)

// CheckID checks a name that a caller chose: of a user, an entity, an operation, a process. It is UTF-8 without control
// characters, of 1 to MaxIDBytes bytes. The error has the slug fault.SlugInvalidID, and names the field.
func CheckID(field, text string) error { return checkName(field, text, MaxIDBytes) }

// CheckQuery checks a search query, or the parameters of a list: as CheckID, with up to MaxQueryBytes bytes.
func CheckQuery(field, text string) error { return checkName(field, text, MaxQueryBytes) }

func checkName(field, text string, limit int) error {
	if wrong := wrong(text, limit); wrong != "" {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: field, Detail: field + " " + wrong}
	}
	return nil
}

func wrong(text string, limit int) string {
	switch {
	case text == "":
		return "is empty"
	case len(text) > limit:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text):
		return "isn't valid UTF-8"
	}
	for at, char := range text {
		if unicode.IsControl(char) {
			return fmt.Sprintf("has the control character %U at byte %d", char, at)
		}
	}
	return ""
}

// IsText reports whether text is UTF-8 without control characters.
func IsText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// empty represents an empty part: no encoded text is a single percent sign. Without it the hash tag could be empty, and
// Redis would hash the whole key.
const empty = '%'

// appendEncoded appends a part of a key. reserved is the characters that are encoded besides the usual ones, and spaces
// whether white space is.
func appendEncoded(key []byte, part, reserved string, spaces bool) []byte {
	if part == "" {
		return append(key, empty)
	}
	for i := 0; i < len(part); {
		size := 1
		encode := special(part[i]) || part[i] == ' ' && spaces || strings.IndexByte(reserved, part[i]) >= 0
		if part[i] >= utf8.RuneSelf {
			var char rune
			char, size = utf8.DecodeRuneInString(part[i:])
			encode = char == utf8.RuneError && size == 1 || unicode.IsSpace(char) && spaces || unicode.IsControl(char)
		}
		for ; size > 0; size-- {
			if encode {
				key = append(key, '%', hexDigits[part[i]>>4], hexDigits[part[i]&15])
			} else {
				key = append(key, part[i])
			}
			i++
		}
	}
	return key
}

const hexDigits = "0123456789ABCDEF"

// special reports whether a byte of ASCII is always encoded.
func special(b byte) bool { return b < ' ' || b == 0x7f || b == '{' || b == '}' || b == '%' }

// decode returns the part that appendEncoded encoded as text, if there is one. Of another text, such as %41 or %zz, it
// returns a part that has another encoding.
func decode(text string) (part string, ok bool) {
	if text == string(empty) {
		return "", true
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		b := text[i]
		if b == '%' {
			if i+2 >= len(text) {
				return "", false
			}
			b = digit(text[i+1])<<4 | digit(text[i+2])
			i += 2
		}
		decoded = append(decoded, b)
	}
	return string(decoded), true
}

func digit(b byte) byte {
	switch {
	case '0' <= b && b <= '9':
		return b - '0'
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10
	}
	return 0
}
