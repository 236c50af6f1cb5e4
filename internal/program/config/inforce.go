package config

import (
	"strings"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/redact"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

const maxShown = 200 // bytes of a value

// InForce returns all options of serve as they are written where they come from, without secrets: those of hidden
// options, of URLs and of queues.
func (c Config) InForce() (all []wire.ConfiguredOption) {
	for _, group := range serveGroups(new(Config)) {
		for _, o := range group.options {
			all = append(all, wire.ConfiguredOption{Option: o.key(), Group: group.title,
				Value: redact.Cut(c.shown(o), maxShown), Source: c.sources[o.key()], Reloadable: o.live})
		}
	}
	return all
}

// shown returns the value of an option without secrets; "" if it isn't set.
func (c Config) shown(o option) string {
	key := o.key()
	value := text(c.values[key])
	switch {
	case value == "":
		return ""
	case o.hidden:
		return redact.Mark
	case key == "queues":
		queues := map[string]matchmaking.Definition{}
		for _, d := range c.Matchmaking.Queues {
			queues[d.Name] = d.Redacted()
		}
		return text(queues)
	}
	urls := []string{value}
	if o.kind == kindList || o.kind == "replicas" {
		urls = strings.Split(value, ",")
	}
	for i, part := range urls {
		urls[i] = redact.URL(part)
	}
	return redact.Credentials(strings.Join(urls, ","))
}
