package v1

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// gate is where calls of services wait.
type gate chan struct{}

type slowChannels struct {
	Channels
	gate
}

func (s slowChannels) Subscribe(context.Context, channel.SubscribeRequest) (channel.Subscription, error) {
	<-s.gate
	return channel.Subscription{}, nil
}

type slowQueues struct {
	Queues
	gate
}

func (s slowQueues) PutQueue(_ context.Context, d matchmaking.Definition) (matchmaking.Definition, bool, error) {
	<-s.gate
	return d, false, nil
}

// TestTurnsOfSlowCalls: a large body that was decoded keeps no turn while the service waits for Redis.
func TestTurnsOfSlowCalls(t *testing.T) {
	t.Parallel()
	space := strings.Repeat(" ", 70<<10)
	for _, path := range []string{"/v1/channels/c/subscribers/s", "/v1/queues/q"} {
		synctest.Test(t, func(t *testing.T) {
			r := web.New(web.Options{
				Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), MaxBodyBytes: 1 << 20,
				BodyMemory: 16 << 20, ReadTimeout: time.Minute,
			})
			release := make(gate)
			Register(r, Options{Channels: slowChannels{gate: release}, Queues: slowQueues{gate: release}})
			do := func(method, path, body string) int {
				w := httptest.NewRecorder()
				request := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
				r.Admin().ServeHTTP(w, request)
				return w.Code
			}
			var clients sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				clients.Go(func() { do(http.MethodPut, path, space+"{}") })
			}
			synctest.Wait()
			require.Equal(t, http.StatusBadRequest, do(http.MethodPost, "/v1/channels/c/messages", space+"{"), path)
			close(release)
			clients.Wait()
			require.Zero(t, r.BodyBytes())
		})
	}
}
