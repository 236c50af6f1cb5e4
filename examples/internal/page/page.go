// Package page is the program of an example that is a page whose scripts talk to Tidemark themselves.
package page

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Main serves the page of an example until the program is told to end. The files have index.html, in which {{tidemark}}
// stands for the URL of Tidemark. The page loads the client as tidemark.js.
func Main(name, listen string, files fs.FS) {
	client := flag.String("client", "clients/typescript/dist/tidemark.min.js",
		"`file` with the client, which \"make client\" builds")
	run(name, listen, files, func(_ context.Context, mux *http.ServeMux, _ string) error {
		script, err := os.ReadFile(*client)
		if err != nil {
			return err
		}
		add(mux, "/tidemark.js", "text/javascript", string(script))
		return nil
	})
}

// Routes adds what a page asks its own program, until ctx ends.
type Routes func(ctx context.Context, mux *http.ServeMux, tidemark string)

// MainWith is Main for a page without the client that also asks its own program.
func MainWith(name, listen string, files fs.FS, routes Routes) {
	run(name, listen, files, func(ctx context.Context, mux *http.ServeMux, tidemark string) error {
		routes(ctx, mux, tidemark)
		return nil
	})
}

func run(name, listen string, files fs.FS, extend func(context.Context, *http.ServeMux, string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	address := flag.String("listen", listen, "`address` of the page")
	tidemark := flag.String("server", "http://127.0.0.1:8080", "`URL` of Tidemark, for browsers")
	flag.Parse()
	mux := http.NewServeMux()
	err := addFiles(mux, files, *tidemark)
	if err == nil {
		err = extend(ctx, mux, *tidemark)
	}
	if err == nil {
		err = serve(ctx, name, *address, guard(*tidemark, mux))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func addFiles(mux *http.ServeMux, files fs.FS, tidemark string) error {
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return err
	}
	mux.Handle("GET /", http.FileServerFS(files))
	add(mux, "/{$}", "text/html; charset=utf-8", strings.Replace(string(index), "{{tidemark}}", tidemark, 1))
	add(mux, "/favicon.ico", "image/x-icon", "") // browsers ask for it, and log a 404 as an error
	return nil
}

// add adds a text.
func add(mux *http.ServeMux, path, media, text string) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write([]byte(text)) // only the browser can be gone
	})
}

// serve serves until ctx ends.
func serve(ctx context.Context, name, address string, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	slog.New(slog.NewTextHandler(os.Stderr, nil)).Info("the "+name+" is ready", "url",
		"http://"+listener.Addr().String())
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard lets the page load its own files only, and call Tidemark and its own program only, to which pages of other sites
// can't write. What people write is shown as text; if a defect made it HTML, no script in it would run.
func guard(tidemark string, next http.Handler) http.Handler {
	policy := strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'",
		"connect-src 'self' " + tidemark + " " + strings.Replace(tidemark, "http", "ws", 1), "img-src 'self'",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
