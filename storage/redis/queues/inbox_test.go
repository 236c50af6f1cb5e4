package queues

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", maxInboxBytes/2)
	for name, test := range map[string]struct {
		added, texts []string
		incomplete   bool
	}{
		"nothing":                      {nil, nil, true},
		"some":                         {[]string{"a", "b"}, []string{"a", "b"}, false},
		"what there is room for":       {[]string{half, half}, []string{half, half}, false},
		"more than there is room for":  {[]string{half, "a", half}, nil, true},
		"one without a text":           {[]string{"a", ""}, nil, true},
		"some after one without texts": {[]string{"", "a"}, nil, true},
	} {
		b := newInbox()
		b.Confirmed()
		b.TakeAll()
		for range 2 { // taken notifications leave nothing behind
			for _, text := range test.added {
				b.Add(text)
			}
			limit := time.Hour
			if len(test.added) == 0 {
				limit = time.Millisecond
			}
			texts, incomplete := b.Await(t.Context(), limit)
			require.Equal(t, test.texts, texts, name)
			require.Equal(t, test.incomplete, incomplete, name)
		}
	}
}

// A notification before the confirmation of the subscription may come from a Redis that has lost earlier changes: the
// stream is read.
func TestInboxWhileNotConfirmed(t *testing.T) {
	t.Parallel()
	b := newInbox()
	taken := func(want []string, wantIncomplete bool) {
		t.Helper()
		texts, incomplete := b.TakeAll()
		require.Equal(t, want, texts)
		require.Equal(t, wantIncomplete, incomplete)
	}
	b.Add("too early")
	taken(nil, true)
	b.Confirmed()
	taken(nil, true)
	b.Add("a")
	b.Interrupted(nil)
	taken([]string{"a"}, false)
	b.Add("too early")
	taken(nil, true)
	b.Confirmed()
	b.Add("b")
	taken(nil, true)
	b.Add("c")
	taken([]string{"c"}, false)
}
