package queues

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

var (
	askScript    = lua.Must("queues/ask")
	acceptScript = lua.Must("queues/accept")
	answerScript = lua.Must("queues/answer")
	leaveScript  = lua.Must("queues/leave")
)

// Handover carries calls of FetchMatches between servers, with keys in the slots of their queues. It may be used by
// many goroutines.
type Handover struct{ store *Store }

var _ backend.Handover = (*Handover)(nil)

// Handover returns the hand-over of the store.
func (s *Store) Handover() *Handover { return &Handover{s} }

// Leases returns the leases of the queues' synchronizers.
func (h *Handover) Leases() lease.Store {
	return leases.NewLayout(h.store.conn, leases.Layout{
		Holder: func(queue string) string { return h.store.keys(queue).synchronizer() },
		Topic:  func(queue string) string { return h.store.keys(queue).calls() },
	})
}

// Ask runs ask.lua.
func (h *Handover) Ask(ctx context.Context, r backend.AskRequest) (backend.Asked, error) {
	k, accepted := h.store.keys(r.Queue), ""
	if r.Accepted {
		accepted = "1"
	}
	rep, err := h.store.conn.Run(ctx, askScript, []string{k.call(r.ID), k.synchronizer()}, []string{
		k.calls(), r.ID, string(r.Request), accepted, strconv.Itoa(r.After), strconv.Itoa(r.Bytes),
		redis.Milliseconds(backend.CallTTL),
	})
	if err != nil {
		return backend.Asked{}, fmt.Errorf("ask for matches: %w", err)
	}
	if rep.Status != redis.OK {
		return backend.Asked{}, askRefusals.Error(rep)
	}
	d := rep.Decoder()
	asked := backend.Asked{
		Now: d.Millis(), Accepted: d.Int64() == 1, More: d.Int64() == 1, Answers: bytesOf(d.Texts()),
	}
	return asked, d.End()
}

// Leave runs leave.lua.
func (h *Handover) Leave(ctx context.Context, r backend.LeaveRequest) ([][]byte, error) {
	k := h.store.keys(r.Queue)
	peers := k.calls()
	if len(r.Last) > 0 {
		peers = k.answers()
	}
	d, err := h.store.run(ctx, leaveScript, []string{k.call(r.ID)},
		[]string{peers, r.ID, string(r.Last), strconv.Itoa(r.After)})
	if err != nil {
		return nil, fmt.Errorf("end a call: %w", err)
	}
	return bytesOf(d.Texts()), d.End()
}

// Accept runs accept.lua.
func (h *Handover) Accept(ctx context.Context, r backend.AcceptRequest) error {
	rep, err := h.store.conn.Run(ctx, acceptScript, []string{h.store.keys(r.Queue).call(r.ID)},
		[]string{fenceText(r.Fence), r.Attempt})
	if err != nil {
		return fmt.Errorf("accept a call: %w", err)
	}
	return answerRefusals.Check(rep, redis.OK)
}

// Answer runs answer.lua.
func (h *Handover) Answer(ctx context.Context, r backend.AnswerRequest) error {
	k := h.store.keys(r.Queue)
	args := []string{k.answers(), r.ID, strconv.Itoa(r.First), strconv.Itoa(r.Limit)}
	for _, answer := range r.Answers {
		args = append(args, string(answer))
	}
	rep, err := h.store.conn.Run(ctx, answerScript, []string{k.call(r.ID)}, args)
	if err != nil {
		return fmt.Errorf("answer a call: %w", err)
	}
	return answerRefusals.Check(rep, redis.OK)
}

// ListenAnswers subscribes to the topic of callers, whose messages are IDs of calls.
func (h *Handover) ListenAnswers(queue string, answered func(id string)) (stop func()) {
	return h.store.conn.Listen(h.store.keys(queue).answers(), pubsub.Listener{
		Confirmed: func() {}, Message: answered, Repeats: true,
	})
}

// ListenCalls subscribes to the topic of synchronizers. Its messages are "+<id> <request>" and "-<id>", and those of
// the lease.
func (h *Handover) ListenCalls(queue string, l backend.CallListener) (stop func()) {
	return h.store.conn.Listen(h.store.keys(queue).calls(), pubsub.Listener{
		Confirmed: func() {}, Repeats: true,
		Message: func(text string) {
			if id, left := strings.CutPrefix(text, "-"); left {
				l.Left(id)
			} else if call, alive := strings.CutPrefix(text, "+"); alive {
				id, request, _ := strings.Cut(call, " ")
				l.Alive(strings.Clone(id), []byte(request))
			}
		},
	})
}

func bytesOf(texts []string) [][]byte {
	all := make([][]byte, len(texts))
	for i, text := range texts {
		all[i] = []byte(text)
	}
	return all
}
