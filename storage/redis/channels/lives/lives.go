// Package lives remembers how long marks live at least, so that polls needn't ask Redis each time.
package lives

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Size is how many marks are remembered: those that were polled last, in about 15 MB at most.
const Size = 1 << 16

// Lives is what is known about the lives of marks. Many goroutines may use it.
type Lives struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, life]
}

type life struct {
	read  time.Time // when it was read
	until time.Time
}

// New returns a Lives that knows nothing.
func New() *Lives {
	known, err := simplelru.NewLRU[string, life](Size, nil)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &Lives{known: known}
}

// Lasts reports whether a mark is known to live for a time from now at least, by what was read at most so long ago.
func (l *Lives) Lasts(key string, now time.Time, least, trust time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.known.Get(key)
	return ok && now.Sub(k.read) < trust && !k.until.Before(now.Add(least))
}

// Learn keeps how long a mark lives at least from a time on at which that was read or written.
func (l *Lives) Learn(key string, at time.Time, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(strings.Clone(key), life{read: at, until: at.Add(left)})
}

// Forget forgets a mark that was removed: one that is made again lives from then on.
func (l *Lives) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Remove(key)
}
