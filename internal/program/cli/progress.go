package cli

import "time"

// progressEvery is the least time between two lines of a Progress, and before the first one.
const progressEvery = 2 * time.Second

// Progress reports on standard error how far a command is, if that is a terminal. It is used by one goroutine.
type Progress struct {
	report func(format string, args ...any) // nil: there is no terminal
	last   time.Time
}

// NewProgress returns the progress of a command that begins now.
func (t Terminal) NewProgress() *Progress {
	p := &Progress{last: time.Now()}
	if IsTerminal(t.Stderr) {
		p.report = t.Report
	}
	return p
}

// Report writes a line, unless the last one was written a moment ago.
func (p *Progress) Report(format string, args ...any) {
	if p.report == nil || time.Since(p.last) < progressEvery {
		return
	}
	p.last = time.Now()
	p.report(format, args...)
}
