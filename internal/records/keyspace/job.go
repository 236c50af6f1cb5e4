package keyspace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// State is the state of a survey that a person has started.
type State string

// The states.
const (
	StateNone     State = "none" // none was started since the server's start
	StateRunning  State = "running"
	StateDone     State = "done"
	StateCanceled State = "canceled"
	StateFailed   State = "failed"
)

// Survey is a survey of all Redis servers that a person has started: its progress, and then its result.
type Survey struct {
	State     State           `json:"state"`
	StartedAt time.Time       `json:"startedAt,omitzero"`
	EndedAt   time.Time       `json:"endedAt,omitzero"`
	Rate      int             `json:"rate,omitzero"` // keys examined per second, at most
	Seen      int64           `json:"seen"`          // keys that were examined
	Total     int64           `json:"total"`         // keys, about; of the Redis servers that were begun
	Error     string          `json:"error,omitempty"`
	Redis     []SurveyOfRedis `json:"redis"` // those that are complete
}

// SurveyOfRedis is the report of a Redis.
type SurveyOfRedis struct {
	Redis string `json:"redis"`
	Report
}

// Job runs one survey at a time, at a person's request, and keeps the result of the last one. Any number of goroutines
// may use it; one calls Run.
type Job struct {
	Table   *records.Table
	Sources map[string]Source // by the name of the Redis

	mu      sync.Mutex
	last    Survey
	options Options
	begin   chan struct{} // buffered (capacity 1)
	cancel  context.CancelFunc
}

// NewJob returns a Job without a survey.
func NewJob(table *records.Table, sources map[string]Source) *Job {
	return &Job{Table: table, Sources: sources, begin: make(chan struct{}, 1),
		last: Survey{State: StateNone, Redis: []SurveyOfRedis{}}}
}

// Show returns the survey.
func (j *Job) Show() Survey {
	j.mu.Lock()
	defer j.mu.Unlock()
	shown := j.last
	shown.Redis = slices.Clone(shown.Redis)
	return shown
}

// Start starts a survey unless one is running, and returns the one that is. Of each kind it names some of the largest
// keys.
func (j *Job) Start(rate, largest int) Survey {
	j.mu.Lock()
	if j.last.State != StateRunning {
		j.options = Options{Table: j.Table, Rate: rate, Largest: largest}
		j.last = Survey{State: StateRunning, StartedAt: time.Now().UTC(), Rate: rate, Redis: []SurveyOfRedis{}}
		pace.Signal(j.begin)
	}
	j.mu.Unlock()
	return j.Show()
}

// Cancel ends the survey that is running, if any: its results so far stay.
func (j *Job) Cancel() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last.State != StateRunning {
		return
	}
	j.end(StateCanceled, nil)
	if j.cancel != nil {
		j.cancel()
	}
}

// end ends the survey that is running. The caller holds the mutex.
func (j *Job) end(s State, err error) {
	j.last.State, j.last.EndedAt = s, time.Now().UTC()
	if err != nil {
		j.last.Error = err.Error()
	}
}

// Run makes the surveys until ctx ends. It returns nil.
func (j *Job) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-j.begin:
		}
		j.survey(ctx)
	}
}

func (j *Job) survey(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j.mu.Lock()
	started, o, running := j.last.StartedAt, j.options, j.last.State == StateRunning
	j.cancel = cancel
	j.mu.Unlock()
	if !running { // it was canceled before it began
		return
	}
	seen, total := int64(0), int64(0) // of the Redis before
	for _, name := range slices.Sorted(maps.Keys(j.Sources)) {
		var lastSeen, lastTotal int64
		o.Progress = func(s, t int64) {
			lastSeen, lastTotal = s, max(s, t)
			j.update(started, func(now *Survey) { now.Seen, now.Total = seen+lastSeen, total+lastTotal })
		}
		r, err := Run(ctx, j.Sources[name], o)
		switch {
		case ctx.Err() != nil:
			j.update(started, func(*Survey) { j.end(StateCanceled, nil) })
			return
		case err != nil:
			j.update(started, func(*Survey) { j.end(StateFailed, err) })
			return
		}
		seen, total = seen+lastSeen, total+lastSeen
		j.update(started, func(now *Survey) {
			now.Seen, now.Total = seen, total
			now.Redis = append(now.Redis, SurveyOfRedis{Redis: name, Report: r})
		})
	}
	j.update(started, func(*Survey) { j.end(StateDone, nil) })
}

// update changes the survey, if it is still the one that began then, and running.
func (j *Job) update(started time.Time, change func(now *Survey)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last.State == StateRunning && j.last.StartedAt.Equal(started) {
		change(&j.last)
	}
}
