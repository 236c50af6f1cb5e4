package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
)

// request sends a request, and returns the body of its answer.
func request(t *testing.T, c *client.Client, method, path, body string) (string, error) {
	t.Helper()
	answer, err := c.Request(t.Context(), method, path, []byte(body))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return string(text), nil
}

func TestRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(http.StatusOK, "an answer"), problem(http.StatusNotFound, fault.SlugNoPath, 0))
	c := f.client(t, client.WithToken("secret"))
	text, err := request(t, c, http.MethodPut, "/v1/a%2Fb?c=d", "1")
	require.NoError(t, err)
	require.Equal(t, "an answer", text)
	sent := f.got()[0]
	require.Equal(t, []string{"PUT", "/v1/a%2Fb?c=d", "1"}, []string{sent.method, sent.target, sent.body})
	require.Equal(t, "Bearer secret", sent.header.Get("Authorization"))
	require.Equal(t, "application/json", sent.header.Get("Content-Type"))
	_, err = request(t, c, http.MethodGet, "/v1/none?token=x", "")
	require.EqualError(t, err, "GET /v1/none: details of path-not-found (404 path-not-found)")
}

// TestRequestsAreNotExecutedTwice checks which failed requests are sent again.
func TestRequestsAreNotExecutedTwice(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first http.HandlerFunc
		post  int // tries of a POST; of a PUT there are always two
	}{
		"lost answer":    {lost, 1},
		"unavailable":    {problem(503, fault.SlugUnavailable, 0), 1},
		"not replicated": {problem(503, fault.SlugNotReplicated, 0), 1},
		"proxy":          {answer(503, "<html>"), 1},
		"bad gateway":    {answer(502, "<html>"), 1},
		"draining":       {problem(503, fault.SlugDraining, 0), 2},
		"overloaded":     {problem(503, fault.SlugOverloaded, 0), 2},
		"limited":        {answer(429, nil), 2},
	} {
		for method, tries := range map[string]int{http.MethodPut: 2, http.MethodPost: tt.post} {
			f := newFake(t, tt.first, answer(http.StatusOK, "1"))
			_, err := request(t, f.client(t), method, "/v1/a", "1")
			require.Len(t, f.got(), tries, "%s: %s", name, method)
			require.Equal(t, tries == 2, err == nil, "%s: %s: %v", name, method, err)
		}
	}
}

// TestRequestWithoutConnection checks that a POST is retried while the service doesn't listen.
func TestRequestWithoutConnection(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	policy, tries := quick, 0
	ctx, cancel := context.WithCancel(t.Context())
	policy.Notify = func(error, time.Duration) {
		if tries++; tries == 3 {
			cancel()
		}
	}
	_, err = newClient(t, "http://"+address, client.WithRetry(policy)).Request(ctx, http.MethodPost, "/v1/a", nil)
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Equal(t, 3, tries)
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRequestOfAStream reads an answer that lasts longer than one may take to begin.
func TestRequestOfAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		c := newClient(t, "http://service", client.WithHTTPClient(&http.Client{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
				return &http.Response{StatusCode: http.StatusOK, Body: reader}, nil
			})}))
		answer, err := c.Request(t.Context(), http.MethodGet, "/v1/a", nil)
		require.NoError(t, err)
		go func() {
			<-time.After(time.Hour)
			_, _ = io.WriteString(writer, "late")
			_ = writer.Close()
		}()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, "late", string(text))
	})
}

// TestRequestWithoutAnswer waits for an answer that never begins.
func TestRequestWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, "http://service", client.WithRetry(quick), client.WithHTTPClient(&http.Client{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}))
		_, err := request(t, c, http.MethodPost, "/v1/a", "1")
		require.EqualError(t, err, "POST /v1/a: the service can't be reached: no answer within 30s")
	})
}
