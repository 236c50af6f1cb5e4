package records_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

const lockPath = "/v1/locks/resize/7"

// lock acquires the lock of lockPath.
func lock(h *servertest.Harness, headers ...servertest.Header) clientrecords.Lock {
	h.TB.Helper()
	return servertest.Decode[clientrecords.Lock](h.Do("PUT", lockPath, "", headers...).With(200))
}

func TestLocksThatAreRefused(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, tt := range []struct {
		method, path, body string
		slug               fault.Slug
		field              string
	}{
		{"PUT", "/v1/locks/resize/%0A", "", fault.SlugInvalidID, "id"},
		{"PUT", lockPath, `{"ttl":"-1s"}`, fault.SlugInvalidBody, "/ttl"},
		{"PUT", lockPath, `{"ttl":30}`, fault.SlugInvalidBody, "/ttl"},
		{"PUT", lockPath, `{"wait":"61s"}`, fault.SlugInvalidWait, "/wait"},
		{"PUT", lockPath, `{"newToken":"short"}`, fault.SlugInvalidLock, "/token"},
		{"PUT", lockPath, `{"token":"0123456789abcdef","wait":"1s"}`, fault.SlugInvalidLock, "/token"},
		{"PUT", lockPath, `{"token":"0123456789abcdef","newToken":"0123456789abcdef"}`, fault.SlugInvalidLock,
			"/token"},
		{"PUT", lockPath, `[]`, fault.SlugInvalidBody, ""},
		{"PUT", lockPath + "?ttl=1s", "", fault.SlugInvalidQuery, ""},
		{"DELETE", lockPath, `{}`, fault.SlugInvalidLock, "/token"},
		{"DELETE", lockPath, ``, fault.SlugInvalidBody, ""},
	} {
		p := h.Do(tt.method, tt.path, tt.body).Problem(400, tt.slug)
		require.Equal(t, tt.field, p.Field, "%s %s %s", tt.method, tt.path, tt.body)
	}
	h.Do("GET", lockPath, "").Expect(200, `{"held":false}`)
}

// TestLocksOfOthers: tokens of other locks, guessed tokens and values from Redis are refused, and grants decide which
// locks a client may use.
func TestLocksOfOthers(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "ann", `[{"actions":["read","write"],"records":["locks/*/7"]}]`)
	p.Add(t, "bob", `[{"actions":["read"],"records":["locks/*"]},{"actions":["write"],"records":["locks/other/*"]}]`)
	ann, bob := servertest.Bearer("ann"), servertest.Bearer("bob")
	held := lock(h, ann)
	for _, method := range []string{"PUT", "DELETE"} {
		h.Do(method, lockPath, `{"token":"`+held.Token+`"}`, bob).Problem(403, fault.SlugNotGranted)
		h.Do(method, "/v1/locks/resize/8", `{"token":"`+held.Token+`"}`, ann).Problem(403, fault.SlugNotGranted)
		h.Do(method, "/v1/locks/other/7", `{"token":"`+held.Token+`"}`, bob).Problem(409, fault.SlugLockLost)
		h.Do(method, lockPath, `{"token":"tml_AAAAAAAAAAAAAAAAAAAAAAAAAA"}`, ann).Problem(409, fault.SlugLockLost)
	}
	shown := h.Do("GET", lockPath, "", bob).With(200)
	require.NotContains(t, string(shown.Body), held.Token)
	h.Do("GET", lockPath, "").Problem(401, fault.SlugNoCredential)
}

// TestLocksThatWait: a wait ends with a release, counts as a wait, and ends when the server drains.
func TestLocksThatWait(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	const grants = `[{"actions":["read","write"],"records":["locks/*"]}]`
	p.Add(t, "one", grants)
	p.Known["one"].Limits = access.Limits{Waits: 1}
	p.Add(t, "other", grants)
	held := lock(h, servertest.Bearer("other"))
	wait := func() <-chan servertest.Answer {
		got := make(chan servertest.Answer, 1)
		go func() {
			a := servertest.Answer{Status: 429} // while the request below waits
			for a.Status == 429 {
				a = h.Do("PUT", lockPath, `{"wait":"1m"}`, servertest.Bearer("one"))
			}
			got <- a
		}()
		require.Eventually(t, func() bool { // the wait has begun
			a := h.Do("PUT", "/v1/locks/x/y", `{"wait":"1ms","ttl":"1s"}`, servertest.Bearer("one"))
			return a.Status == 429
		}, servertest.Patience, servertest.Step)
		return got
	}
	got := wait()
	h.Do("DELETE", lockPath, `{"token":"`+held.Token+`"}`, servertest.Bearer("other")).With(204)
	next := servertest.Decode[clientrecords.Lock]((<-got).With(200))
	require.Greater(t, next.Fence, held.Fence)
	refused := h.Do("PUT", lockPath, "", servertest.Bearer("other"))
	refused.Problem(409, fault.SlugLockHeld)
	seconds, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 29, seconds, 1)

	got = wait()
	h.Stop()
	(<-got).Problem(409, fault.SlugLockHeld)
}
