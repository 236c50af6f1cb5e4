package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/process"
)

// peers are programs of others that are measured beside Tidemark; empty: there is none.
type peers struct {
	centrifugo string
	mercure    string
	minimatch  string // serves minimatch: see CONTRIBUTING.md
}

// peerKey signs the credential of the publisher. It is no secret.
const peerKey = "the-key-of-a-benchmark-is-no-secret!"

// centrifugoProgram returns Centrifugo, which it builds once, or "" if its modules can't be downloaded.
func (b *bench) centrifugoProgram() string {
	if b.peers.centrifugo == "" {
		dir, err := b.build("tools/centrifugo", "github.com/centrifugal/centrifugo/v6")
		if err != nil {
			progress("Centrifugo is not measured: %v", err)
			return ""
		}
		b.peers.centrifugo = filepath.Join(dir, "centrifugo")
	}
	return b.peers.centrifugo
}

// build builds programs of a folder of this project, and returns the folder with them.
func (b *bench) build(folder string, packages ...string) (string, error) {
	dir := b.tempDir()
	args := append([]string{"build", "-C", folder, "-o", dir + "/"}, packages...)
	out, err := exec.CommandContext(b.Context(), "go", args...).CombinedOutput() //nolint:gosec // a folder of ours
	if err != nil {
		err = fmt.Errorf("build %s: %w: %s", folder, err, out)
	}
	return dir, err
}

// tempDir returns a folder that the part removes.
func (b *bench) tempDir() string {
	dir, err := process.TempDir(b.Context(), "bench-")
	b.Must(err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startPeer starts a program, which listens on as many addresses as there are, and answers GETs of a path at the first.
// configure returns its arguments for a folder and the first address.
func (u *system) startPeer(program, alive string, addresses int, configure func(dir string, p *launch.Service) []string,
) *service {
	dir := u.tempDir()
	return u.launch(launch.Options{Program: program, Listen: make([]string, addresses), Name: filepath.Base(program),
		Logs: dir}, alive, func(p *launch.Service) []string { return configure(dir, p) })
}

// hostPort splits an address.
func (b *bench) hostPort(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	b.Must(err)
	return host, port
}

// startMinimatch starts minimatch with a Redis of its own, which is set up as that of the service is, but also listens
// on TCP.
func (b *bench) startMinimatch() *system {
	u := b.startAlone(b.openRedis())
	address, err := launch.FreeAddress(b.Context())
	b.Must(err)
	host, port := b.hostPort(address)
	u.redis.do("CONFIG", "SET", "bind", host)
	u.redis.do("CONFIG", "SET", "port", port)
	u.server = u.run("minimatch", b.peers.minimatch, []string{"-redis", address}, "-admin", "-listen")
	return u
}

// startNATS starts NATS with JetStream in files. Its address for clients is that of gRPC.
func (u *system) startNATS(program string) *service {
	return u.startPeer(program, "/healthz", 2, func(dir string, p *launch.Service) []string {
		_, monitor := u.hostPort(p.HTTP)
		host, port := u.hostPort(p.GRPC)
		return []string{"-js", "-sd", filepath.Join(dir, "store"), "-a", host, "-p", port, "-m", monitor}
	})
}

// startCentrifugo starts Centrifugo with its own engine in memory.
func (u *system) startCentrifugo() *service {
	return u.startPeer(u.centrifugoProgram(), "/health", 1, func(dir string, p *launch.Service) []string {
		host, port := u.hostPort(p.HTTP)
		number, err := strconv.Atoi(port)
		u.Must(err)
		type object map[string]any
		config, err := json.Marshal(object{
			"http_server": object{"address": host, "port": number},
			"log":         object{"level": "error"},
			"client":      object{"allow_anonymous_connect_without_token": true},
			"channel": object{"without_namespace": object{
				"allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true,
			}},
			"http_api":    object{"insecure": true},
			"uni_sse":     object{"enabled": true},
			"health":      object{"enabled": true},
			"usage_stats": object{"disabled": true},
		})
		u.Must(err)
		file := filepath.Join(dir, "config.json")
		u.Must(os.WriteFile(file, config, 0o600))
		return []string{"-c", file}
	})
}

// centrifugoEvents are the steps of a stream of server-sent events.
func centrifugoEvents(int) []load.Step {
	connect := url.QueryEscape(`{"subs":{"` + wakeChannel + `":{}}}`)
	return []load.Step{{Send: load.EventsSteps("/connection/uni_sse?cf_connect=" + connect)[0].Send, Await: `"subs"`}}
}

// centrifugoSocket are the steps of a WebSocket with a subscription.
func centrifugoSocket(int) []load.Step {
	return load.SocketSteps("/connection/websocket", "",
		load.Step{Send: []byte(`{"id":1,"connect":{}}`), Await: `"connect":{`},
		load.Step{Send: []byte(`{"id":2,"subscribe":{"channel":"` + wakeChannel + `"}}`), Await: `"subscribe":{`})
}

// centrifugoPublish is a request that publishes a message.
func centrifugoPublish(int) []byte {
	return load.Request(http.MethodPost, "/api/publish", `{"channel":"`+wakeChannel+`","data":`+crowdContent+`}`,
		"Content-Type: application/json\r\n")
}

// startMercure starts Mercure with its default store, which is a file.
func (u *system) startMercure() *service {
	return u.startPeer(u.peers.mercure, "/livez", 1, func(dir string, p *launch.Service) []string {
		host, port := u.hostPort(p.HTTP)
		config := fmt.Sprintf(`{
	admin off
	auto_https off
	persist_config off
	log {
		level ERROR
	}
}
http://:%s {
	bind %s
	respond /livez 200
	mercure {
		publisher_jwt %q HS256
		anonymous
		transport bolt {
			path %s
		}
	}
}
`, port, host, peerKey, filepath.Join(dir, "mercure.db"))
		file := filepath.Join(dir, "Caddyfile")
		u.Must(os.WriteFile(file, []byte(config), 0o600))
		return []string{"run", "--adapter", "caddyfile", "--config", file}
	})
}

const mercurePath = "/.well-known/mercure"

// mercureEvents are the steps of a stream of server-sent events.
func mercureEvents(int) []load.Step { return load.EventsSteps(mercurePath + "?topic=" + wakeChannel) }

// mercurePublish returns a maker of requests that publish a message.
func (b *bench) mercurePublish() load.Maker {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(peerKey)}, nil)
	b.Must(err)
	token, err := jwt.Signed(signer).Claims(map[string]any{"mercure": map[string]any{"publish": []string{"*"}}}).Serialize()
	b.Must(err)
	headers := append(bearer(token), "Content-Type: application/x-www-form-urlencoded\r\n")
	body := url.Values{"topic": {wakeChannel}, "data": {strings.Trim(crowdContent, `"`)}}.Encode()
	return func(int) []byte { return load.Request(http.MethodPost, mercurePath, body, headers...) }
}
