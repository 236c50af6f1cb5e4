package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/schema"
)

// kindsOption returns the option of the table of kinds.
func kindsOption(c *Config) []option { return named(c, "kinds") }

// parseSite parses a JSON object: a table of kinds. Its errors name the place, as in `kinds.caches[0].key: …`.
func parseSite(text string) (*site.Site, error) {
	return site.Parse([]byte(text), openSchema)
}

// openSchema returns the JSON schema with a name: followers.SchemaName, or the path of a file.
func openSchema(name string) (channel.Schema, error) {
	if name == followers.SchemaName {
		return schema.Compile(followers.Schema())
	}
	return schema.Open(name)
}

// setKinds is parseSite for a mapping of a YAML file.
func (c *Config) setKinds(tree map[string]any) error {
	text, err := json.Marshal(tree)
	if err == nil {
		c.Records.Site, err = parseSite(string(text))
	}
	return err
}

// sessionGrants returns the default of what the token of a session allows: to subscribe to the notifications of its
// user, and of what users follow.
func sessionGrants(s *site.Site) string {
	var followed strings.Builder
	for _, source := range s.Sources {
		fmt.Fprintf(&followed, `,"notifications:%s:*"`, source.Name)
	}
	return `[{"actions":["subscribe","describe"],"channels":["notifications:{sub}","notifications:global"` +
		followed.String() + `]},{"actions":["read"],"records":["channels-of/{sub}"]}]`
}
