package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// whoami is GET /v1/whoami.
func whoami(c *web.Call) error {
	p := c.Principal()
	if p == nil { // the service is open
		everything := make([]string, 0, len(access.Actions()))
		for _, action := range access.Actions() {
			everything = append(everything, string(action))
		}
		return c.Value(http.StatusOK, wire.Whoami{Kind: "open", Actions: everything, Grants: json.RawMessage(`[]`)})
	}
	grants, err := json.Marshal(append(access.Grants{}, p.Grants...)) // never null
	if err != nil {
		return fmt.Errorf("encode the grants of %s: %w", p.Name(), err)
	}
	answer := wire.Whoami{Kind: kindOf(p.Kind), Principal: p.Name(), Actions: []string{}, Grants: grants,
		Expires: p.Ends().UTC(), Limits: c.LimitsOf(p)}
	if p.User() != "" {
		answer.Name = p.ChannelName()
	}
	for _, action := range access.Actions() {
		if p.Kind == access.Administrator || slices.ContainsFunc(p.Grants, func(g access.Grant) bool {
			return slices.Contains(g.Actions, action)
		}) {
			answer.Actions = append(answer.Actions, string(action))
		}
	}
	if p.Ends().IsZero() {
		answer.Expires = p.Ends()
	}
	return c.Value(http.StatusOK, answer)
}

func kindOf(k access.Kind) string {
	switch k {
	case access.APIKey:
		return "key"
	case access.User:
		return "user"
	case access.Session:
		return "session"
	case access.TicketHolder:
		return "ticket"
	case access.Administrator:
		return "admin"
	case access.Nobody:
	}
	return "anonymous"
}
