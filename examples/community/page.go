package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed index.html
var page string

// inline returns the source expression of Content-Security-Policy that allows the page's own script or style, which
// begins with a tag.
func inline(tag, end string) string {
	_, text, _ := strings.Cut(page, tag)
	text, _, _ = strings.Cut(text, end)
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// servePage returns the handler of the page, which may call the forum and Tidemark, and load the client alone. What
// users write is shown as text only; if a defect made it HTML, no script in it would run.
func servePage(tidemark string) http.HandlerFunc {
	policy := strings.Join([]string{
		"default-src 'none'", "script-src 'self' " + inline(`<script type="module">`, "</script>"),
		"style-src " + inline("<style>", "</style>"),
		"connect-src 'self' " + tidemark + " " + strings.Replace(tidemark, "http", "ws", 1),
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
	html := strings.Replace(page, "{{tidemark}}", tidemark, 1)
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte(html)) // only the browser can be gone
	}
}
