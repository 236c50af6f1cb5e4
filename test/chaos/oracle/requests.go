package oracle

import (
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// Requests measures the responses of a service.
type Requests struct {
	mu       sync.Mutex
	tries    int
	failed   map[string]int // by reason
	publish  []time.Duration
	success  time.Time // of the last successful publish
	gap      time.Duration
	publishF int
}

// NewRequests returns a measurement that starts now.
func NewRequests() *Requests {
	return &Requests{failed: map[string]int{}, success: time.Now()}
}

// Tried records one try of any request. failure is the reason for which it failed, or empty.
func (r *Requests) Tried(failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if failure != "" {
		r.failed[failure]++
	}
}

// Published records one try of a publish: its duration, and whether it succeeded.
func (r *Requests) Published(took time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publish = append(r.publish, took)
	if !ok {
		r.publishF++
		return
	}
	now := time.Now()
	r.closeGap(now)
	r.success = now
}

// Ended records that no more publishes follow.
func (r *Requests) Ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeGap(time.Now())
}

func (r *Requests) closeGap(now time.Time) {
	if gap := now.Sub(r.success); gap > r.gap {
		r.gap = gap
	}
}

// RequestVerdict is the result of the measurement.
type RequestVerdict struct {
	Tries           int
	Failed          int
	Reasons         map[string]int // of failures
	Publishes       int            // tries
	PublishesFailed int
	P99             time.Duration // of all tries of publishes
	Gap             time.Duration // longest time without a successful publish
}

// Verdict returns the result of the measurement.
func (r *Requests) Verdict() RequestVerdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := RequestVerdict{
		Tries: r.tries, Reasons: r.failed, Publishes: len(r.publish), PublishesFailed: r.publishF, Gap: r.gap,
		P99: report.Quantile(r.publish, 0.99),
	}
	for _, n := range r.failed {
		v.Failed += n
	}
	return v
}
