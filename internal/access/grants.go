package access

import (
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/names"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// Bounds of grants.
const (
	MaxGrants      = 64       // of a principal
	MaxPatterns    = 64       // in each list of a grant
	MaxGrantsBytes = 16 << 10 // of their JSON
)

// Grants are the permissions of a principal: the sum of all grants. They must not be changed once they are parsed.
type Grants []Grant

// Grant allows actions on the resources that its lists name. A list that is left out (nil) names all, except that users
// and sessions have only {sub} and {sub}:* as subscribers, only {sub} as owner, and no records. An empty list names
// none.
type Grant struct {
	Actions     []Action  `json:"actions"`
	Channels    []Pattern `json:"channels,omitzero"`
	Subscribers []Pattern `json:"subscribers,omitzero"` // of these channels
	Queues      []Pattern `json:"queues,omitzero"`
	Owners      []Pattern `json:"owners,omitzero"`  // subjects whose tickets the action ticket includes
	Records     []Pattern `json:"records,omitzero"` // such as "sessions/{sub}"
}

// ParseGrants parses a JSON array of grants, such as
//
//	[{"actions": ["subscribe"], "channels": ["chat.*", "inbox.{sub}"]}]
//
// It refuses unknown members, duplicate members, and grants beyond the bounds.
func ParseGrants(text []byte) (Grants, error) {
	if len(text) > MaxGrantsBytes {
		return nil, fmt.Errorf("grants: %d bytes, at most %d are allowed", len(text), MaxGrantsBytes)
	}
	var grants Grants
	if err := strictjson.Unmarshal(text, &grants); err != nil {
		return nil, fmt.Errorf("grants%w", err)
	}
	return grants, grants.check()
}

func (g Grants) check() error {
	if len(g) > MaxGrants {
		return fmt.Errorf("grants: %d of them, at most %d are allowed", len(g), MaxGrants)
	}
	for i := range g {
		if len(g[i].Actions) == 0 {
			return fmt.Errorf("grants[%d].actions: is missing or empty", i)
		}
		for _, list := range [][]Pattern{g[i].Channels, g[i].Subscribers, g[i].Queues, g[i].Owners, g[i].Records} {
			if len(list) > MaxPatterns {
				return fmt.Errorf("grants[%d]: a list of %d patterns, at most %d are allowed", i, len(list),
					MaxPatterns)
			}
		}
	}
	return nil
}

// CheckPatterns returns an error if a pattern is written for another language of patterns: it has two stars in a row, or
// matches no name. ParseGrants accepts such patterns, which may be in the keys and tokens that are in use.
func (g Grants) CheckPatterns() error {
	for i := range g {
		for _, list := range []struct {
			member   string
			patterns []Pattern
			inNames  func(rune) bool // whether the names that they match can contain a character; nil: any can be there
		}{
			{"channels", g[i].Channels, names.ChannelCanContain}, {"subscribers", g[i].Subscribers, names.CanContain},
			{"queues", g[i].Queues, names.CanContain}, {"owners", g[i].Owners, nil}, {"records", g[i].Records, nil},
		} {
			for n := range list.patterns {
				if err := list.patterns[n].checkForeign(list.inNames); err != nil {
					return fmt.Errorf("grants[%d].%s[%d]: %w", i, list.member, n, err)
				}
			}
		}
	}
	return nil
}

// have reports whether a grant has an action, on any resource.
func (g Grants) have(a Action) bool {
	return a == Any && len(g) > 0 || a == Metrics && g.have(Admin) ||
		slices.ContainsFunc(g, func(grant Grant) bool { return slices.Contains(grant.Actions, a) })
}

// contain reports whether a pattern of the list matches text. A list that was left out matches all.
func contain(list []Pattern, text string, r *request) bool {
	if list == nil {
		return true
	}
	for i := range list {
		if list[i].matches(text, r) {
			return true
		}
	}
	return false
}
