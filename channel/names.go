package channel

import (
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/names"
)

// MaxNameBytes is the maximum length of channel names, subscriber names and message IDs, in bytes.
const MaxNameBytes = names.MaxBytes

// NamePattern is the regular expression that channel names, subscriber names and message IDs match.
const NamePattern = names.Pattern

// CheckChannel returns an error with fault.SlugInvalidChannel unless name matches NamePattern. A valid name can't break
// out of the hash tag of a key.
func CheckChannel(name string) error {
	return checkName(name, "channel name", "channel", fault.SlugInvalidChannel)
}

// checkSubscriber is CheckChannel for subscriber names, with fault.SlugInvalidSubscriber.
func checkSubscriber(name string) error {
	return checkName(name, "subscriber name", "subscriber", fault.SlugInvalidSubscriber)
}

// CheckMessageID is CheckChannel for message IDs, with fault.SlugInvalidMessageID.
func CheckMessageID(id string) error {
	return checkName(id, "message ID", "id", fault.SlugInvalidMessageID)
}

func checkName(name, what, field string, slug fault.Slug) error {
	if wrong := names.Wrong(name); wrong != "" {
		return invalid(slug, field, "the %s %s", what, wrong)
	}
	return nil
}
