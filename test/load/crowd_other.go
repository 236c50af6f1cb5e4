//go:build !linux

package load

import (
	"context"
	"time"
)

// Crowd is many connections to a server that sends messages on them. It needs Linux.
type Crowd struct{ Bytes int }

// NewCrowd returns ErrNoCrowd.
func NewCrowd(string) (*Crowd, error) { return nil, ErrNoCrowd }

// Len returns 0.
func (*Crowd) Len() int { return 0 }

// Close does nothing.
func (*Crowd) Close() {}

// Open returns ErrNoCrowd.
func (*Crowd) Open(context.Context, int, func(int) []Step) error { return ErrNoCrowd }

// Receive returns ErrNoCrowd.
func (*Crowd) Receive(context.Context, int, func() error) ([]time.Duration, error) {
	return nil, ErrNoCrowd
}
