package streams

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// scheduler runs the tasks of streams that have something to do, so that a stream needs no goroutine while it waits. As
// many goroutines as there are processors take one task after the other; they end when there is none.
type scheduler struct {
	limit int // of goroutines

	mu      sync.Mutex
	queue   []*task
	head    int // of the queue
	workers int
}

func newScheduler() *scheduler { return &scheduler{limit: runtime.GOMAXPROCS(0)} }

// task is the work of a stream. Its job is run by one goroutine at a time.
type task struct {
	scheduler *scheduler
	job       job
	state     atomic.Int32
}

// job is the work of a task.
type job interface {
	// quick does what can be done without waiting. If that isn't all, slow is called.
	quick(*worker) (done bool)
	// slow does the rest, on a goroutine of its own, and what has come meanwhile.
	slow() (goesOn bool)
	// panicked ends the stream after a panic of either.
	panicked(any)
}

// The states of a task.
const (
	starting int32 = iota // schedule does nothing: enqueue runs the job for the first time
	idle
	queued
	running
	runAgain // something has happened since the job has begun
	ended
)

// schedule runs the job soon. It doesn't block, and may be called at any time.
func (t *task) schedule() {
	for {
		switch t.state.Load() {
		case idle:
			if t.state.CompareAndSwap(idle, queued) {
				t.scheduler.add(t)
				return
			}
		case running:
			if t.state.CompareAndSwap(running, runAgain) {
				return
			}
		default:
			return
		}
	}
}

func (t *task) enqueue() {
	t.state.Store(queued)
	t.scheduler.add(t)
}

func (s *scheduler) add(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue); n == cap(s.queue) && s.head > n/2 {
		rest := copy(s.queue, s.queue[s.head:])
		clear(s.queue[rest:])
		s.queue, s.head = s.queue[:rest], 0
	}
	s.queue = append(s.queue, t)
	if s.workers < s.limit {
		s.workers++
		go s.work()
	}
}

// next returns the next task, or nil if the worker must end.
func (s *scheduler) next() *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head == len(s.queue) {
		s.workers--
		if s.queue, s.head = s.queue[:0], 0; cap(s.queue) > maxQueue {
			s.queue = nil
		}
		return nil
	}
	t := s.queue[s.head]
	s.queue[s.head] = nil
	s.head++
	return t
}

// maxQueue is how many entries of an empty queue stay allocated.
const maxQueue = 1024

func (s *scheduler) work() {
	w := workers.Get().(*worker)
	defer workers.Put(w)
	for t := s.next(); t != nil; t = s.next() {
		t.run(w)
	}
	w.forget()
}

// run does what the task has to do.
func (t *task) run(w *worker) {
	defer t.recovered()
	t.state.Store(running)
	switch {
	case !t.job.quick(w):
		go t.runSlowly()
	case !t.state.CompareAndSwap(running, idle):
		t.enqueue()
	}
}

func (t *task) runSlowly() {
	defer t.recovered()
	if t.job.slow() {
		t.enqueue()
	} else {
		t.state.Store(ended)
	}
}

// recovered is deferred: a panic ends the stream and not the service.
func (t *task) recovered() {
	if p := recover(); p != nil {
		t.state.Store(ended)
		t.job.panicked(p)
	}
}

// alarm schedules a task later.
type alarm struct {
	timer *time.Timer
	at    time.Time
}

// set schedules a task at a time, at the latest. An earlier time stays.
func (a *alarm) set(at, now time.Time, t *task) {
	switch {
	case a.timer == nil:
		a.timer = time.AfterFunc(at.Sub(now), t.schedule)
	case at.Before(a.at) || !now.Before(a.at):
		a.timer.Reset(at.Sub(now))
	default:
		return
	}
	a.at = at
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// worker has the buffers of a goroutine of the scheduler, for one job after the other.
type worker struct {
	out    nonBlockingWriter
	buffer []byte
	last   *channel.Message // whose JSON is in json
	json   []byte
}

var workers = sync.Pool{New: func() any {
	w := &worker{}
	w.out.init()
	return w
}}

// jsonOf returns the JSON of a message. Subscribers of a channel get it one after the other, so it is often that of the
// last call.
func (w *worker) jsonOf(m *channel.Message) []byte {
	if w.last != m {
		w.last = nil // if this panics
		w.json = wire.AppendMessage(w.json[:0], m)
		w.last = m
	}
	return w.json
}

// keep keeps a buffer for the next job, unless it is large.
func (w *worker) keep(buffer []byte) {
	if w.buffer = buffer[:0]; cap(buffer) > maxKept {
		w.buffer = nil
	}
}

// maxKept is the largest buffer that a worker keeps, in bytes.
const maxKept = 2 * writeBytes

// forget forgets the last message while there is nothing to do.
func (w *worker) forget() {
	if w.last = nil; cap(w.json) > maxKept {
		w.json = nil
	}
}
