package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// arena is a queue that is directed by its user.
const arena = `{"director": "user", "maxTicketBytes": 2000, "maxBackfills": 3}`

// TestBackfills takes a backfill through its life, over HTTP and gRPC.
func TestBackfills(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("arena", arena))
	got := h.Do("POST", "/v1/backfills", `{"queue":"arena","searchFields":{"tags":["eu"]},"extensions":{"map":"harbor"},
		"persistentField":{"lobby":7}}`).With(http.StatusCreated)
	made := servertest.Decode[wire.Backfill](got)
	at := got.Header.Get("Location")
	require.Equal(t, "/v1/backfills/"+made.ID, at)
	require.Equal(t, int64(1), made.Generation)
	require.Equal(t, "arena", made.Queue)
	require.Equal(t, made, servertest.Decode[wire.Backfill](h.Do("GET", at, "").With(200)))

	f := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
	shown, err := f.GetBackfill(t.Context(), &openmatch.GetBackfillRequest{BackfillId: made.ID})
	require.NoError(t, err)
	require.Equal(t, []string{"eu"}, shown.GetSearchFields().GetTags())
	require.Contains(t, shown.GetExtensions(), "map")

	updated := servertest.Decode[wire.Backfill](h.Do("PUT", at, `{"searchFields":{"doubleArgs":{"free":1}}}`).With(200))
	require.Equal(t, int64(2), updated.Generation)
	require.Empty(t, updated.Extensions)
	require.JSONEq(t, "7", string(updated.PersistentField["lobby"]), "it stays")
	updated = servertest.Decode[wire.Backfill](h.Do("PUT", at, `{"persistentField":{}}`).With(200))
	require.Empty(t, updated.PersistentField)

	done := servertest.Decode[wire.AcknowledgedBackfill](h.Do("POST", at+"/acknowledge", `{"connection":"h:1"}`).With(200))
	require.Equal(t, int64(3), done.Backfill.Generation)
	require.True(t, done.Backfill.ExpireTime.After(updated.ExpireTime))
	require.Empty(t, done.Tickets)
	for range 2 {
		h.Do("DELETE", at, "").With(http.StatusNoContent)
	}
	h.Do("GET", at, "").Problem(404, fault.SlugNoBackfill)
	h.Do("PUT", at, "{}").Problem(404, fault.SlugNoBackfill)
	h.Do("POST", at+"/acknowledge", `{"connection":"h:1"}`).Problem(404, fault.SlugNoBackfill)
}

// TestRefusedBackfills checks the errors and limits of backfills.
func TestRefusedBackfills(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("arena", arena))
	h.Do("POST", "/v1/backfills", `{"queue":"nope"}`).Problem(404, fault.SlugNoQueue)
	h.Do("POST", "/v1/backfills", `{"queue":"duel"}`).Problem(409, fault.SlugQueueDirector)
	h.Do("POST", "/v1/backfills", `{"queue":"arena","tags":[]}`).Problem(400, fault.SlugInvalidBody)
	large := `{"queue":"arena","extensions":{"x":"` + strings.Repeat("x", 3000) + `"}}`
	h.Do("POST", "/v1/backfills", large).Problem(413, fault.SlugBackfillTooLarge)
	for range 3 {
		h.Do("POST", "/v1/backfills", `{"queue":"arena"}`).With(http.StatusCreated)
	}
	h.Do("POST", "/v1/backfills", `{"queue":"arena"}`).Problem(503, fault.SlugManyBackfills)
	for _, id := range []string{"x", "x.arena", matchmaking.NewBackfillID("nope"), matchmaking.NewBackfillID("duel")} {
		at := "/v1/backfills/" + id
		h.Do("GET", at, "").Problem(404, fault.SlugNoBackfill)
		h.Do("DELETE", at, "").With(http.StatusNoContent)
		h.Do("POST", at+"/acknowledge", `{}`).Problem(400, fault.SlugInvalidBody)
	}
}
