package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from [firstPort, firstPort+portCount). A cluster's bus ports are busOffset above and so
// never meet them, and all stay below the ports that Linux and macOS give to outgoing connections.
const (
	firstPort = 10000
	portCount = 10000
	busOffset = 10000
)

const loopback = "127.0.0.1"

// reservation is a port on loopback that no other test binary takes until release, even while no server
// listens on it. Its sign to the others is a UDP socket of the same number, which no Redis uses.
type reservation struct {
	port int
	sign net.PacketConn
}

func (r reservation) addr() string { return net.JoinHostPort(loopback, strconv.Itoa(r.port)) }

func (r reservation) release() error { return r.sign.Close() }

// reserve finds a port that is free together with its bus port. Programs that know nothing of reservations
// can still take it before the server does.
func reserve(ctx context.Context) (reservation, error) {
	var config net.ListenConfig
	var last error
	for range 100 {
		r := reservation{port: firstPort + rand.IntN(portCount)}
		sign, err := config.ListenPacket(ctx, "udp4", r.addr())
		if err != nil {
			last = err
			continue
		}
		r.sign = sign
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
