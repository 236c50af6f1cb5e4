package followers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// Bounds of the job.
const (
	maxActive   = 256              // channels that are read at a time
	maxFlights  = 4                // groups of copies on their way at a time
	idleWait    = 20 * time.Second // of a fetch
	retryPause  = 5 * time.Second  // before a channel that failed is read again
	leaseName   = "notification-copies"
	reholdPause = time.Second
)

// Options configures a Job. All fields are needed.
type Options struct {
	Store     Store
	Channels  Channels
	Followers Audience
	Leases    Leases
	Metrics   Metrics
	Logger    *slog.Logger
}

// Job copies messages to followers. Run it on every server.
type Job struct {
	o Options
	// shared by all channels in order of arrival, so that one with many followers doesn't block the others
	flights *semaphore.Weighted

	mu      sync.Mutex
	reload  bool
	waiting []string            // channels to be read, without duplicates
	queued  map[string]struct{} // in waiting, or active
	again   map[string]struct{} // announced while it is active
	active  map[string]*reader
	woken   chan struct{} // buffered (capacity 1)

	foreign sync.Once // logs the first channel that belongs to no source
}

// NewJob returns a job.
func NewJob(o Options) *Job {
	return &Job{
		o: o, flights: semaphore.NewWeighted(maxFlights), woken: make(chan struct{}, 1),
		queued: map[string]struct{}{}, again: map[string]struct{}{}, active: map[string]*reader{},
	}
}

// Run copies messages whenever this process has the lease, until ctx ends. Then it returns nil.
func (j *Job) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := j.o.Leases.Hold(ctx, leaseName, func(ctx context.Context, _ uint64) error { return j.hold(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		j.o.Logger.WarnContext(ctx, "copying to followers was interrupted", "error", err)
		pace.Sleep(ctx, reholdPause)
	}
	return nil
}

// hold copies messages until ctx ends.
func (j *Job) hold(ctx context.Context) error {
	defer j.o.Store.Watch(j.add, j.lost)()
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-j.woken:
		}
		if j.mustReload() {
			if err := j.o.Store.Pending(ctx, j.add); err != nil {
				j.o.Logger.WarnContext(ctx, "cannot read which channels are to be copied", "error", err)
				pace.Sleep(ctx, retryPause)
				j.lost()
			}
		}
		for r := j.next(); r != nil; r = j.next() {
			readers.Go(func() { j.read(ctx, r) })
		}
	}
}

// lost records that announcements may have been missed.
func (j *Job) lost() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reload = true
	j.wake()
}

func (j *Job) mustReload() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	reload := j.reload
	j.reload = false
	return reload
}

func (j *Job) wake() {
	pace.Signal(j.woken)
}

// add records that a channel may have messages to be copied.
func (j *Job) add(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.queued[name]; ok {
		j.again[name] = struct{}{}
		return
	}
	j.queued[name] = struct{}{}
	j.waiting = append(j.waiting, name)
	j.wake()
}

// next returns a reader for a waiting channel, or nil.
func (j *Job) next() *reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == 0 || len(j.active) == maxActive {
		return nil
	}
	r := &reader{job: j, channel: j.waiting[0]}
	j.waiting = j.waiting[1:]
	delete(j.again, r.channel)
	j.active[r.channel] = r
	return r
}

// read runs a reader. A channel that failed is read again after a pause. One that belongs to no source stays in the set
// for the next holder, whose table may be newer or older, and is read again when it is announced.
func (j *Job) read(ctx context.Context, r *reader) {
	err := r.run(ctx)
	j.done(ctx, r, err)
	if err == nil || ctx.Err() != nil { // the next holder reads all channels of the set
		return
	}
	if errors.Is(err, ErrNotFollowed) {
		j.foreign.Do(func() {
			j.o.Logger.InfoContext(ctx, "messages are left to servers with another table of kinds", "channel",
				r.channel)
		})
		return
	}
	j.o.Logger.WarnContext(ctx, "cannot copy messages to followers, trying again", "channel", r.channel, "error", err)
	pace.Sleep(ctx, retryPause)
	if ctx.Err() == nil {
		j.add(r.channel)
	}
}

// done records the end of a reader. A channel that was announced meanwhile waits again.
func (j *Job) done(ctx context.Context, r *reader, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.active, r.channel)
	delete(j.queued, r.channel)
	_, again := j.again[r.channel]
	delete(j.again, r.channel)
	if again && err == nil && ctx.Err() == nil {
		j.queued[r.channel] = struct{}{}
		j.waiting = append(j.waiting, r.channel)
	}
	j.wake()
}

// Lag returns how long the oldest message read has waited for its copies, by this process's clock.
func (j *Job) Lag() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	var longest time.Duration
	for _, r := range j.active {
		if at := r.oldest.Load(); at != nil {
			longest = max(longest, time.Since(*at))
		}
	}
	return longest
}

// Pending returns the number of channels that this process reads, or is going to read.
func (j *Job) Pending() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.queued)
}
