package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// TestUncountedAnswers: only an answer for which there is no memory is refused as too many that were not read.
func TestUncountedAnswers(t *testing.T) {
	t.Parallel()
	s := NewServer(ServerOptions{Limits: Limits{Answers: 1 << 20}})
	defer func() { require.NoError(t, s.Drain(t.Context())) }()
	large := func() (any, error) { return &shardpb.GetResponse{Payload: make([]byte, 2*unsent.Small)}, nil }
	_, err := s.countAnswer(t.Context(), large) // which isn't the context of a call
	require.ErrorContains(t, err, "answer uncompressed")
	others := s.answers.Part(func() string { return "another" })
	require.NoError(t, others.Grow(1<<20))
	_, err = s.countAnswer(t.Context(), large)
	require.ErrorIs(t, err, errUnread)
}
