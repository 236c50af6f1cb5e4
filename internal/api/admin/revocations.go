package admin

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

type revocations struct{ registry Registry }

// create is POST /v1/revocations.
func (h *revocations) create(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	n, err := wire.DecodeNewRevocation(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	what := accesskeys.Revocation{Until: n.Until}
	switch {
	case n.JTI != "" && n.Subject != "": // refused: invalid combination
	case n.JTI != "":
		what.Kind, what.Name = accesskeys.RevokedToken, n.JTI
	case n.Subject != "":
		what.Kind, what.Name = accesskeys.RevokedSubject, n.Subject
	}
	done, err := h.registry.Revoke(c.Context(), what)
	if err != nil {
		return inBody(err)
	}
	return c.Value(http.StatusCreated, revocationOf(done))
}

// list is GET /v1/revocations.
func (h *revocations) list(c *web.Call) error {
	after, limit, err := pageQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	page, next, err := h.registry.Revocations(c.Context(), after, limit)
	if err != nil {
		return err
	}
	answer := wire.Revocations{Revocations: make([]client.Revocation, 0, len(page)), Cursor: next}
	for _, r := range page {
		answer.Revocations = append(answer.Revocations, revocationOf(r))
	}
	return c.Value(http.StatusOK, answer)
}

func revocationOf(r accesskeys.Revocation) client.Revocation {
	answer := client.Revocation{At: r.At, Until: r.Until}
	switch r.Kind {
	case accesskeys.RevokedToken:
		answer.JTI = r.Name
	case accesskeys.RevokedSubject:
		answer.Subject = r.Name
	case accesskeys.RevokedKey:
		answer.Key = r.Name
	}
	return answer
}
