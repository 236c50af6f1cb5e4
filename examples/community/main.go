// Command community is a small forum that leaves all that isn't its own to Tidemark: sessions, verification of mail
// addresses, cached authors, topics and searches, views, notifications and locks. README.md says how to start it.
package main

import (
	"context"
	"encoding/json"
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

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8090", "`address` of the forum")
	flag.StringVar(&o.tidemark, "server", "http://127.0.0.1:8080", "`URL` of Tidemark, also for browsers")
	flag.StringVar(&o.admin, "admin", "unix:tidemark-data/admin.sock",
		"admin `address` of Tidemark, where the forum makes its API key")
	flag.StringVar(&o.keyFile, "key", "community.key", "`file` with the API key, which is made if it doesn't exist")
	flag.StringVar(&o.dataFile, "data", "community.json", "`file` with the forum's own data")
	flag.StringVar(&o.script, "client", "clients/typescript/dist/tidemark.min.js",
		"`file` with the client for browsers, which \"make client\" builds")
	flag.Parse()
	if err := run(ctx, o, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "community:", err)
		os.Exit(1)
	}
}

type options struct{ listen, tidemark, admin, keyFile, dataFile, script string }

// run serves until ctx ends.
func run(ctx context.Context, o options, log *slog.Logger) error {
	script, err := os.ReadFile(o.script)
	if err != nil {
		return err
	}
	forum, err := openForum(o.dataFile)
	if err != nil {
		return err
	}
	key, err := apiKey(ctx, o)
	if err != nil {
		return err
	}
	c, err := client.New(o.tidemark, client.WithToken(key))
	if err != nil {
		return err
	}
	defer c.Close()
	s := &site{log: log, forum: forum, records: records.New(c), channels: c, mail: &outbox{log: log}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", servePage(o.tidemark))
	mux.HandleFunc("GET /tidemark.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(script) // only the browser can be gone
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent) // browsers ask for it, and log a 404 as an error
	})
	s.routes(mux)
	server := &http.Server{
		Handler:     http.NewCrossOriginProtection().Handler(mux),
		ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	log.Info("the forum is ready", "url", "http://"+listener.Addr().String())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// grants are the permissions of the forum.
const grants = `[
	{"actions": ["read", "write"]},
	{"actions": ["publish", "subscribe", "describe"], "channels": ["notifications:*"]}
]`

// apiKey returns the key of the file, or makes one.
func apiKey(ctx context.Context, o options) (string, error) {
	text, err := os.ReadFile(o.keyFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(string(text)), err
	}
	admin, err := client.New(o.admin)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	made, err := admin.CreateKey(ctx, client.NewKey{Description: "examples/community", Grants: json.RawMessage(grants)})
	if err != nil {
		return "", err
	}
	return made.Text, os.WriteFile(o.keyFile, []byte(made.Text+"\n"), 0o600)
}
