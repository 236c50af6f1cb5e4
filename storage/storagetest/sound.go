package storagetest

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func idsOf(b channel.Batch) []string {
	ids := make([]string, len(b.Messages))
	for i, m := range b.Messages {
		ids[i] = m.ID
	}
	return ids
}

// sound checks what holds for every batch, whatever the channel has: its messages are in order, each clock from
// the mark to Through is either delivered or told of as expired, and the bounds of the request are kept.
func sound(b channel.Batch, r channel.FetchRequest) error {
	if b.Through != b.Mark && !clock.Between(b.Mark, b.Through, b.Clock) {
		return fmt.Errorf("the receipt of a fetch is outside what stands after the mark: mark %s, through %s, clock %s",
			b.Mark, b.Through, b.Clock)
	}
	at, bytes := b.Mark, 0
	for _, m := range b.Messages {
		if !clock.Between(at, m.Clock, b.Through) {
			return fmt.Errorf("message %s at %s is out of order, or not covered by the receipt: after %s, through %s",
				m.ID, m.Clock, at, b.Through)
		}
		if m.PublishedAt.IsZero() {
			return fmt.Errorf("message %s doesn't tell when it was published", m.ID)
		}
		at, bytes = m.Clock, bytes+len(m.Content)
	}
	covered := clock.Distance(b.Mark, b.Through)
	if told := uint64(len(b.Messages)) + b.Expired; told != covered {
		return fmt.Errorf("the receipt covers %d clocks, but %d were delivered and %d told of as expired",
			covered, len(b.Messages), b.Expired)
	}
	if len(b.Messages) > r.Max {
		return fmt.Errorf("%d messages came where at most %d were asked for", len(b.Messages), r.Max)
	}
	if len(b.Messages) > 1 && bytes > r.MaxBytes {
		return fmt.Errorf("%d bytes came where at most %d were asked for", bytes, r.MaxBytes)
	}
	if b.Through == b.Mark && b.Mark != b.Clock {
		return fmt.Errorf("a fetch came back with nothing though something stands after the mark: mark %s, clock %s",
			b.Mark, b.Clock)
	}
	return nil
}
