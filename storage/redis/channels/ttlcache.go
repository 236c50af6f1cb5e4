// Package lives remembers how long marks live at least, so that polls needn't ask Redis each time.

package channels

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// markLivesSize is how many marks are remembered: those that were polled last, in about 15 MB at most.
const markLivesSize = 1 << 16

// markLives is what is known about the lives of marks. Many goroutines may use it.
type markLives struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, life]
}

type life struct {
	read  time.Time // when it was read
	until time.Time
}

// newMarkLives returns a Lives that knows nothing.
func newMarkLives() *markLives {
	known, err := simplelru.NewLRU[string, life](markLivesSize, nil)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &markLives{known: known}
}

// Lasts reports whether a mark is known to live for a time from now at least, by what was read at most so long ago.
func (l *markLives) Lasts(key string, now time.Time, least, trust time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.known.Get(key)
	return ok && now.Sub(k.read) < trust && !k.until.Before(now.Add(least))
}

// Learn keeps how long a mark lives at least from a time on at which that was read or written.
func (l *markLives) Learn(key string, at time.Time, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(strings.Clone(key), life{read: at, until: at.Add(left)})
}

// Forget forgets a mark that was removed: one that is made again lives from then on.
func (l *markLives) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Remove(key)
}
