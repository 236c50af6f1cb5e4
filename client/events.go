package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEventBytes is how large a line of a stream may be, and all data of an event. A poll fetches larger messages.
const maxEventBytes = 16 << 20

// errLargeEvent is the error of an event that isn't read.
var errLargeEvent = fmt.Errorf("an event is larger than %d bytes", maxEventBytes)

// event is a server-sent event.
type event struct {
	id   string // its own, not the last one of the stream
	name string
	data []byte // valid until the next event
}

// eventReader parses server-sent events whose lines end with \n or \r\n, as those of Tidemark do. Libraries for all
// forms scan an event from its beginning each time when more of it has come, which is too slow for large messages.
type eventReader struct {
	lines *bufio.Reader
	long  []byte // a line that is larger than the buffer of lines
}

func newEventReader(r io.Reader) *eventReader { return &eventReader{lines: bufio.NewReader(r)} }

// next returns the next event with data. The error is that of the reader, or errLargeEvent. An event that isn't
// complete is none.
func (r *eventReader) next() (event, error) {
	var e event
	for {
		line, err := r.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if e.data != nil {
				return e, nil
			}
			e = event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			e.id = string(value)
		case "event":
			e.name = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			if e.data = append(e.data, value...); len(e.data) > maxEventBytes {
				return event{}, errLargeEvent
			}
		}
	}
}

// line returns the next line, which is valid until the next call.
func (r *eventReader) line() ([]byte, error) {
	r.long = nil // large messages are rare, and a stream lives long
	for {
		part, err := r.lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if err == nil && r.long == nil {
			return withoutEnd(part), nil
		}
		if r.long = append(r.long, part...); len(r.long) > maxEventBytes {
			return nil, errLargeEvent
		}
		if err == nil {
			return withoutEnd(r.long), nil
		}
	}
}

func withoutEnd(line []byte) []byte { return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")) }
