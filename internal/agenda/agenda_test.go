package agenda_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/agenda"
)

type item struct {
	agenda.Slot
	due time.Time // expected; zero: on no agenda
}

// TestAgenda plans, moves and removes items at random: the first one is always one that is due first.
func TestAgenda(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var a agenda.Agenda[*item]
		items := make([]*item, 8)
		for i := range items {
			items[i] = new(item)
		}
		start := time.Unix(1000, 0)
		drawItem := rapid.SampledFrom(items)
		drawTime := rapid.Custom(func(t *rapid.T) time.Time {
			return start.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
		})
		planned := func() []*item {
			return slices.DeleteFunc(slices.Clone(items), func(i *item) bool { return i.due.IsZero() })
		}
		earliest := func() (first time.Time) {
			for _, i := range planned() {
				if first.IsZero() || i.due.Before(first) {
					first = i.due
				}
			}
			return first
		}
		t.Repeat(map[string]func(*rapid.T){
			"plan": func(t *rapid.T) {
				i, due := drawItem.Draw(t, "item"), drawTime.Draw(t, "due")
				i.due = due
				first := a.Plan(i, due)
				current, _ := a.First()
				require.Equal(t, current == i, first)
			},
			"remove": func(t *rapid.T) {
				i := drawItem.Draw(t, "item")
				i.due = time.Time{}
				a.Remove(i)
			},
			"plan all": func(t *rapid.T) {
				due := drawTime.Draw(t, "due")
				a.PlanAll(due)
				for _, i := range planned() {
					i.due = due
				}
			},
			"take": func(t *rapid.T) {
				now, limit, last := drawTime.Draw(t, "now"), rapid.IntRange(0, 4).Draw(t, "limit"), start
				taken := a.Take(now, limit)
				for _, i := range taken {
					require.False(t, i.due.Before(last) || i.due.After(now))
					last, i.due = i.due, time.Time{}
				}
				first := earliest()
				require.True(t, len(taken) == limit || first.IsZero() || first.After(now))
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(planned()), a.Len())
				for _, i := range items {
					require.Equal(t, !i.due.IsZero(), i.Planned())
				}
				first, ok := a.First()
				require.Equal(t, a.Len() > 0, ok)
				if ok {
					require.Equal(t, earliest(), first.Due())
				}
			},
		})
	})
}
