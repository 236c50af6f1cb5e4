package v1

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"strings"

	"github.com/tidemark-dev/tidemark/docs"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// about is the page for people who open the service's address in a browser.
//
//go:embed about.html
var about []byte

// consolePlace is the placeholder in the page for the address of the console.
const consolePlace = "{{console}}"

// registerAbout adds the routes that say what the service is. Everybody may read them: they show nothing that the
// service stores. On the admin listener the page is the console.
func registerAbout(a web.API, console func() string) {
	style, _, _ := strings.Cut(string(about), "</style>")
	_, style, _ = strings.Cut(style, "<style>")
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	a.AddGet(web.Route{Path: "/", Open: true, Linked: true, Handle: func(c *web.Call) error {
		if c.OnAdmin() {
			return c.Redirect("console/")
		}
		place := "on the admin listener; <code>tidemark console</code> opens it"
		if url := html.EscapeString(console()); url != "" {
			place = `at <a href="` + url + `">` + url + "</a>"
		}
		c.Response().Header().Set("Content-Security-Policy", policy)
		return c.Bytes("text/html; charset=utf-8", bytes.Replace(about, []byte(consolePlace), []byte(place), 1))
	}})
	for path, text := range map[string][]byte{"/v1/openapi.yaml": docs.OpenAPI, "/v1/asyncapi.yaml": docs.AsyncAPI} {
		a.AddGet(web.Route{Path: path, Open: true, Handle: func(c *web.Call) error {
			return c.Bytes("application/yaml", text)
		}})
	}
}
