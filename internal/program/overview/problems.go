package overview

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// maxProblems is how many problems a report has, at most.
const maxProblems = 200

// docs is where the documentation is.
const docs = "https://github.com/tidemark-dev/tidemark/blob/main/docs/"

// Problems are the problems that are there now. Each source reports its own. Any number of goroutines may use it.
type Problems struct {
	mu      sync.Mutex
	found   map[string][]Problem  // by source
	since   map[problem]time.Time // of those that are found now
	checked time.Time
}

// problem identifies a problem.
type problem struct{ source, code, about string }

// Problem is a problem that a source has found.
type Problem struct {
	Code  string // that of the alert, or another one
	About string
	Text  string
	Page  string // with its anchor; empty: the alert's section of the runbook
	// Since is when it began; zero: when the source reported it first.
	Since time.Time
	// Critical is set if it is critical, although there is no critical alert of its code.
	Critical bool
}

// SeverityOf returns the severity of a problem that has lasted for a time.
func SeverityOf(p Problem, lasted time.Duration) client.Severity {
	after, critical := criticalAfter[p.Code]
	if !critical {
		after = unready
	}
	if (critical || p.Critical) && lasted >= after {
		return client.SeverityCritical
	}
	return client.SeverityWarning
}

// Report replaces the problems of a source by those that it finds now.
func (p *Problems) Report(source string, at time.Time, found []Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		p.found, p.since = map[string][]Problem{}, map[problem]time.Time{}
	}
	now := map[problem]bool{}
	for _, f := range found {
		key := problem{source, f.Code, f.About}
		now[key] = true
		if _, ok := p.since[key]; !ok {
			p.since[key] = at
			if !f.Since.IsZero() {
				p.since[key] = f.Since
			}
		}
	}
	for key := range p.since {
		if key.source == source && !now[key] {
			delete(p.since, key)
		}
	}
	p.found[source] = found
	if at.After(p.checked) {
		p.checked = at
	}
}

// Problems returns the problems, critical ones first, and then the newest.
func (p *Problems) Problems() wire.Problems {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := wire.Problems{CheckedAt: p.checked.UTC().Truncate(time.Millisecond), Problems: []client.FoundProblem{}}
	for source, found := range p.found {
		for _, f := range found {
			page := f.Page
			if page == "" {
				page = "runbook.md#" + strings.ToLower(f.Code)
			}
			since := p.since[problem{source, f.Code, f.About}]
			answer.Problems = append(answer.Problems, client.FoundProblem{Code: f.Code, About: f.About,
				Severity: SeverityOf(f, p.checked.Sub(since)), Text: f.Text, Since: since.UTC().Truncate(time.Millisecond),
				Docs: docs + page})
		}
	}
	slices.SortFunc(answer.Problems, func(a, b client.FoundProblem) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), // "critical" is before "warning"
			b.Since.Compare(a.Since), cmp.Compare(a.Code, b.Code), cmp.Compare(a.About, b.About))
	})
	if answer.More = len(answer.Problems) - maxProblems; answer.More > 0 {
		answer.Problems = answer.Problems[:maxProblems]
	}
	answer.More = max(0, answer.More)
	return answer
}
