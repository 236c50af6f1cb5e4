// Package drain has the state of what sends its clients elsewhere.
package drain

import (
	"sync"
	"sync/atomic"
)

// State is whether something drains: its clients are to go elsewhere. It may end, and begin again. Its methods may be
// called by many goroutines.
type State struct {
	mu  sync.Mutex // held while it changes
	now atomic.Pointer[chan struct{}]
}

// New returns a State that hasn't begun.
func New() *State {
	d := new(State)
	d.set()
	return d
}

func (d *State) set() {
	notice := make(chan struct{}) // closed by Begin
	d.now.Store(&notice)
}

// Begin begins it, if it hasn't begun.
func (d *State) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.IsBegun() {
		close(*d.now.Load())
	}
}

// End ends it, if it has begun.
func (d *State) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.IsBegun() {
		d.set()
	}
}

// Begun returns a channel that is closed once it has begun. After an End it is another one.
func (d *State) Begun() <-chan struct{} { return *d.now.Load() }

// IsBegun reports whether it has begun and not ended.
func (d *State) IsBegun() bool {
	select {
	case <-d.Begun():
		return true
	default:
		return false
	}
}
