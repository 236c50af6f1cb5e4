//go:build unix

package streams

import (
	"errors"
	"syscall"
)

// nonBlockingWriter writes to connections as much as they have room for, without waiting.
type nonBlockingWriter struct {
	bytes   []byte
	written int
	call    func(fd uintptr) bool // write, made once
}

func (d *nonBlockingWriter) init() { d.call = d.write }

func (d *nonBlockingWriter) write(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), d.bytes)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		d.written = max(0, n) // an error shows when the rest is written
		return true           // whatever was written: it must not wait
	}
}

// try writes a part of b, or all of it. It returns how many bytes it has written.
func (d *nonBlockingWriter) try(to syscall.RawConn, b []byte) int {
	d.bytes, d.written = b, 0
	_ = to.Write(d.call) // fails if the connection is closed
	d.bytes = nil
	return d.written
}
