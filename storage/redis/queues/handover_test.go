package queues

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/lease"
)

// line is a call that is handed over.
type line struct {
	*hall
	*Handover
	fence uint64
}

// lineOf returns a call whose queue has a synchronizer.
func lineOf(t *testing.T, h *hall) *line {
	t.Helper()
	l := &line{hall: h, Handover: h.store.Handover()}
	l.fence = l.grant(t, "holder")
	return l
}

// grant grants the lease of the synchronizer.
func (l *line) grant(t *testing.T, token string) uint64 {
	t.Helper()
	fence, err := l.Handover.Leases().Acquire(t.Context(), lease.Request{Name: l.Name, Token: token, TTL: time.Minute})
	require.NoError(t, err)
	return fence
}

func (l *line) free(t *testing.T, token string) {
	t.Helper()
	require.NoError(t, l.Handover.Leases().Release(t.Context(), l.Name, token))
}

func (l *line) ask(t *testing.T, r backend.AskRequest) (backend.Asked, error) {
	t.Helper()
	r.Queue, r.ID = l.Name, "call"
	return l.Ask(t.Context(), r)
}

// asked is ask without an error.
func (l *line) asked(t *testing.T, r backend.AskRequest) backend.Asked {
	t.Helper()
	asked, err := l.ask(t, r)
	require.NoError(t, err)
	return asked
}

func (l *line) accept(t *testing.T, attempt string) error {
	t.Helper()
	return l.Accept(t.Context(), backend.AcceptRequest{Queue: l.Name, ID: "call", Fence: l.fence, Attempt: attempt})
}

func (l *line) answer(t *testing.T, first, limit int, texts ...string) error {
	t.Helper()
	return l.Answer(t.Context(), backend.AnswerRequest{Queue: l.Name, ID: "call", First: first, Limit: limit,
		Answers: bytesOf(texts)})
}

// leave returns the unread answers.
func (l *line) leave(t *testing.T, last string, after int) []string {
	t.Helper()
	unread, err := l.Leave(t.Context(), backend.LeaveRequest{Queue: l.Name, ID: "call", Last: []byte(last), After: after})
	require.NoError(t, err)
	return textsOf(unread)
}

func textsOf(all [][]byte) []string {
	var texts []string
	for _, text := range all {
		texts = append(texts, string(text))
	}
	return texts
}

var first = backend.AskRequest{Request: []byte("request")}

func TestHandedOverCallIsAnswered(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		l := lineOf(t, h)
		asked := l.asked(t, first)
		require.Equal(t, backend.Asked{Now: asked.Now, Answers: [][]byte{}}, asked)
		ends := time.UnixMilli(int64(h.count(t, "PEXPIRETIME", h.k().call("call"))))
		require.WithinDuration(t, ends, asked.Now.Add(backend.CallTTL), time.Second)
		require.ErrorIs(t, l.Accept(t.Context(), backend.AcceptRequest{Queue: l.Name, ID: "none", Fence: l.fence,
			Attempt: "1"}), backend.ErrCallGone)
		for range 2 { // a repetition
			require.NoError(t, l.accept(t, "1"))
		}
		require.ErrorIs(t, l.accept(t, "2"), backend.ErrCallGone)
		for range 2 {
			require.NoError(t, l.answer(t, 1, 0, "a", "bb"))
		}
		require.NoError(t, l.answer(t, 3, 0, "ccc"))
		for range 2 {
			got := l.asked(t, backend.AskRequest{Bytes: 3})
			require.True(t, got.Accepted)
			require.True(t, got.More)
			require.Equal(t, []string{"a", "bb"}, textsOf(got.Answers))
		}
		got := l.asked(t, backend.AskRequest{Accepted: true})
		require.True(t, got.More)
		require.Empty(t, got.Answers, "a sign of life reads nothing")
		for range 2 {
			got = l.asked(t, backend.AskRequest{Accepted: true, After: 2, Bytes: 1})
			require.False(t, got.More)
			require.Equal(t, []string{"ccc"}, textsOf(got.Answers), "one at least")
		}
		require.Equal(t, 7, h.count(t, "HLEN", h.k().call("call")), "earlier ones are removed")
		ttl := h.count(t, "PTTL", h.k().call("call"))
		require.Positive(t, ttl)
		require.LessOrEqual(t, ttl, int(backend.CallTTL.Milliseconds()))
		require.Empty(t, l.leave(t, "", 3))
		require.Zero(t, h.count(t, "EXISTS", h.k().call("call")))
		require.ErrorIs(t, l.answer(t, 4, 0, "d"), backend.ErrCallGone)
		require.Empty(t, l.leave(t, "end", 0))
		_, err := l.ask(t, backend.AskRequest{Accepted: true})
		require.ErrorIs(t, err, backend.ErrHolderGone, "the call was lost")
	})
}

