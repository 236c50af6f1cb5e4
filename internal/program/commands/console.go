package commands

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// Limits of the port of the console.
const (
	consoleConnections = 64
	consoleHeaderTime  = 10 * time.Second
	consoleHeaderBytes = 16 << 10
)

func newConsole(t cli.Terminal) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:        "console",
		SuggestFor: []string{"ui", "web", "dashboard", "open"},
		Short:      "Show a service in a browser",
		Long: `Show a service in a browser: print the address of its console, and serve it until SIGINT or SIGTERM.

It is for a service whose admin listener is a Unix socket, or needs a credential. The address is on a port of this machine,
and works once: the browser that opens it first receives a cookie, and only that browser can use the port. What it does there
is done with this command's credential, and on a socket as its administrator.

A browser that doesn't find names below .localhost can use the address with 127.0.0.1 instead of the name. Then other programs
of this machine that serve pages on 127.0.0.1 receive the cookie, if that browser opens them.`,
		Example: `  tidemark console
  tidemark console --admin unix:/run/tidemark/admin.sock
  tidemark console --admin https://tidemark.example.com:8081 --token-file admin.key --listen 127.0.0.1:9000`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 0)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0",
		"`ADDRESS` where to serve it: a loopback address; port 0 is any free port")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := c.Live(ctx); err != nil {
			return err
		}
		target, err := connection.Target()
		if err != nil {
			return err
		}
		l, err := listenLoopback(ctx, listen)
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // it is closed already when the server has ended
		p := newConsoleProxy(target, l.Addr().(*net.TCPAddr).Port)
		if _, err := fmt.Fprintf(t.Stdout, "http://%s/?once=%s\n", p.hosts[0], p.once); err != nil {
			return err
		}
		return p.serve(ctx, l)
	})
	return cmd
}

func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil, errors.Join(cli.Usagef(
			"--listen: other machines can reach %s: give a loopback address, such as 127.0.0.1:0", address), l.Close())
	}
	return l, nil
}

// consoleProxy passes the requests of one browser on to a service. Its handler may be called by several goroutines.
type consoleProxy struct {
	target cli.Target
	hosts  []string // that requests may have; the first one has a name that no other program knows
	once   string   // secret of the address
	used   atomic.Bool
	cookie http.Cookie
	proxy  httputil.ReverseProxy
}

func newConsoleProxy(target cli.Target, port int) *consoleProxy {
	at := fmt.Sprintf(":%d", port)
	if port == 80 {
		at = "" // browsers leave out the port of http
	}
	p := &consoleProxy{
		target: target, once: rand.Text(),
		hosts: []string{strings.ToLower("tidemark-" + rand.Text()[:10] + ".localhost" + at), "127.0.0.1" + at,
			"localhost" + at, "[::1]" + at},
		//nolint:gosec // G124: without Secure, since the port is a loopback one without TLS
		cookie: http.Cookie{Name: fmt.Sprintf("tidemark-console-%d", port), Value: rand.Text() + rand.Text(), Path: "/",
			HttpOnly: true, SameSite: http.SameSiteStrictMode},
	}
	p.proxy = httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: target.Transport, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the page shows that the service is away
	}
	return p
}

// serve serves until ctx ends.
func (p *consoleProxy) serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: p, ReadHeaderTimeout: consoleHeaderTime, MaxHeaderBytes: consoleHeaderBytes,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() }) // streams of the page would never end
	defer stopped()
	if err := s.Serve(netutil.LimitListener(l, consoleConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *consoleProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	switch {
	case !p.isOwn(r):
		http.Error(w, "this host name, or the page that sent the request, isn't the console's", http.StatusForbidden)
	case r.Method == http.MethodGet && r.URL.Path == "/" && r.URL.Query().Has("once"):
		p.admit(w, r)
	case !p.isAdmitted(r):
		http.Error(w, "open the address that \"tidemark console\" has printed. It works once: for another browser, "+
			"run it again", http.StatusForbidden)
	default:
		p.pass(w, r)
	}
}

// isOwn reports whether a request names a host of the console and, if a page sent it, is from the console's page. Other
// pages may link to it.
func (p *consoleProxy) isOwn(r *http.Request) bool {
	ok := false
	for _, host := range p.hosts {
		ok = ok || strings.EqualFold(r.Host, host)
	}
	isLink := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
	asPost := &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host} // Check lets every GET pass
	return ok && (isLink || http.NewCrossOriginProtection().Check(asPost) == nil)
}

// admit sets the cookie in the first browser that requests the printed address.
func (p *consoleProxy) admit(w http.ResponseWriter, r *http.Request) {
	secret := r.URL.Query().Get("once")
	isSecret := subtle.ConstantTimeCompare([]byte(secret), []byte(p.once)) == 1
	switch {
	case p.isAdmitted(r):
	case !isSecret || p.used.Swap(true):
		http.Error(w, "the address isn't valid any more: run \"tidemark console\" again", http.StatusForbidden)
		return
	default:
		http.SetCookie(w, &p.cookie)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/console/", http.StatusSeeOther)
}

func (p *consoleProxy) isAdmitted(r *http.Request) bool {
	cookie, err := r.Cookie(p.cookie.Name)
	return err == nil && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(p.cookie.Value)) == 1
}

// pass passes a request on, with the command's credential.
func (p *consoleProxy) pass(w http.ResponseWriter, r *http.Request) {
	token, err := p.target.Token(r.Context())
	if err != nil {
		http.Error(w, fmt.Sprintf("read the token: %v", err), http.StatusBadGateway)
		return
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	p.proxy.ServeHTTP(w, r)
}

// rewrite prepares a request for the service. Where it comes from was checked here, and the cookie isn't for others.
func (p *consoleProxy) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(p.target.URL)
	for name := range r.Out.Header {
		if name == "Cookie" || name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			r.Out.Header.Del(name)
		}
	}
}
