package records_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// sized is a store whose values have a size. It records how many are read at a time.
type sized struct {
	records.CacheStore
	bytes int
	reads []int
}

func (s *sized) Read(_ context.Context, _ *records.Kind, ids []string) ([]records.Entry, error) {
	s.reads = append(s.reads, len(ids))
	entries := make([]records.Entry, len(ids))
	for i := range entries {
		entries[i] = records.Entry{Found: true, Bytes: bytes.Repeat([]byte("1"), s.bytes)}
	}
	return entries, nil
}

// TestGetManyReadsWhatFits: few values are read that don't fit into the answer.
func TestGetManyReadsWhatFits(t *testing.T) {
	t.Parallel()
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	for bytes, want := range map[int]struct {
		reads  []int
		answer int
	}{
		0:        {[]int{4, 64, 64, 64, 4}, 200},
		100:      {[]int{4, 64, 64, 64, 4}, 200},
		100_000:  {[]int{4, 37, 1}, 41},
		1 << 20:  {[]int{4, 1}, 4},
		10 << 20: {[]int{4}, 1},
	} {
		s := &sized{bytes: bytes}
		got, err := records.NewValues(s, nil).GetMany(t.Context(), site.Community().Table.Caches()[0], ids)
		require.NoError(t, err)
		require.Len(t, got, want.answer, bytes)
		require.Equal(t, want.reads, s.reads, bytes)
	}
}

// TestGetManyWithoutMemory: values are refused after the first few, without the memory of answers.
func TestGetManyWithoutMemory(t *testing.T) {
	t.Parallel()
	budget, s := unsent.New(8<<20), &sized{bytes: 500 << 10}
	client := func() string { return "ann" }
	other, answer := budget.Part(client), budget.Part(client)
	require.NoError(t, other.Grow(1<<20))
	_, err := records.NewValues(s, nil).GetMany(unsent.With(t.Context(), &answer), site.Community().Table.Caches()[0],
		[]string{"1", "2", "3", "4", "5"})
	var refused *fault.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, fault.Limited, refused.Kind)
	require.Equal(t, []int{4}, s.reads)
}
