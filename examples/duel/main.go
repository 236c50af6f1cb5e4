// Command duel serves the page of a small game. The page talks to Tidemark itself. README.md says how to start it.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

//go:embed index.html style.css page.js game.js
var files embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listen := flag.String("listen", "127.0.0.1:8092", "`address` of the page")
	tidemark := flag.String("server", "http://127.0.0.1:8080", "`URL` of Tidemark, for browsers")
	client := flag.String("client", "clients/typescript/dist/tidemark.min.js",
		"`file` with the client, which \"make client\" builds")
	flag.Parse()
	if err := run(ctx, *listen, *tidemark, *client); err != nil {
		fmt.Fprintln(os.Stderr, "duel:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, tidemark, client string) error {
	script, err := os.ReadFile(client) //nolint:gosec // the path is an option of the program
	if err != nil {
		return err
	}
	page, err := files.ReadFile("index.html")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	serve := func(path, media, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = w.Write([]byte(text)) // only the browser can be gone
		})
	}
	serve("/{$}", "text/html; charset=utf-8", strings.Replace(string(page), "{{tidemark}}", tidemark, 1))
	serve("/tidemark.js", "text/javascript", string(script))
	serve("/favicon.ico", "image/x-icon", "") // browsers ask for it, and log a 404 as an error
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	slog.New(slog.NewTextHandler(os.Stderr, nil)).Info("the duel is ready", "url", "http://"+listener.Addr().String())
	server := &http.Server{Handler: guard(tidemark, mux), ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard lets the page load its own files only, and call Tidemark only. What players write is shown as text; if a defect
// made it HTML, no script in it would run.
func guard(tidemark string, next http.Handler) http.Handler {
	policy := strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'",
		"connect-src " + tidemark + " " + strings.Replace(tidemark, "http", "ws", 1), "img-src 'self'",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
