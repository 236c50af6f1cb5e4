package server

import (
	"net"
	"sync"
	"time"
)

// deadline is a connection's deadline for reads or for writes. net/http sets deadlines seven times with each request,
// which moves timers of the runtime. So it is set there only for a call that may wait, and again only if it has moved
// by a second, or a sixteenth of the time that remained: it may be early by as much.
type deadline struct {
	writes bool

	mu     sync.Mutex
	wanted time.Time
	set    time.Time // in the runtime
	calls  int       // in progress
}

const maxEarly = time.Second

// move changes the deadline, at once if a call is in progress.
func (d *deadline) move(conn net.Conn, to time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = to
	if d.calls == 0 {
		return nil
	}
	return d.apply(conn)
}

// begin is called before a call, and end after it. If the deadline can't be set, the call fails, too.
func (d *deadline) begin(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	_ = d.apply(conn)
}

func (d *deadline) end() {
	d.mu.Lock()
	d.calls--
	d.mu.Unlock()
}

// apply sets the deadline in the runtime, if that is due. The lock is held.
func (d *deadline) apply(conn net.Conn) error {
	if d.wanted.Equal(d.set) {
		return nil
	}
	if !d.wanted.IsZero() && !d.set.IsZero() {
		early := d.wanted.Sub(d.set)
		if early >= 0 && early <= min(maxEarly, time.Until(d.set)/16) {
			return nil
		}
	}
	return d.force(conn)
}

// force sets the deadline in the runtime. The lock is held.
func (d *deadline) force(conn net.Conn) error {
	d.set = d.wanted
	if d.writes {
		return conn.SetWriteDeadline(d.set)
	}
	return conn.SetReadDeadline(d.set)
}

// moveNow changes the deadline in the runtime, for whoever takes over the connection.
func (d *deadline) moveNow(conn net.Conn, to time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = to
	return d.force(conn)
}
