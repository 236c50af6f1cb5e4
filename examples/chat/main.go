// Command chat serves the page of a small chat. The page talks to Tidemark itself. README.md says how to start it.
package main

import (
	"embed"

	"github.com/tidemark-dev/tidemark/examples/internal/page"
)

//go:embed index.html style.css page.js
var files embed.FS

func main() { page.Main("chat", "127.0.0.1:8091", files) }
