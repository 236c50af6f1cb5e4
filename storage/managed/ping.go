package managed

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/rueidis"
)

const (
	dialTimeout  = time.Second
	firstRecheck = 5 * time.Millisecond
	lastRecheck  = 250 * time.Millisecond
)

// awaitPing sends PING until it is answered. Errors while the server isn't
// listening yet, or is loading its data, don't count. It fails only when ctx ends.
func awaitPing(ctx context.Context, socket string) error {
	ping := func() (struct{}, error) {
		client, err := dial(socket)
		if err != nil {
			return struct{}{}, err
		}
		defer client.Close()
		return struct{}{}, client.Do(ctx, client.B().Ping().Build()).Error()
	}
	pause := &backoff.ExponentialBackOff{InitialInterval: firstRecheck, MaxInterval: lastRecheck,
		Multiplier: backoff.DefaultMultiplier}
	_, err := backoff.Retry(ctx, ping, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0))
	return err
}

// shutdown asks the server to end. On success the server closes the connection
// without an answer, which returns an error like any other.
func shutdown(ctx context.Context, socket string) error {
	client, err := dial(socket)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(ctx, client.B().Shutdown().Build()).Error()
}

// pingBuffer is the size of each buffer of a connection that only pings.
const pingBuffer = 4 << 10

func dial(socket string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{socket},
		DialCtxFn: func(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
		Dialer:              net.Dialer{Timeout: dialTimeout},
		ForceSingleClient:   true,
		DisableCache:        true,
		DisableRetry:        true,
		ReadBufferEachConn:  pingBuffer,
		WriteBufferEachConn: pingBuffer,
		RingScaleEachConn:   8,
	})
}
