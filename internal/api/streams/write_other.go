//go:build !unix

package streams

import "syscall"

// nonBlockingWriter would write to connections as much as they have room for, without waiting: here it writes nothing.
type nonBlockingWriter struct{}

func (*nonBlockingWriter) init() {}

func (*nonBlockingWriter) try(syscall.RawConn, []byte) int { return 0 }
