package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// TestAttemptsAfterAFailover: when a replica was promoted, the client still sends a slot's commands to the node that is
// gone. Each kind of call reaches the new one with its second attempt.
func TestAttemptsAfterAFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	conn := storetest.Connect(t, redis.Options{URL: strings.Join(c.Addrs(), ","), KeyPrefix: redistest.Prefix(t)})
	key, other := conn.Prefix()+"{moves}", ""
	for i := 0; other == "" || c.Owner(t, c.Slot(other)) == c.Owner(t, c.Slot(key)); i++ {
		other = fmt.Sprintf("%s{%d}", conn.Prefix(), i)
	}
	show := lua.Must("leases/show")
	calls := []redis.Call{{Keys: []string{key}}, {Keys: []string{other}}, {Keys: []string{key + "2"}}}
	attempts := 0
	ops := map[string]func(context.Context) error{
		"Try": func(ctx context.Context) error {
			_, err := conn.Try(ctx, show, calls[0].Keys, nil)
			return err
		},
		"TryMany": func(ctx context.Context) error {
			results, then := conn.TryMany(ctx, show, calls, rueidis.Commands{conn.Client().B().Exists().Key(key).Build()})
			for _, r := range results {
				if r.Err != nil {
					return r.Err
				}
				require.Equal(t, redis.OK, r.Reply.Status)
			}
			return then[0].Error()
		},
		"Session": func(ctx context.Context) error {
			return conn.Session(ctx, key, func(own *redis.Session) error {
				_, err := own.Run(ctx, show, []string{key}, nil)
				return err
			})
		},
	}
	for range 2 {
		require.Eventually(t, func() bool { // both clients know the replica once that has received something
			write := conn.Client().B().Set().Key(conn.Prefix() + "{moves}written").Value("1").Build()
			return conn.Client().Do(t.Context(), write).Error() == nil &&
				len(conn.Client().Nodes()) == len(c.Nodes()) && len(conn.Bulk().Nodes()) == len(c.Nodes())
		}, storagetest.Patience, 20*time.Millisecond)
		killed, _ := c.Failover(t, c.Slot(key))
		for name, op := range ops {
			attempts = 0
			var errs []error
			require.NoError(t, conn.Retry(t.Context(), name, func(ctx context.Context) error {
				attempts++
				err := op(ctx)
				errs = append(errs, err)
				return err
			}))
			require.LessOrEqual(t, attempts, 2, "%s: %v", name, errs)
		}
		killed.Restart(t)
		c.AwaitOK(t)
	}
}
