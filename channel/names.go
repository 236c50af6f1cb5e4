package channel

import (
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxNameBytes is the longest channel name, subscriber name and message ID.
const MaxNameBytes = 128

// NamePattern is the regular expression that channel names, subscriber names and message IDs match.
const NamePattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`

// CheckChannel returns an error with fault.SlugInvalidChannel unless name matches NamePattern. A valid name can't break
// out of the hash tag of a key.
func CheckChannel(name string) error {
	return checkName(name, "channel name", "channel", fault.SlugInvalidChannel)
}

// CheckSubscriber is CheckChannel for subscriber names, with fault.SlugInvalidSubscriber.
func CheckSubscriber(name string) error {
	return checkName(name, "subscriber name", "subscriber", fault.SlugInvalidSubscriber)
}

// CheckMessageID is CheckChannel for message IDs, with fault.SlugInvalidMessageID.
func CheckMessageID(id string) error {
	return checkName(id, "message ID", "id", fault.SlugInvalidMessageID)
}

func checkName(name, what, field string, slug fault.Slug) error {
	switch {
	case name == "":
		return invalid(slug, field, "the %s is empty", what)
	case len(name) > MaxNameBytes:
		return invalid(slug, field, "the %s has %d bytes, at most %d are allowed", what, len(name), MaxNameBytes)
	}
	for i := range len(name) {
		if !nameByte(name[i], i == 0) {
			char, _ := utf8.DecodeRuneInString(name[i:])
			return invalid(slug, field, "the %s %q has %q at byte %d: it must match %s", what, name, char, i, NamePattern)
		}
	}
	return nil
}

func nameByte(b byte, first bool) bool {
	switch {
	case '0' <= b && b <= '9', 'A' <= b && b <= 'Z', 'a' <= b && b <= 'z':
		return true
	case b == '_', b == '.', b == ':', b == '-':
		return !first
	default:
		return false
	}
}
