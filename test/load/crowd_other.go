//go:build !linux

package load

import (
	"context"
	"errors"
	"time"
)

// errNoCrowd means that this system has no epoll.
var errNoCrowd = errors.New("many connections are only measured on Linux")

// Crowd is many connections to a server that sends messages on them. It needs Linux.
type Crowd struct{ Bytes int }

// NewCrowd fails.
func NewCrowd(string) (*Crowd, error) { return nil, errNoCrowd }

// Len returns 0.
func (*Crowd) Len() int { return 0 }

// Close does nothing.
func (*Crowd) Close() {}

// Open fails.
func (*Crowd) Open(context.Context, int, func(int) []Step) error { return errNoCrowd }

// Receive fails.
func (*Crowd) Receive(context.Context, int, func() error) ([]time.Duration, error) {
	return nil, errNoCrowd
}
