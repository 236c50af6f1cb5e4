package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// TestRefusedAnswers: an answer for which there is no memory is refused as too many that were not read. Other errors are
// the handler's.
func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
	s := NewServer(ServerOptions{Limits: Limits{Answers: 1 << 20}})
	defer func() { require.NoError(t, s.Drain(t.Context())) }()
	large := func() (any, error) { return &shardpb.GetResponse{Payload: make([]byte, 2*unsent.Small)}, nil }
	_, err := s.countAnswer(t.Context(), func() (any, error) { return nil, errLate })
	require.ErrorIs(t, err, errLate)
	others := s.answers.Part(func() string { return "another" })
	require.NoError(t, others.Grow(1<<20))
	_, err = s.countAnswer(t.Context(), large)
	require.ErrorIs(t, err, errUnread)
}
