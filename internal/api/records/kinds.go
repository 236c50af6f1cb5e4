package records

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func addKinds(a web.API, table *records.Table) {
	a.AddGet(web.Route{Path: "/v1/kinds", Action: access.Read, Of: of("kinds", 0), Handle: kindCalls{table}.show})
}

type kindCalls struct{ table *records.Table }

// show is GET /v1/kinds.
func (h kindCalls) show(c *web.Call) error {
	kinds := h.table.Records()
	answer := wire.Kinds{Kinds: make([]wire.Kind, 0, len(kinds))}
	for _, k := range kinds {
		answer.Kinds = append(answer.Kinds, wire.Kind{
			Name: k.Name, Pattern: k.Pattern, Type: string(k.Type), Form: k.Form, TTL: wire.Duration(k.TTL),
			Permanent: k.Why,
			Secret:    k.Secret, MaxBytes: k.MaxBytes, Redis: string(k.Instance),
		})
	}
	return c.Value(http.StatusOK, answer)
}
