package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are in [firstPort, firstPort+portCount). The bus port of a cluster node is busOffset above. All are below the
// ports that Linux and macOS use for outgoing connections.
const (
	firstPort = 10000
	portCount = 10000
	busOffset = 10000
)

const loopback = "127.0.0.1"

// reservation is a port on loopback that no other test binary uses until release, even while no server listens on it. A
// UDP socket with the same number, which no Redis uses, marks it as taken.
type reservation struct {
	port int
	mark net.PacketConn
}

func (r reservation) addr() string { return net.JoinHostPort(loopback, strconv.Itoa(r.port)) }

func (r reservation) release() error { return r.mark.Close() }

// reserve finds a port that is free and whose bus port is free. Another program can still take it before the server
// does.
func reserve(ctx context.Context) (reservation, error) {
	var config net.ListenConfig
	var last error
	for range 100 {
		r := reservation{port: firstPort + rand.IntN(portCount)}
		mark, err := config.ListenPacket(ctx, "udp4", r.addr())
		if err != nil {
			last = err
			continue
		}
		r.mark = mark
		if err := errors.Join(probe(ctx, r.port), probe(ctx, r.port+busOffset)); err != nil {
			last = errors.Join(err, r.release())
			continue
		}
		return r, nil
	}
	return reservation{}, fmt.Errorf("find a free port on loopback: %w", last)
}

func probe(ctx context.Context, port int) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
