//go:build unix

package streams

import (
	"errors"
	"syscall"
)

// readsNow reports whether readNow can be used.
const readsNow = true

// readNow reads what has arrived. wait reports whether nothing has.
func readNow(fd uintptr, b []byte) (n int, wait bool) {
	for {
		n, err := syscall.Read(int(fd), b)
		if !errors.Is(err, syscall.EINTR) {
			return n, errors.Is(err, syscall.EAGAIN)
		}
	}
}
