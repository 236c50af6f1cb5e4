package tracked

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// RefusedError is the error of a Redis that refuses a part of client-side caching: the protocol RESP3, CLIENT TRACKING,
// or transactions.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return "client-side caching is refused: " + e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

var errProtocol = errors.New("the server doesn't speak RESP3")

// Check finds out whether Redis offers client-side caching, by using it. Errors: *RefusedError, and those of
// Conn.Retry.
func Check(ctx context.Context, conn *redis.Conn) error {
	client, err := dial(ctx, conn, func(*rueidis.ClientOption) {})
	if err == nil {
		client.Close()
	}
	return err
}

// dial makes connections on which Redis tracks the keys that are read. A refusal isn't tried again.
func dial(ctx context.Context, conn *redis.Conn, change func(*rueidis.ClientOption)) (rueidis.Client, error) {
	var client rueidis.Client
	var refused error
	err := conn.Retry(ctx, "open client-side caching", func(ctx context.Context) (err error) {
		client, err = conn.Dial(func(o *rueidis.ClientOption) {
			o.ClientName = "tidemark-tracked"
			o.DisableCache = false
			// Redis tracks each key that is read. The default, OPTIN, would not track one that is read by ASK while its
			// slot is moving: ASKING takes the place of the command that OPTIN is for.
			o.ClientTrackingOptions = []string{"OPTOUT"}
			change(o)
		})
		if errors.Is(err, rueidis.ErrNoCache) {
			client, refused = nil, refusedBy(err)
			return nil
		}
		if err == nil {
			refused = checkTransactions(ctx, client)
		}
		return err
	})
	if err != nil || refused == nil {
		return client, err
	}
	if client != nil {
		client.Close()
	}
	return nil, &RefusedError{refused}
}

// refusedBy returns the error without the client library's advice for programmers.
func refusedBy(err error) error {
	if text := strings.TrimSpace(strings.TrimSuffix(err.Error(), rueidis.ErrNoCache.Error())); text != "" {
		return errors.New(text)
	}
	return errProtocol
}

// checkTransactions checks that the first node that answers accepts transactions, in which values are read. Only what a
// server never accepts is an error: one that is down or full is no reason to do without.
func checkTransactions(ctx context.Context, client rueidis.Client) error {
	for _, node := range client.Nodes() {
		err := node.Dedicated(func(d rueidis.DedicatedClient) error {
			defer d.Close() // it may still be in the transaction
			for _, reply := range d.DoMulti(ctx, d.B().Multi().Build(), d.B().Exec().Build()) {
				if err := reply.Error(); err != nil {
					return err
				}
			}
			return nil
		})
		if cause, ok := refusal.Of(err); ok && (cause.NoCommand || cause.Code == refusal.NoPermission) {
			return err
		}
		if err == nil {
			break
		}
	}
	return nil
}
