package followers

import (
	_ "embed"
	"slices"

	"github.com/tidemark-dev/tidemark/channel"
)

// SchemaName is the name, in a table of kinds and in rules of channels, of the schema of a community site's
// notifications.
const SchemaName = "notification"

//go:embed notification.json
var schema []byte

// Schema returns the schema of a community site's notifications: JSON Schema.
func Schema() []byte { return slices.Clone(schema) }

// Rule returns the rule of the channels of notifications, which channel.Service checks each notification by. s is the
// schema of a site; nil: notifications are any JSON.
func Rule(s channel.Schema) channel.Rule { return channel.Rule{Pattern: pattern, Schema: s} }
