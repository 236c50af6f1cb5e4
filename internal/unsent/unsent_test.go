package unsent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

const miB = 1 << 20

func named(name string) func() string { return func() string { return name } }

// isKind checks that an error has a kind and says when to try again.
func isKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind)
	require.Positive(t, e.RetryAfter)
}

// TestShares: a client has a quarter of the budget, or one answer of any size, and others aren't affected.
func TestShares(t *testing.T) {
	t.Parallel()
	b := unsent.New(16 * miB)
	large, more, other := b.Part(named("ann")), b.Part(named("ann")), b.Part(named("bob"))
	require.NoError(t, b.Check(named("ann")))
	require.NoError(t, large.Grow(8*miB))
	isKind(t, more.Grow(miB), fault.Limited)
	isKind(t, b.Check(named("ann")), fault.Limited)
	require.NoError(t, b.Check(named("bob")))
	require.NoError(t, other.Grow(4*miB))
	isKind(t, b.Check(named("bob")), fault.Limited)
	require.EqualValues(t, 12*miB, b.Bytes())
	large.Shrink(2 * miB)
	require.NoError(t, b.Check(named("ann")), "half of the share is left")
	require.NoError(t, more.Grow(2*miB))
	isKind(t, more.Grow(2*miB+1), fault.Limited)
	require.EqualValues(t, 4, b.Refused())
	for _, p := range []*unsent.Part{&large, &more, &other} {
		p.Close()
		p.Close()
		require.NoError(t, p.Grow(miB), "nothing is counted for an answer that has ended")
	}
	require.Zero(t, b.Bytes())
	require.NoError(t, b.Check(named("ann")))
}

// TestFull: all clients together have the budget. Small answers need no memory.
func TestFull(t *testing.T) {
	t.Parallel()
	b := unsent.New(4 * miB)
	var parts [5]unsent.Part
	for i := range parts[:4] {
		parts[i] = b.Part(named(string(rune('a' + i))))
		require.NoError(t, parts[i].Grow(miB))
	}
	last := &parts[4]
	*last = b.Part(named("last"))
	isKind(t, last.Grow(unsent.Small+1), fault.Unavailable)
	require.NoError(t, last.Grow(unsent.Small))
	require.Zero(t, last.Taken())
	require.NoError(t, b.Check(named("last")), "its answers may be small")
	for i := range parts[:4] {
		parts[i].Close()
	}
	require.NoError(t, last.Grow(1<<40), "more than the budget counts as the budget")
	require.EqualValues(t, 4*miB, b.Bytes())
}

// TestGranted: answers that are never refused count like others.
func TestGranted(t *testing.T) {
	t.Parallel()
	b := unsent.New(4 * miB)
	var parts [6]unsent.Part
	for i := range parts {
		parts[i] = b.Granted(named("ann"))
		require.NoError(t, parts[i].Grow(miB))
	}
	require.EqualValues(t, 6*miB, b.Bytes())
	isKind(t, b.Check(named("ann")), fault.Limited)
	other := b.Part(named("bob"))
	isKind(t, other.Grow(miB), fault.Unavailable)
	for i := range parts {
		parts[i].Close()
	}
	require.Zero(t, b.Bytes())
}

// TestReserve leaves half of the share to answers whose size is known, so that none is refused before it is.
func TestReserve(t *testing.T) {
	t.Parallel()
	b := unsent.New(64 * miB)
	var parts [4]unsent.Part
	for i := range parts {
		parts[i] = b.Part(named("ann"))
		if err := parts[i].Reserve(4 * miB); i < 2 {
			require.NoError(t, err)
		} else {
			isKind(t, err, fault.Limited)
		}
	}
	require.NoError(t, b.Check(named("ann")))
	require.NoError(t, parts[3].Grow(8*miB))
	require.Error(t, b.Check(named("ann")))
	require.EqualValues(t, 1, b.Refused())
	for i := range parts {
		parts[i].Close()
	}
	alone := b.Part(named("ann"))
	require.NoError(t, alone.Reserve(32*miB), "one answer may have any size")
	alone.Shrink(miB)
	require.NoError(t, b.Check(named("ann")))
	alone.Close()
	require.Zero(t, b.Bytes())
}

// TestWithoutBudget: an answer that isn't counted has no limit.
func TestWithoutBudget(t *testing.T) {
	t.Parallel()
	p := unsent.From(t.Context())
	require.NoError(t, p.Grow(1<<40))
	require.NoError(t, p.Reserve(1<<40))
	p.Shrink(0)
	require.Zero(t, p.Taken())
	p.Close()
	counted := unsent.New(miB).Part(named("ann"))
	require.Same(t, &counted, unsent.From(unsent.With(t.Context(), &counted)))
}
