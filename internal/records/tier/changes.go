package tier

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// ChannelPrefix is the beginning of the names of the channels on which changes of values are announced. Only the
// service publishes there.
const ChannelPrefix = "cache:"

// Channel returns the name of the channel on which changes of a kind's values are announced.
func Channel(kind *records.Kind) string { return ChannelPrefix + kind.Name }

// Bounds of announcements.
const (
	// MaxWrite is the time after its announcement within which a write always ends: a node that has received no end of
	// it reads the values then.
	MaxWrite = 15 * time.Second
	// MaxMessageBytes is the longest message on a channel of changes.
	MaxMessageBytes = 1 << 20
)

// ChannelRule is the rule of the channels of changes. It comes before those of the operator. Messages live much longer
// than MaxWrite; a node that was stopped for longer loads all values again.
var ChannelRule = channel.Rule{
	Pattern: ChannelPrefix + ".+", TTL: "2m", MaxMessages: "100000", MaxMessageBytes: "1048576", MaxSubscribers: "0",
}

// Change is the announcement of writes to values.
type Change struct {
	Write string   `json:"write"` // names the write
	IDs   []string `json:"ids"`
	Over  bool     `json:"over,omitempty"` // the write has ended; otherwise it is about to begin
}

// message is the content of a message on a channel of changes: changes of many writes.
type message struct {
	Changes []Change `json:"changes"`
}

// EncodeChanges returns the content of a message. IDs that are valid UTF-8 without control characters take twice their
// length at most.
func EncodeChanges(changes []Change) ([]byte, error) {
	var content bytes.Buffer
	to := json.NewEncoder(&content)
	to.SetEscapeHTML(false)
	err := to.Encode(message{changes})
	return content.Bytes(), err
}

// DecodeChanges returns the changes of a message.
func DecodeChanges(content []byte) ([]Change, error) {
	var m message
	if err := json.Unmarshal(content, &m); err != nil {
		return nil, fmt.Errorf("an announcement of changes: %w", err)
	}
	return m.Changes, nil
}
