package channel

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// ready is a source from which FetchMany fetches now.
type ready struct {
	source int
	unread uint64 // messages after its mark, alive or not
	max    int    // messages that it may return
}

// share sets the number of messages that each source may return: at most most in total, divided evenly, except that no
// source gets more than it has. If there are more sources than messages, it drops sources at random.
func share(some []ready, limit int) []ready {
	shuffle(some)
	some = some[:min(len(some), limit)]
	slices.SortStableFunc(some, func(a, b ready) int { return cmp.Compare(a.unread, b.unread) })
	for i := range some {
		even := limit / (len(some) - i)
		some[i].max = int(min(some[i].unread, uint64(even)))
		limit -= some[i].max
	}
	shuffle(some) // there may not be enough bytes for all
	return some
}

func shuffle(some []ready) {
	rand.Shuffle(len(some), func(i, j int) { //nolint:gosec // for fairness only
		some[i], some[j] = some[j], some[i]
	})
}

// fetch fetches from the sources that have something, within the limits of the answer, and then from those that are due
// for renewal, which rarely have anything.
func (m *many) fetch(ctx context.Context, some, due []ready) {
	room := m.service.configured.Load().limits.FetchBytes
	for rest := share(some, m.max); len(rest) > 0; {
		n := m.fitting(rest, room)
		if n == 0 && len(m.found) > 0 {
			break
		}
		used, err := m.round(ctx, rest[:max(1, n)], room)
		room, rest = room-used, rest[max(1, n):]
		if err != nil {
			m.failAll(rest, err)
			m.failAll(due, err)
			return
		}
	}
	for i := range due {
		due[i].max = 1
	}
	for len(due) > 0 {
		n := max(1, m.fitting(due, m.service.configured.Load().limits.FetchBytes))
		used, err := m.round(ctx, due[:n], room)
		room, due = room-used, due[n:]
		if err != nil {
			m.failAll(due, err)
			return
		}
	}
}

// failAll makes sources fail that weren't read because the store didn't serve those before them.
func (m *many) failAll(some []ready, err error) {
	for _, r := range some {
		m.fail(r.source, fmt.Errorf("fetch %s/%s: %w", m.requests[r.source].Channel, m.requests[r.source].Subscriber,
			err))
	}
}

// fitting returns how many sources can be read together with room for the largest message of each.
func (m *many) fitting(some []ready, room int) int {
	for n, r := range some {
		if room -= m.requests[r.source].Policy.MaxMessageBytes; room < 0 {
			return n
		}
	}
	return len(some)
}

// round fetches from sources together, and returns how many bytes it has found. It drops batches that don't fit the
// answer: they aren't acknowledged, and a later fetch returns them. The error is the store's if it served no source.
func (m *many) round(ctx context.Context, some []ready, room int) (used int, err error) {
	requests := make([]FetchRequest, len(some))
	spare := room
	for _, r := range some {
		spare -= m.requests[r.source].Policy.MaxMessageBytes
	}
	for n, r := range some {
		requests[n] = m.requests[r.source].FetchRequest
		requests[n].Max, requests[n].MaxBytes = r.max, requests[n].Policy.MaxMessageBytes+max(0, spare)/len(some)
	}
	served := false
	for n, result := range m.service.store.FetchEach(ctx, requests) {
		i := some[n].source
		size := 0
		served = served || result.Err == nil || !unserved(result.Err)
		for _, message := range result.Messages {
			size += len(message.Content)
		}
		switch {
		case result.Err != nil:
			err = result.Err
			m.fail(i, fmt.Errorf("fetch %s/%s: %w", requests[n].Channel, requests[n].Subscriber, result.Err))
		case result.empty():
			m.idle(i, Position{Epoch: result.Epoch, Clock: result.Clock, Closed: result.ended()})
		case len(m.found) == 0 || used+size <= room && len(result.Messages) <= m.max:
			m.found = append(m.found, foundBatch{source: i, Batch: result.Batch})
			m.max, used = m.max-len(result.Messages), used+size
		}
	}
	if served {
		err = nil
	}
	return used, err
}
