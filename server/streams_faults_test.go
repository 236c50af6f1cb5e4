package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// publishSome publishes messages with these numbers as IDs, each until it is accepted.
func publishSome(h *servertest.Harness, from, to int) {
	h.TB.Helper()
	for n := from; n <= to; n++ {
		require.Eventually(h.TB, func() bool {
			got, err := h.Try(h.TB.Context(), http.MethodPut, "/v1/channels/c/messages/"+strconv.Itoa(n),
				strings.NewReader("1"))
			return err == nil && got.Status/100 == 2
		}, time.Minute, 10*time.Millisecond)
	}
}

// expect reads messages with these numbers as IDs.
func (s *eventSource) expect(from, to int) {
	s.t.Helper()
	for n := from; n <= to; n++ {
		require.Equal(s.t, strconv.Itoa(n), s.message().ID)
	}
}

func (s *eventSource) resume() servertest.Header {
	return servertest.Header{Name: "Last-Event-ID", Value: s.lastID}
}

// Streams continue at another server when theirs drains, and outlive the death of Redis. Nothing is lost or repeated.
func TestStreamsSurvive(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	first := servertest.Start(t, func(s *servertest.Setup) { s.Redis = node })
	second := servertest.Start(t, func(s *servertest.Setup) {
		s.Redis, s.Prefix, s.Signing = node, first.Prefix, first.Receipts
	})
	first.Subscribe("c", "s")
	const one, many = streamOfS + "?ack=resume", "/v1/stream?sub=c/s&tail=d/latest"
	paths := []string{one, tailOfC, many}
	open := make([]*eventSource, len(paths))
	for i, path := range paths {
		open[i] = openEvents(t, first, path)
		open[i].ping()
	}
	publishSome(first, 1, 5)
	for _, s := range open {
		s.expect(1, 5)
	}
	first.Stop()
	for _, s := range open {
		s.ends("drain")
	}
	publishSome(second, 6, 8)
	for i, path := range paths[:2] {
		open[i] = openEvents(t, second, path, open[i].resume())
		open[i].expect(6, 8)
	}
	open[2] = openEvents(t, second, paths[2], open[2].resume())
	open[2].expect(6, 8) // the other stream has acknowledged the first five

	node.Kill(t)
	node.Restart(t)
	publishSome(second, 9, 12)
	for _, s := range open {
		s.expect(9, 12)
	}
}

// A stream ends when its channel does. A tail waits for the next life.
func TestStreamOfAChannelThatEnds(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	s, tail := openEvents(t, h, streamOfS), openEvents(t, h, tailOfC)
	s.ping()
	tail.ping()
	h.Redis.Do(t, "DEL", h.Prefix+"c.{c}.clock")
	s.ends("removed")
	h.Do("GET", streamOfS, "").Problem(http.StatusNotFound, fault.SlugNoSubscriber)
	h.Publish("c", "a", "1")
	require.Equal(t, "lost", reasonOfGap(tail.next()))
	require.Equal(t, "a", tail.message().ID)
}

// reasonOfGap returns the reason of a gap.
func reasonOfGap(e serverEvent) string {
	_, rest, _ := strings.Cut(e.data, `"reason":"`)
	reason, _, _ := strings.Cut(rest, `"`)
	return reason
}

// The player of a ticket streams its assignment. Nobody else can.
func TestStreamOfAPlayer(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	mine, hers := h.CreatedBy("back", `{"queue":"duel"}`), h.CreatedBy("back", `{"queue":"waits"}`)
	path := "/v1/channels/" + matchmaking.ChannelOf(mine.ID) + "/subscribers/player/stream"
	s := openEvents(t, h, path, servertest.Bearer(mine.Token))
	s.ping()
	h.CreatedBy("back", `{"queue":"duel"}`)
	require.Contains(t, s.next().data, mine.ID)
	tail := "/v1/channels/" + matchmaking.ChannelOf(mine.ID) + "/stream"
	for _, other := range []string{hers.Token, "ann", "viewer"} {
		h.Do("GET", path, "", servertest.Bearer(other)).Problem(http.StatusForbidden, fault.SlugNotGranted)
		h.Do("GET", tail, "", servertest.Bearer(other)).Problem(http.StatusForbidden, fault.SlugNotGranted)
	}
	h.Do("GET", tail, "", servertest.Bearer(mine.Token)).Problem(http.StatusForbidden, fault.SlugNotGranted)
}

// If a ticket's ID passes to another owner, the stream of the first one says so once, and sends nothing of it.
func TestStreamOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	h := startForPlayers(t)
	h.CreatedBy("ann", `{"queue":"waits","id":"mine"}`)
	h.CreatedBy("ann", `{"queue":"duel","id":"squat"}`)
	h.CreatedBy("back", `{"queue":"duel"}`)
	s := openEvents(t, h, "/v1/stream?sub=ticket.squat/player&sub=ticket.mine/player", servertest.Bearer("ann"))
	require.Equal(t, "ticket.squat", s.message().Channel)
	require.NoError(t, h.Matches.Delete(t.Context(), "squat"))
	h.CreatedBy("ben", `{"queue":"duel","id":"squat"}`)
	for _, name := range []string{"ticket.squat", "ticket.squat", "ticket.mine"} {
		_, err := h.Service.Publish(t.Context(), channel.PublishRequest{Channel: name,
			Drafts: []channel.Draft{{Content: []byte(`"secret"`)}}})
		require.NoError(t, err)
	}
	var names []string
	for range 3 {
		e := s.next()
		names = append(names, e.name)
		if e.name == "message" {
			require.Contains(t, e.data, `"channel":"ticket.mine"`)
		}
	}
	require.ElementsMatch(t, []string{"gap", "problem", "message"}, names)
}
