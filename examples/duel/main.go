// Command duel serves the page of a small game. The page talks to Tidemark itself. README.md says how to start it.
package main

import (
	"embed"

	"github.com/tidemark-dev/tidemark/examples/internal/page"
)

//go:embed index.html style.css page.js game.js
var files embed.FS

func main() { page.Main("duel", "127.0.0.1:8092", files) }
