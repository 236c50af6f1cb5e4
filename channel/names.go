package channel

import (
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/names"
)

// MaxChannelBytes is the maximum length of channel names, in bytes.
const MaxChannelBytes = names.MaxChannelBytes

// ChannelPattern is the regular expression that channel names match: path segments with slashes between them.
const ChannelPattern = names.ChannelPattern

// MaxNameBytes is the maximum length of subscriber names and message IDs, in bytes.
const MaxNameBytes = names.MaxBytes

// NamePattern is the regular expression that subscriber names and message IDs match.
const NamePattern = names.Pattern

// CheckChannel returns an error with fault.SlugInvalidChannel unless name matches ChannelPattern and has at most
// MaxChannelBytes. A valid name can't break out of the hash tag of a key.
func CheckChannel(name string) error {
	return checkName(names.WrongChannel(name), "channel name", "channel", fault.SlugInvalidChannel)
}

// checkSubscriber returns an error with fault.SlugInvalidSubscriber unless name matches NamePattern.
func checkSubscriber(name string) error {
	return checkName(names.Wrong(name), "subscriber name", "subscriber", fault.SlugInvalidSubscriber)
}

// CheckMessageID returns an error with fault.SlugInvalidMessageID unless id matches NamePattern.
func CheckMessageID(id string) error {
	return checkName(names.Wrong(id), "message ID", "id", fault.SlugInvalidMessageID)
}

func checkName(wrong, what, field string, slug fault.Slug) error {
	if wrong != "" {
		return invalid(slug, field, "the %s %s", what, wrong)
	}
	return nil
}
