// Package names checks names that clients choose: of channels, subscribers, queues and tickets, and message IDs. Names of
// channels may have path segments.
package names

import (
	"fmt"
	"unicode/utf8"
)

// Pattern is the regular expression that names match. A valid name can't break out of the hash tag of a key.
const Pattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`

// MaxBytes is the longest name.
const MaxBytes = 128

// ChannelPattern is the regular expression that names of channels match, which have at most MaxChannelBytes: path
// segments with slashes between them. None is "." or "..", nor begins with a dot, so that a name stays what it is as a
// part of a path.
const ChannelPattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]*(/[0-9A-Za-z_:-][0-9A-Za-z_.:-]*)*$`

// MaxChannelBytes is the longest name of a channel.
const MaxChannelBytes = 512

// WrongChannel is Wrong for names of channels, which match ChannelPattern.
func WrongChannel(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxChannelBytes:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxChannelBytes)
	}
	for i := range len(name) {
		switch begins := i == 0 || name[i-1] == '/'; {
		case name[i] == '/' && begins:
			return fmt.Sprintf("%q has an empty path segment at byte %d: it must match %s", name, i, ChannelPattern)
		case name[i] != '/' && !allowed(name[i], i == 0) || begins && name[i] == '.':
			char, _ := utf8.DecodeRuneInString(name[i:])
			return fmt.Sprintf("%q has %q at byte %d: it must match %s", name, char, i, ChannelPattern)
		}
	}
	if name[len(name)-1] == '/' {
		return fmt.Sprintf("%q ends with a slash: it must match %s", name, ChannelPattern)
	}
	return ""
}

// ChannelCanContain reports whether names of channels can contain a character.
func ChannelCanContain(r rune) bool { return r == '/' || CanContain(r) }

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
