package admin

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

	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// slowRegistry is a registry whose calls wait until leave is closed.
type slowRegistry struct {
	Registry
	release chan struct{}
}

func (s slowRegistry) Create(context.Context, accesskeys.NewKey) (k accesskeys.Key, text string, err error) {
	<-s.release
	return k, text, nil
}

func (s slowRegistry) Revoke(_ context.Context, what accesskeys.Revocation) (accesskeys.Revocation, error) {
	<-s.release
	return what, nil
}

// TestTurnsOfSlowCalls: a large body that was decoded keeps no turn while the registry waits for Redis.
func TestTurnsOfSlowCalls(t *testing.T) {
	t.Parallel()
	space := strings.Repeat(" ", 70<<10)
	for path, body := range map[string]string{"/v1/keys": `{"grants":[]}`, "/v1/revocations": `{"jti":"a"}`} {
		synctest.Test(t, func(t *testing.T) {
			r := web.New(web.Options{
				Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), MaxBodyBytes: 1 << 20,
				BodyMemory: 16 << 20, ReadTimeout: time.Minute,
			})
			release := make(chan struct{})
			addAccess(r, slowRegistry{release: release})
			post := func(path, body string) int {
				w := httptest.NewRecorder()
				r.Admin().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path,
					strings.NewReader(space+body)))
				return w.Code
			}
			var clients sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				clients.Go(func() { post(path, body) })
			}
			synctest.Wait()
			require.Equal(t, http.StatusBadRequest, post("/v1/keys", "{"), path)
			close(release)
			clients.Wait()
			require.Zero(t, r.BodyBytes())
		})
	}
}
