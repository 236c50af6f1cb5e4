package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/console"
)

// consolePolicy lets the console load only its own files, and call only its own origin. No page can show it in a frame.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// consolePath is where the console is. Its files are below assets/; all other paths are addresses of its pages.
const (
	consolePath   = "/console/"
	consoleAssets = "assets/"
)

// addConsole adds the routes of the console's page and its files. They are the same for everybody: what the page shows
// it asks for by the API.
func addConsole(r *web.Router) {
	a := web.API{Router: r, Fail: web.Fail}
	a.AddGet(web.Route{Path: strings.TrimSuffix(consolePath, "/"), Query: web.QueryIgnored, Open: true, Admin: true,
		Linked: true, Handle: toConsole})
	a.AddGet(web.Route{Path: consolePath + "*", Query: web.QueryIgnored, Open: true, Admin: true, Linked: true,
		Handle: showConsole})
}

// toConsole is GET /console.
func toConsole(c *web.Call) error { return c.Redirect(strings.TrimPrefix(consolePath, "/")) }

// showConsole is GET /console/*.
func showConsole(c *web.Call) error {
	var file console.File
	name, ok := strings.CutPrefix(c.Param(0), consoleAssets)
	if ok {
		file, ok = console.Files()[name]
	} else {
		below := strings.TrimPrefix(c.Request().URL.EscapedPath(), consolePath) // as the browser or a proxy sent it
		file, ok = console.Page(strings.Count(below, "/"))
	}
	if !ok {
		return web.ErrNoPath
	}
	request, header := c.Request().Header, c.Response().Header()
	c.SetHeaders()
	for name, value := range map[string]string{
		"Content-Security-Policy": consolePolicy, "Referrer-Policy": "same-origin",
		"Cache-Control": "no-cache", "Etag": file.ETag, "Vary": "Accept-Encoding", "Content-Type": file.MediaType,
	} {
		header.Set(name, value)
	}
	status, body := http.StatusOK, file.Plain
	switch {
	case inList(request.Values("If-None-Match"), file.ETag):
		status, body = http.StatusNotModified, nil
	case inList(request.Values("Accept-Encoding"), "gzip"):
		body = file.Gzip
		header.Set("Content-Encoding", "gzip")
	}
	c.SetOutcome(status, nil)
	c.Response().WriteHeader(status)
	_, _ = c.Response().Write(body) // fails only if the client has gone
	return nil
}

// inList reports whether a header is a list that has a value.
func inList(header []string, value string) bool {
	return slices.ContainsFunc(header, func(line string) bool {
		return slices.ContainsFunc(strings.Split(line, ","), func(item string) bool {
			return strings.EqualFold(strings.TrimSpace(item), value)
		})
	})
}
