package lifecycle

import (
	"sync"
	"sync/atomic"
)

// Drain is whether something drains: its clients are to go elsewhere. It may end, and begin again. Its methods may be
// called by many goroutines.
type Drain struct {
	mu  sync.Mutex // held while it changes
	now atomic.Pointer[chan struct{}]
}

// NewDrain returns a Drain that hasn't begun.
func NewDrain() *Drain {
	d := new(Drain)
	d.set()
	return d
}

func (d *Drain) set() {
	begun := make(chan struct{})
	d.now.Store(&begun)
}

// Begin begins it, if it hasn't begun.
func (d *Drain) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.IsBegun() {
		close(*d.now.Load())
	}
}

// End ends it, if it has begun.
func (d *Drain) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.IsBegun() {
		d.set()
	}
}

// Begun returns a channel that is closed once it has begun. After an End it is another one.
func (d *Drain) Begun() <-chan struct{} { return *d.now.Load() }

// IsBegun reports whether it has begun and not ended.
func (d *Drain) IsBegun() bool {
	select {
	case <-d.Begun():
		return true
	default:
		return false
	}
}
