package queues

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(r *removals, cancel func())
		rode bool
		took time.Duration
	}{
		"a call comes and succeeds": {func(r *removals, _ func()) {
			all := r.Take("q")
			require.Equal(t, []string{"1-1"}, all[0].entries)
			require.Empty(t, r.Take("q"), "they ride once")
			removed(all)
		}, true, time.Millisecond},
		"a call of another queue": {func(r *removals, _ func()) { require.Empty(t, r.Take("other")) }, false,
			patience},
		"a call comes and fails":    {func(r *removals, _ func()) { require.Len(t, r.Take("q"), 1) }, false, patience},
		"no call comes":             {func(*removals, func()) {}, false, patience},
		"the caller doesn't wait":   {func(_ *removals, cancel func()) { cancel() }, false, time.Millisecond},
		"there is another that can": {func(r *removals, _ func()) { r.Add("q", nil) }, false, patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, began := &removals{}, time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Millisecond, func() { test.call(r, cancel) })
				require.Equal(t, test.rode, r.Await(ctx, "q", []string{"1-1"}))
				require.Equal(t, test.took, time.Since(began))
				for _, left := range r.Take("q") {
					require.Empty(t, left.entries, "nothing is left behind")
				}
				began = time.Now()
				require.False(t, r.Await(ctx, "q", make([]string, most+1)))
				require.Zero(t, time.Since(began), "many entries don't wait")
			})
		})
	}
}
