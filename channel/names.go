package channel

import (
	"fmt"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxNameBytes is the longest channel name, subscriber name and message ID.
const MaxNameBytes = 128

// NamePattern is the regular expression that channel names, subscriber names and message IDs match.
const NamePattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`

// CheckChannel tells whether name can be a channel's: it matches NamePattern, so that no name can get into the
// hash tag of a key. It returns an *fault.Error with fault.SlugInvalidChannel otherwise, whose field is "channel".
func CheckChannel(name string) error { return channelRule.check(name) }

// CheckSubscriber is CheckChannel for subscriber names, with fault.SlugInvalidSubscriber and the field "subscriber".
func CheckSubscriber(name string) error { return subscriberRule.check(name) }

// CheckMessageID is CheckChannel for message IDs, with fault.SlugInvalidMessageID and the field "id".
func CheckMessageID(id string) error { return messageIDRule.check(id) }

// nameRule says what is told of a name that breaks the rule.
type nameRule struct {
	slug  fault.Slug
	field string
	what  string
}

var (
	channelRule    = nameRule{slug: fault.SlugInvalidChannel, field: "channel", what: "channel name"}
	subscriberRule = nameRule{slug: fault.SlugInvalidSubscriber, field: "subscriber", what: "subscriber name"}
	messageIDRule  = nameRule{slug: fault.SlugInvalidMessageID, field: "id", what: "message ID"}
)

func (r *nameRule) check(name string) error {
	switch {
	case name == "":
		return r.refuse("the %s is empty", r.what)
	case len(name) > MaxNameBytes:
		return r.refuse("the %s has %d bytes, at most %d are allowed", r.what, len(name), MaxNameBytes)
	}
	for i := range len(name) {
		if !nameByte(name[i], i == 0) {
			char, _ := utf8.DecodeRuneInString(name[i:])
			return r.refuse("the %s %q has %q at byte %d: it must match %s", r.what, name, char, i, NamePattern)
		}
	}
	return nil
}

func (r *nameRule) refuse(format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: r.slug, Field: r.field, Detail: fmt.Sprintf(format, args...)}
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
