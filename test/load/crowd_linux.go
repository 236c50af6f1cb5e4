package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Crowd is many connections to a server that sends messages on them. One goroutine reads them all, through epoll and
// without buffers of their own, so that the load costs little beside the server. It is used by one goroutine.
type Crowd struct {
	Bytes int // received by Receive

	server  netip.AddrPort
	epoll   int
	members []*member
	buffer  []byte
}

// Limits of a crowd.
const (
	atOnce      = 50    // connections are opened at the same time
	fromAddress = 20000 // connections have the same source address
	stepLimit   = time.Minute
	idleLimit   = 30 * time.Second // of Receive
)

// NewCrowd returns a crowd without connections.
func NewCrowd(address string) (*Crowd, error) {
	server, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return &Crowd{server: server, epoll: epoll, buffer: make([]byte, 256<<10)}, err
}

// Len returns the number of connections.
func (c *Crowd) Len() int { return len(c.members) }

// Close closes all connections.
func (c *Crowd) Close() {
	for _, m := range c.members {
		_ = syscall.Close(m.fd) // nothing is left to be written
	}
	c.members = nil
	_ = syscall.Close(c.epoll)
}

// Open opens n connections more, each by its steps. It returns when each has its last answer.
func (c *Crowd) Open(ctx context.Context, n int, steps func(i int) []Step) error {
	first := len(c.members)
	c.members = append(c.members, make([]*member, n)...)
	for i := range n {
		c.members[first+i] = &member{fd: -1}
	}
	group, opening := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := first; i < first+n && opening.Err() == nil; i++ {
		group.Go(func() error { return c.open(i, steps(i)) })
	}
	return errors.Join(group.Wait(), ctx.Err())
}

// open opens a connection, and performs its steps while its socket still blocks.
func (c *Crowd) open(i int, steps []Step) error {
	m := c.members[i]
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	m.fd = fd
	limit := syscall.NsecToTimeval(stepLimit.Nanoseconds())
	source := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(1 + i/fromAddress)}}
	err = errors.Join(syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit),
		// the port is chosen by Connect, which can use those of connections that were closed just before
		syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		syscall.Bind(fd, source),
		syscall.Connect(fd, &syscall.SockaddrInet4{Addr: c.server.Addr().As4(), Port: int(c.server.Port())}))
	for _, step := range steps {
		if err == nil {
			err = perform(fd, step)
		}
	}
	if err != nil {
		return fmt.Errorf("connection %d: %w", i, err)
	}
	return errors.Join(syscall.SetNonblock(fd, true), syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, fd,
		&syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}))
}

// perform sends a step and waits for its answer.
func perform(fd int, s Step) error {
	if _, err := syscall.Write(fd, s.Send); err != nil {
		return err
	}
	var answer []byte
	for started := time.Now(); s.Await != "" && !bytes.Contains(answer, []byte(s.Await)); {
		var read [1024]byte
		n, err := syscall.Read(fd, read[:])
		if errors.Is(err, syscall.EINTR) && time.Since(started) < stepLimit {
			continue
		}
		if n <= 0 || time.Since(started) > stepLimit {
			return fmt.Errorf("was answered %q: %w", answer, errors.Join(err, errClosed))
		}
		answer = append(answer, read[:n]...)
	}
	return nil
}

var errClosed = errors.New("no further answer")

// Receive calls send, and returns when each connection has received a number of messages. It returns how long that
// took from the beginning of send, for each connection.
func (c *Crowd) Receive(ctx context.Context, messages int, send func() error) ([]time.Duration, error) {
	for _, m := range c.members {
		m.got = 0
	}
	started := time.Now()
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	sent := make(chan error, 1)
	go func() {
		err := send()
		if err != nil {
			stop(err) // nothing will be received
		}
		sent <- err
	}()
	err := c.receive(sending, messages, started)
	if err = errors.Join(err, <-sent); err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(c.members))
	for i, m := range c.members {
		took[i] = m.took
	}
	return took, nil
}

func (c *Crowd) receive(ctx context.Context, messages int, started time.Time) error {
	events := make([]syscall.EpollEvent, 512)
	for missing, last := len(c.members), time.Now(); missing > 0; {
		n, err := syscall.EpollWait(c.epoll, events, 1000)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, syscall.EINTR):
			return err
		case time.Since(last) > idleLimit:
			return fmt.Errorf("%d of %d connections miss messages", missing, len(c.members))
		}
		for _, e := range events[:max(n, 0)] {
			done, err := c.read(c.members[e.Fd], messages)
			if err != nil {
				return err
			}
			if done {
				c.members[e.Fd].took = time.Since(started)
				missing--
				last = time.Now()
			}
		}
	}
	return nil
}

// read reads what a connection has, and reports whether its last message is there now.
func (c *Crowd) read(m *member, messages int) (done bool, err error) {
	n, err := syscall.Read(m.fd, c.buffer)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	if n <= 0 {
		return false, errors.Join(err, errClosed)
	}
	c.Bytes += n
	before := m.got
	m.got += m.count(c.buffer[:n])
	return before < messages && m.got >= messages, pong(m.fd, c.buffer[:n])
}

// pong answers a ping of the WebSocket protocol, if one was read by itself.
func pong(fd int, read []byte) error {
	if len(read) < 2 || read[0] != 0x89 || int(read[1]) != len(read)-2 {
		return nil
	}
	answer := binary.BigEndian.AppendUint16(nil, 0x8a80|uint16(read[1]))
	_, err := syscall.Write(fd, append(append(answer, 0, 0, 0, 0), read[2:]...))
	return err
}
