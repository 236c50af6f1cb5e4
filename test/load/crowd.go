package load

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Marker ends each message that a [Crowd] is sent. It has no character that an encoding escapes, and its first one only
// once.
const Marker = "Z-message-ends"

// Step is a part of the opening of a connection: bytes to be sent, and a text in the answer that is waited for.
type Step struct {
	Send  []byte
	Await string // "": the answer is a message
}

// EventsSteps open a stream of server-sent events.
func EventsSteps(path string) []Step {
	return []Step{{Request(http.MethodGet, path, "", "Accept: "+wire.MediaEvents+"\r\n"), "HTTP/1.1 200"}}
}

// SocketSteps open a WebSocket, and send frames on it, each after the answer to the one before has a text.
func SocketSteps(path, protocol string, frames ...Step) []Step {
	headers := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if protocol != "" {
		headers += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	steps := []Step{{Request(http.MethodGet, path, "", headers), "HTTP/1.1 101"}}
	for _, f := range frames {
		steps = append(steps, Step{textFrame(f.Send), f.Await})
	}
	return steps
}

// SubscribeSteps open a WebSocket of Tidemark with one subscription.
func SubscribeSteps(channel, subscriber string) []Step {
	return SocketSteps("/v1/socket", wire.SocketProtocol, Step{
		fmt.Appendf(nil, `{"type":"subscribe","ref":1,"channel":%q,"subscriber":%q}`, channel, subscriber), `"ok"`,
	})
}

// textFrame returns a frame of a client. Its mask is 0, which leaves the text as it is.
func textFrame(text []byte) []byte {
	frame := []byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}
	if len(text) < 126 {
		frame = []byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}
	}
	return append(frame, text...)
}

// member is what a connection of a crowd has received.
type member struct {
	fd      int
	matched int // bytes at the end of what was read with which Marker begins
	got     int // messages since Receive was called
	took    time.Duration
}

// count returns how many messages end in what was read.
func (m *member) count(read []byte) (n int) {
	if m.matched > 0 {
		rest := Marker[m.matched:]
		if k := min(len(rest), len(read)); rest[:k] == string(read[:k]) {
			m.matched += k
			if k < len(rest) {
				return 0
			}
			n++
		}
	}
	n += bytes.Count(read, []byte(Marker))
	m.matched = 0
	if at := bytes.LastIndexByte(read, Marker[0]); at >= 0 && len(read)-at < len(Marker) &&
		string(read[at:]) == Marker[:len(read)-at] {
		m.matched = len(read) - at
	}
	return n
}
