package v1

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"

	"github.com/tidemark-dev/tidemark/docs"
	"github.com/tidemark-dev/tidemark/server/web"
)

// about is the page for people who open the service's address in a browser.
//
//go:embed about.html
var about []byte

// registerAbout adds the routes that say what the service is. Everybody may read them: they are the same everywhere.
func registerAbout(a web.API) {
	style, _, _ := strings.Cut(string(about), "</style>")
	_, style, _ = strings.Cut(style, "<style>")
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	a.AddGet(web.Route{Path: "/", Open: true, Handle: func(c *web.Call) error {
		c.Response().Header().Set("Content-Security-Policy", policy)
		return c.Bytes("text/html; charset=utf-8", about)
	}})
	for path, text := range map[string][]byte{"/v1/openapi.yaml": docs.OpenAPI, "/v1/asyncapi.yaml": docs.AsyncAPI} {
		a.AddGet(web.Route{Path: path, Open: true, Handle: func(c *web.Call) error {
			return c.Bytes("application/yaml", text)
		}})
	}
}
