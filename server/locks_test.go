package server_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/wire"
)

const lockPath = "/v1/locks/resize/7"

// lock acquires the lock of lockPath.
func (h *harness) lock(headers ...header) wire.Lock {
	h.t.Helper()
	return decode[wire.Lock](h.do("PUT", lockPath, "", headers...).with(200))
}

func TestLocksThatAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, tt := range []struct {
		method, path, body string
		slug               fault.Slug
		field              string
	}{
		{"PUT", "/v1/locks/resize/%0A", "", fault.SlugInvalidID, "id"},
		{"GET", "/v1/locks/%00/7", "", fault.SlugInvalidID, "op"},
		{"PUT", lockPath, `{"ttl":"999ms"}`, fault.SlugInvalidLock, "/ttl"},
		{"PUT", lockPath, `{"ttl":"2562047h"}`, fault.SlugInvalidLock, "/ttl"},
		{"PUT", lockPath, `{"ttl":"-1s"}`, fault.SlugInvalidBody, "/ttl"},
		{"PUT", lockPath, `{"ttl":30}`, fault.SlugInvalidBody, "/ttl"},
		{"PUT", lockPath, `{"wait":"61s"}`, fault.SlugInvalidWait, "/wait"},
		{"PUT", lockPath, `{"wait":"-1s"}`, fault.SlugInvalidWait, "/wait"},
		{"PUT", lockPath, `{"newToken":"short"}`, fault.SlugInvalidLock, "/token"},
		{"PUT", lockPath, `{"token":"0123456789abcdef","wait":"1s"}`, fault.SlugInvalidLock, "/token"},
		{"PUT", lockPath, `{"token":"0123456789abcdef","newToken":"0123456789abcdef"}`, fault.SlugInvalidLock,
			"/token"},
		{"PUT", lockPath, `[]`, fault.SlugInvalidBody, ""},
		{"PUT", lockPath + "?ttl=1s", "", fault.SlugInvalidQuery, ""},
		{"DELETE", lockPath, `{}`, fault.SlugInvalidLock, "/token"},
		{"DELETE", lockPath, ``, fault.SlugInvalidBody, ""},
	} {
		p := h.do(tt.method, tt.path, tt.body).problem(400, tt.slug)
		require.Equal(t, tt.field, p.Field, "%s %s %s", tt.method, tt.path, tt.body)
	}
	h.do("GET", lockPath, "").is(200, `{"held":false}`)
}

// TestLocksOfOthers: tokens of other locks, guessed ones and what Redis has open nothing, and grants say who may lock
// what.
func TestLocksOfOthers(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "ann", `[{"actions":["read","write"],"records":["locks/*/7"]}]`)
	p.add(t, "bob", `[{"actions":["read"],"records":["locks/*"]},{"actions":["write"],"records":["locks/other/*"]}]`)
	ann, bob := bearer("ann"), bearer("bob")
	held := h.lock(ann)
	for _, method := range []string{"PUT", "DELETE"} {
		h.do(method, lockPath, `{"token":"`+held.Token+`"}`, bob).problem(403, fault.SlugNotGranted)
		h.do(method, "/v1/locks/resize/8", `{"token":"`+held.Token+`"}`, ann).problem(403, fault.SlugNotGranted)
		h.do(method, "/v1/locks/other/7", `{"token":"`+held.Token+`"}`, bob).problem(409, fault.SlugLockLost)
		h.do(method, lockPath, `{"token":"tml_AAAAAAAAAAAAAAAAAAAAAAAAAA"}`, ann).problem(409, fault.SlugLockLost)
	}
	shown := h.do("GET", lockPath, "", bob).with(200)
	require.NotContains(t, string(shown.body), held.Token)
	h.do("GET", lockPath, "").problem(401, fault.SlugNoCredential)
}

// TestLocksThatWait: a wait ends with a release, counts as a wait, and ends when the server drains.
func TestLocksThatWait(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	const grants = `[{"actions":["read","write"],"records":["locks/*"]}]`
	p.add(t, "one", grants)
	p.known["one"].Limits = access.Limits{Waits: 1}
	p.add(t, "other", grants)
	held := h.lock(bearer("other"))
	wait := func() <-chan answer {
		got := make(chan answer, 1)
		go func() {
			a := answer{status: 429} // while the request below waits
			for a.status == 429 {
				a = h.do("PUT", lockPath, `{"wait":"1m"}`, bearer("one"))
			}
			got <- a
		}()
		require.Eventually(t, func() bool { // it has begun to wait
			a := h.do("PUT", "/v1/locks/x/y", `{"wait":"1ms","ttl":"1s"}`, bearer("one"))
			return a.status == 429
		}, servertest.Patience, servertest.Step)
		return got
	}
	got := wait()
	h.do("DELETE", lockPath, `{"token":"`+held.Token+`"}`, bearer("other")).with(204)
	next := decode[wire.Lock]((<-got).with(200))
	require.Greater(t, next.Fence, held.Fence)
	refused := h.do("PUT", lockPath, "", bearer("other"))
	refused.problem(409, fault.SlugLockHeld)
	seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 29, seconds, 1)

	got = wait()
	h.stop()
	(<-got).problem(409, fault.SlugLockHeld)
}
