// Package names checks names that clients choose: of channels, subscribers, queues and tickets, and message IDs.
package names

import (
	"fmt"
	"unicode/utf8"
)

// Pattern is the regular expression that names match. A valid name can't break out of the hash tag of a key.
const Pattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`

// MaxBytes is the longest name.
const MaxBytes = 128

// Wrong describes why a name is invalid, such as "is empty"; it returns "" if the name matches Pattern.
func Wrong(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxBytes:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxBytes)
	}
	for i := range len(name) {
		if !allowed(name[i], i == 0) {
			char, _ := utf8.DecodeRuneInString(name[i:])
			return fmt.Sprintf("%q has %q at byte %d: it must match %s", name, char, i, Pattern)
		}
	}
	return ""
}

// CanContain reports whether names can contain a character.
func CanContain(r rune) bool { return r < utf8.RuneSelf && allowed(byte(r), false) }

// CanBegin reports whether names can begin with a character.
func CanBegin(r rune) bool { return r < utf8.RuneSelf && allowed(byte(r), true) }

func allowed(b byte, first bool) bool {
	switch {
	case '0' <= b && b <= '9', 'A' <= b && b <= 'Z', 'a' <= b && b <= 'z':
		return true
	case b == '_', b == '.', b == ':', b == '-':
		return !first
	default:
		return false
	}
}
