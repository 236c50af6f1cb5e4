package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between clients and a server, passes on what both send, and replaces replies that a test chooses by
// errors. The server has run the command by then.
type Proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup
	fail     atomic.Pointer[func(command []string) string]

	mu   sync.Mutex
	open []net.Conn
}

// NewProxy starts a proxy in front of a server without TLS. It ends with the test.
func NewProxy(t testing.TB, n *Node) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := &Proxy{listener: l, target: n.Addr()}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns the proxy's host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Fail replaces the reply to each command for which text returns an error, such as "ERR unknown command", from now on.
// Commands have their name in upper case. A nil text passes everything on again.
func (p *Proxy) Fail(text func(command []string) string) {
	if text == nil {
		p.fail.Store(nil)
		return
	}
	p.fail.Store(&text)
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // it ends with the listener
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		// What a client may have under way at a time is far less than the capacity.
		commands := make(chan []string, 1<<16)
		p.running.Go(func() {
			_ = forwardCommands(client, server, commands)
			_ = server.Close()
		})
		p.running.Go(func() {
			_ = p.forwardReplies(server, client, commands)
			_ = client.Close()
		})
	}
}

// forwardCommands passes on what a client sends, and notes each command before the server gets it.
func forwardCommands(client io.Reader, server io.Writer, commands chan<- []string) error {
	stream := bufio.NewReader(client)
	for {
		var raw bytes.Buffer
		kind, n, err := readHead(stream, &raw)
		if err != nil || kind != '*' {
			return fmt.Errorf("no command: %w", err)
		}
		command := make([]string, n)
		for i := range command {
			start := raw.Len()
			if err := readFrame(stream, &raw); err != nil {
				return err
			}
			_, arg, _ := strings.Cut(raw.String()[start:], "\r\n")
			command[i] = strings.TrimSuffix(arg, "\r\n")
		}
		command[0] = strings.ToUpper(command[0])
		commands <- command
		if _, err := server.Write(raw.Bytes()); err != nil {
			return err
		}
	}
}

// forwardReplies passes on what the server sends. A push is a reply only where it confirms a subscription.
func (p *Proxy) forwardReplies(server io.Reader, client io.Writer, commands <-chan []string) error {
	stream := bufio.NewReader(server)
	for {
		var raw bytes.Buffer
		if err := readFrame(stream, &raw); err != nil {
			return err
		}
		out := raw.Bytes()
		if out[0] != '>' || bytes.Contains(out[:min(len(out), 24)], []byte("\r\nssubscribe\r\n")) {
			command := <-commands
			if fail := p.fail.Load(); fail != nil {
				if text := (*fail)(command); text != "" {
					out = []byte("-" + text + "\r\n")
				}
			}
		}
		if _, err := client.Write(out); err != nil {
			return err
		}
	}
}

// readHead reads the first line of a frame: its kind, and its number where it has one.
func readHead(stream *bufio.Reader, raw *bytes.Buffer) (kind byte, n int, err error) {
	line, err := stream.ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	raw.WriteString(line)
	switch kind = line[0]; kind {
	case '$', '=', '!', '*', '~', '>', '%', '|':
		n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	return kind, n, err
}

// readFrame reads one value of RESP 2 or 3 as it is.
func readFrame(stream *bufio.Reader, raw *bytes.Buffer) error {
	kind, n, err := readHead(stream, raw)
	if err != nil || n < 0 {
		return err
	}
	switch kind {
	case '$', '=', '!':
		_, err = io.CopyN(raw, stream, int64(n)+2)
		return err
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // and the value that the attributes are of
	}
	for range n {
		if err := readFrame(stream, raw); err != nil {
			return err
		}
	}
	return nil
}