func TestUnreadAnswersAreLimitedAndReturned(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		l := lineOf(t, h)
		l.asked(t, first)
		require.NoError(t, l.accept(t, "1"))
		require.NoError(t, l.answer(t, 1, 4, "large one"), "alone it fits")
		require.ErrorIs(t, l.answer(t, 2, 9, "b"), backend.ErrCallFull)
		l.asked(t, backend.AskRequest{Bytes: 100})
		require.ErrorIs(t, l.answer(t, 2, 9, "b"), backend.ErrCallFull, "it may be read again")
		l.asked(t, backend.AskRequest{After: 1})
		require.NoError(t, l.answer(t, 2, 2, "b", "c"))
		l.asked(t, backend.AskRequest{After: 1, Bytes: 1})
		for range 2 { // a repetition
			require.Equal(t, []string{"c"}, l.leave(t, "end", 0))
		}
		require.ErrorIs(t, l.accept(t, "1"), backend.ErrCallGone, "it has ended")
		require.True(t, l.asked(t, backend.AskRequest{After: 1}).More)
		for range 2 {
			got := l.asked(t, backend.AskRequest{After: 1, Bytes: 100})
			require.Equal(t, []string{"b", "end"}, textsOf(got.Answers))
			require.False(t, got.More)
		}
		require.Equal(t, []string{"b"}, l.leave(t, "", 1))
		require.Empty(t, l.leave(t, "", 3), "the holder has them")
		require.Zero(t, h.count(t, "EXISTS", h.k().call("call")))
	})
}

func TestCallerThatLeavesGetsUnreadAnswers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		l := lineOf(t, h)
		l.asked(t, first)
		require.NoError(t, l.accept(t, "1"))
		require.NoError(t, l.answer(t, 1, 0, "a", "b", "c", "d"))
		l.asked(t, backend.AskRequest{Bytes: 3})
		for range 2 {
			require.Equal(t, []string{"b", "c", "d"}, l.leave(t, "", 1))
		}
		require.ErrorIs(t, l.answer(t, 5, 0, "e"), backend.ErrCallGone, "the caller has left")
		require.ErrorIs(t, l.accept(t, "1"), backend.ErrCallGone)
		require.Empty(t, l.leave(t, "end", 0))
	})
}

func TestCallerNoticesThatTheLeaseChanged(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		l := lineOf(t, h)
		l.free(t, "holder")
		_, err := l.ask(t, first)
		require.ErrorIs(t, err, backend.ErrNoHolder)
		require.Zero(t, h.count(t, "EXISTS", h.k().call("call")))
		l.fence = l.grant(t, "next")
		l.asked(t, first)
		l.free(t, "next")
		_, err = l.ask(t, first)
		require.ErrorIs(t, err, backend.ErrNoHolder, "it wasn't accepted")
		l.fence = l.grant(t, "third")
		l.asked(t, first)
		require.NoError(t, l.accept(t, "1"))
		require.NoError(t, l.answer(t, 1, 0, "a"))
		l.free(t, "third")
		l.grant(t, "fourth")
		require.True(t, l.asked(t, backend.AskRequest{Accepted: true}).More, "there is an answer")
		require.Equal(t, []string{"a"}, textsOf(l.asked(t, backend.AskRequest{Accepted: true, Bytes: 1}).Answers))
		_, err = l.ask(t, backend.AskRequest{Accepted: true, After: 1, Bytes: 1})
		require.ErrorIs(t, err, backend.ErrHolderGone)
	})
}

func TestBothSidesOfAHandedOverCallAreNotified(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		l := lineOf(t, h)
		calls, answered := make(chan string, 1000), make(chan string, 1000)
		defer l.ListenCalls(l.Name, backend.CallListener{
			Alive: func(id string, request []byte) { calls <- "alive " + id + " " + string(request) },
			Left:  func(id string) { calls <- "left " + id },
		})()
		defer l.ListenAnswers(l.Name, func(id string) { answered <- id })()
		// until the subscriptions are established
		request := backend.AskRequest{Request: bytes.Repeat([]byte("request "), 3)}
		until(t, calls, "alive call request request request ", func() { l.asked(t, request) })
		require.NoError(t, l.accept(t, "1"))
		n := 0
		until(t, answered, "call", func() {
			n++
			require.NoError(t, l.answer(t, n, 0, "a"))
		})
		until(t, calls, "alive call ", func() { l.asked(t, request) })
		l.free(t, "holder") // on the same topic
		until(t, calls, "left call", func() {
			l.leave(t, "", 0)
			l.grant(t, "again")
			l.asked(t, request)
		})
	})
}

// until calls do until a message arrives.
func until(t *testing.T, messages <-chan string, want string, do func()) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		do()
		again := time.After(100 * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case got := <-messages:
				if got == want {
					return
				}
			case <-again:
				waiting = false
			case <-limit:
				require.FailNow(t, "no message", want)
			}
		}
	}
}
