package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// hooks are the functions that a test has set for Redis commands.
type hooks struct {
	mu      sync.Mutex
	observe func(command []string)
	fail    func(command []string) string
}

// Observe calls f with each command before the server receives it. The command's name is in upper case.
func (p *Proxy) Observe(f func(command []string)) {
	p.hooks.mu.Lock()
	defer p.hooks.mu.Unlock()
	p.hooks.observe = f
}

// Fail replaces the reply to each command for which text returns an error, such as "ERR unknown command". The server
// has run the command by then. A nil text passes all replies on again.
func (p *Proxy) Fail(text func(command []string) string) {
	p.hooks.mu.Lock()
	defer p.hooks.mu.Unlock()
	p.hooks.fail = text
}

func (h *hooks) get() (observe func([]string), fail func([]string) string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.observe, h.fail
}

// frames returns the commands and the replies of a connection, each as its bytes.
func (h *hooks) frames(client, server net.Conn) (commands, replies source) {
	var waiting pending
	fromClient, fromServer := bufio.NewReader(client), bufio.NewReader(server)
	commands = func() ([]byte, error) {
		raw, command, err := readCommand(fromClient)
		if err != nil {
			return nil, err
		}
		if observe, _ := h.get(); observe != nil {
			observe(command)
		}
		waiting.push(command)
		return raw, nil
	}
	replies = func() ([]byte, error) {
		var raw bytes.Buffer
		if err := readFrame(fromServer, &raw); err != nil || !isReply(raw.Bytes()) {
			return raw.Bytes(), err
		}
		command := waiting.pop()
		if _, fail := h.get(); fail != nil && command != nil {
			if text := fail(command); text != "" {
				return []byte("-" + text + "\r\n"), nil
			}
		}
		return raw.Bytes(), nil
	}
	return commands, replies
}

// isReply reports whether a frame answers a command. A push frame does only if it confirms a subscription.
func isReply(frame []byte) bool {
	return frame[0] != '>' || bytes.Contains(frame[:min(len(frame), 24)], []byte("\r\nssubscribe\r\n"))
}

// pending is the commands of a connection that have no reply yet.
type pending struct {
	mu       sync.Mutex
	commands [][]string
}

func (p *pending) push(command []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = append(p.commands, command)
}

// pop returns the command that is answered next, or nil if no command is pending.
func (p *pending) pop() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.commands) == 0 {
		return nil
	}
	first := p.commands[0]
	p.commands = p.commands[1:]
	return first
}

// readCommand reads an array of strings, and returns its bytes and the strings.
func readCommand(stream *bufio.Reader) ([]byte, []string, error) {
	var raw bytes.Buffer
	kind, n, err := readHead(stream, &raw)
	if err != nil {
		return nil, nil, err
	}
	if kind != '*' || n < 1 {
		return nil, nil, fmt.Errorf("not a command: %q", raw.String())
	}
	command := make([]string, n)
	for i := range command {
		start := raw.Len()
		if err := readFrame(stream, &raw); err != nil {
			return nil, nil, err
		}
		_, argument, _ := strings.Cut(raw.String()[start:], "\r\n")
		command[i] = strings.TrimSuffix(argument, "\r\n")
	}
	command[0] = strings.ToUpper(command[0])
	return raw.Bytes(), command, nil
}

// readHead reads the first line of a frame: its kind, and its number if it has one.
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

// readFrame reads one value of RESP 2 or 3.
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
		n = 2*n + 1 // and the value that the attributes belong to
	}
	for range n {
		if err := readFrame(stream, raw); err != nil {
			return err
		}
	}
	return nil
}
