// Package console has the web page for operators: ES modules, a stylesheet and a page, as browsers load them. The admin
// listener serves them, and the page asks for everything else by the documented API.
//
// Start at web/app.js, which says how a page is added. web/lib has the modules that are not written for the console;
// scripts/console-modules.sh builds them, and npm/built.json records what they are made of.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed web
var web embed.FS

// Index is the name of the page, with addresses relative to where it is.
const Index = "index.html"

// maxDepth is the depth of the deepest page, such as channels/orders.
const maxDepth = 1

// Page returns the page for an address that is some directories below the console. Its addresses are relative, since
// only the browser knows below which path a proxy has the service. ok is false if no page is so deep: if a proxy has
// decoded slashes, the address is less deep in the browser, and with that depth the page would load what is outside the
// service's path.
func Page(depth int) (page File, ok bool) {
	if depth > maxDepth {
		return File{}, false
	}
	return pages()[depth], true
}

var pages = sync.OnceValue(func() (all [maxDepth + 1]File) {
	for depth := range all {
		plain := strings.ReplaceAll(string(Files()[Index].Plain), `="assets/`, `="`+strings.Repeat("../", depth)+"assets/")
		all[depth] = newFile(Index, []byte(plain))
	}
	return all
})

// File is a file of the console. It must not be changed.
type File struct {
	MediaType string
	ETag      string // changes with the content
	Plain     []byte
	Gzip      []byte
}

// Files returns the files by their paths below web, such as "lib/preact.js". The first call compresses them.
func Files() map[string]File { return files() }

var files = sync.OnceValue(func() map[string]File {
	found := make(map[string]File)
	err := fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		plain, err := web.ReadFile(name)
		if err != nil {
			return err
		}
		found[strings.TrimPrefix(name, "web/")] = newFile(name, plain)
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("read embedded files: %v", err)) // they are part of the program
	}
	return found
})

func newFile(name string, plain []byte) File {
	sum := sha256.Sum256(plain)
	return File{
		MediaType: mediaTypes[path.Ext(name)], Plain: plain, Gzip: compress(plain),
		// weak, since it is that of both encodings
		ETag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`,
	}
}

// mediaTypes are those of the files' extensions. Package mime would read the machine's own.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

func compress(plain []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("compress into memory: %v", err)) // a buffer accepts everything
	}
	return b.Bytes()
}
