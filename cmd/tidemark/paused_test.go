package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestPausedDirector stops the process that directs a queue, without its knowledge, for longer than its lease lasts.
func TestPausedDirector(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Options{}).URL()
	for name, test := range map[string]func(*testing.T, string, string){
		"with nothing in hand":              pausedIdle,
		"under load":                        pausedUnderLoad,
		"with static places":                pausedWithStaticPlaces,
		"until its claims are over":         pausedPastItsClaims,
		"and goes on before its claims end": pausedWithinItsClaims,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, url, redistest.Prefix(t))
		})
	}
}

// pausedIdle pauses the director while nothing happens. The other process takes over. The first one continues without
// the lease, until it gets it again.
func pausedIdle(t *testing.T, url, prefix string) {
	t.Helper()
	p := startPair(t, url, prefix, "500ms")
	p.await(t, p.other, p.create(t, p.director, 10))
	p.director.pause(t)
	p.await(t, p.other, p.create(t, p.other, 20))
	p.awaitDirector(t, p.other)
	p.director.resume(t)
	p.await(t, p.director, p.create(t, p.director, 20))
	p.judge(t)

	p.director, p.other = p.other, p.director // and back
	p.director.pause(t)
	p.await(t, p.other, p.create(t, p.other, 10))
	p.director.resume(t)
	p.judge(t)
}

// pausedUnderLoad pauses the director repeatedly, at any point of its work.
func pausedUnderLoad(t *testing.T, url, prefix string) {
	t.Helper()
	startPair(t, url, prefix, "500ms").pauseAgainAndAgain(t)
}

// pausedWithStaticPlaces does the same with an assigner that needs no claims.
func pausedWithStaticPlaces(t *testing.T, url, prefix string) {
	t.Helper()
	startStaticPair(t, "300ms", "--redis", url, "--key-prefix", prefix).pauseAgainAndAgain(t)
}

func (p *pair) pauseAgainAndAgain(t *testing.T) {
	t.Helper()
	for range 4 {
		p.create(t, p.other, 7)
		p.director.pause(t)
		p.create(t, p.other, 13)
		p.awaitDirector(t, p.other)
		p.create(t, p.other, 6)
		p.director.resume(t)
		p.director, p.other = p.other, p.director
	}
	p.await(t, p.director, p.made)
	p.judge(t)
}

// pausedPastItsClaims pauses the director while it waits for places, until the other process has matched the tickets
// that it had claimed. The places that it receives then are released.
func pausedPastItsClaims(t *testing.T, url, prefix string) {
	t.Helper()
	p := startPair(t, url, prefix, "500ms")
	p.allocator.hold()
	ids := p.create(t, p.other, 10)
	p.awaitAllocations(t, len(ids)/2)
	p.director.pause(t)
	p.allocator.pass()
	p.await(t, p.other, ids)
	p.director.resume(t)
	p.allocator.answer()
	for _, match := range p.allocator.waiting() {
		eventually(t, func() bool { return p.allocator.wasReleased(match) }, match)
	}
	p.await(t, p.director, p.create(t, p.director, 10))
	matches := p.judge(t)
	for _, match := range p.allocator.waiting() {
		require.NotContains(t, matches, match)
	}
}

// pausedWithinItsClaims pauses the director while it waits for places, and resumes it when the other process directs
// the queue but its claims are still valid. It assigns its matches, and the other one doesn't.
func pausedWithinItsClaims(t *testing.T, url, prefix string) {
	t.Helper()
	p := startPair(t, url, prefix, "1m")
	p.allocator.hold()
	ids := p.create(t, p.other, 10)
	p.awaitAllocations(t, len(ids)/2)
	p.director.pause(t)
	p.allocator.pass()
	p.await(t, p.other, p.create(t, p.other, 10))
	p.awaitDirector(t, p.other)
	p.director.resume(t)
	p.allocator.answer()
	p.await(t, p.director, ids)
	matches := p.judge(t)
	for _, match := range p.allocator.waiting() {
		require.Contains(t, matches, match)
	}
}
