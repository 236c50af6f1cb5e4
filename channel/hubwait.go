package channel

import (
	"context"
	"time"
)

// target is a subscriber that a fetch waits for.
type target struct {
	Channel    string
	Subscriber string
}

// waitResult is a target for which something happened.
type waitResult struct {
	Target  int      // its index
	Message *Message // the next one after the target's position; nil if the channel has to be read
}

// waitRequest is a fetch that waits.
type waitRequest struct {
	Targets []target
	Wait    time.Duration // more than 0
	// Read reads some of the targets' channels, and sets their positions. It reports whether the fetch has ended:
	// because it has found something.
	Read func(ctx context.Context, which []int) (ended bool, err error)
	At   []Position // one for each target
	// ListenFirst makes the fetch listen before it reads. Otherwise, if not all channels are listened to yet, it reads
	// once before it listens, so that what is there is returned at once and without a subscription.
	ListenFirst bool
}

// Wait reads, and waits until a read has found something, for p.Wait at most. It returns the messages that arrived in
// the meantime, each the next one of its target, or none if p.Read has ended the fetch, or if nothing was found until
// the time was over, ctx ended or the hub drained. The error is that of p.Read.
func (h *hub) Wait(ctx context.Context, p *waitRequest) ([]waitResult, error) {
	end := time.Now().Add(p.Wait)
	timer := time.NewTimer(p.Wait)
	defer timer.Stop()
	which := make([]int, len(p.Targets))
	for i := range which {
		which[i] = i
	}
	if !p.ListenFirst && !h.listening(p.Targets) {
		if ended, err := p.Read(ctx, which); ended || err != nil || h.drained.Load() {
			return nil, err
		}
	}
	w := h.join(p.Targets)
	defer w.leave()
	w.awaitConfirmation(ctx, timer, end)
	for {
		w.prepare(which)
		if ended, err := p.Read(ctx, which); ended || err != nil {
			return nil, err
		}
		woken := w.sleep(ctx, timer.C, p.At)
		if arrived := messages(woken); len(woken) == 0 || len(arrived) > 0 {
			return arrived, nil
		}
		which = which[:0]
		for _, one := range woken {
			which = append(which, one.Target)
		}
	}
}
