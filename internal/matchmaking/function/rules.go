package function

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// rules are Options, prepared for use.
type rules struct {
	oneSided bool
	weights  []weight             // by name
	steps    []time.Duration      // ages at which ranges widen, ascending
	widths   []map[string]float64 // by how much, after each step; the first is before any
}

type weight struct {
	name  string
	value float64
}

func newRules(o CriteriaOptions) *rules {
	r := &rules{oneSided: o.Acceptance == matchmaking.AcceptOneSided}
	for _, name := range slices.Sorted(maps.Keys(o.Weights)) {
		if o.Weights[name] > 0 {
			r.weights = append(r.weights, weight{name: name, value: o.Weights[name]})
		}
	}
	steps := slices.Clone(o.Widen)
	slices.SortStableFunc(steps, func(a, b matchmaking.Widening) int { return cmp.Compare(a.After, b.After) })
	sums := make(map[string]float64)
	r.widths = []map[string]float64{{}}
	for _, step := range steps {
		for name, by := range step.By {
			if by > 0 {
				sums[name] += by
			}
		}
		r.steps = append(r.steps, step.After.Std())
		r.widths = append(r.widths, maps.Clone(sums))
	}
	return r
}

// step returns the number of widenings that are due at an age.
func (r *rules) step(age time.Duration) int {
	n, _ := slices.BinarySearchFunc(r.steps, age, func(step, age time.Duration) int {
		if step <= age {
			return -1
		}
		return 1
	})
	return n
}

// next returns the time of the first widening after the first n that changes one of some criteria.
func (r *rules) next(n int, criteria []matchmaking.Criterion) (after time.Duration, ok bool) {
	for i := n; i < len(r.steps); i++ {
		for _, c := range criteria {
			if r.widths[i+1][c.Name] > r.widths[i][c.Name] {
				return r.steps[i], true
			}
		}
	}
	return 0, false
}

// accept reports whether an entry is a candidate of a seed.
func (r *rules) accept(seed, candidate *entry) bool {
	return seed != candidate && seed.accepts(candidate) && (r.oneSided || candidate.accepts(seed))
}

// fitness orders the candidates of a seed: the lower, the better.
type fitness struct {
	missing int // weighted statistics that only one of the two has
	value   float64
}

func (f fitness) compare(other fitness) int {
	return cmp.Or(cmp.Compare(f.missing, other.missing), cmp.Compare(f.value, other.value))
}

func (r *rules) fitness(seed, candidate *entry) fitness {
	var f fitness
	for _, w := range r.weights {
		a, hasA := seed.value(w.name)
		b, hasB := candidate.value(w.name)
		switch {
		case hasA != hasB:
			f.missing++
		case a != b: // equal infinities have no difference, while Inf-Inf is NaN
			f.value += w.value * math.Abs(a-b)
		}
	}
	return f
}

// ranked is a member of a match with its fitness.
type ranked struct {
	*entry
	fitness fitness
}

// line returns the seed and its candidates, the best first.
func (r *rules) line(seed *entry, candidates []*entry) []ranked {
	all := make([]ranked, 1, len(candidates)+1)
	all[0] = ranked{entry: seed}
	for _, e := range candidates {
		all = append(all, ranked{entry: e, fitness: r.fitness(seed, e)})
	}
	slices.SortFunc(all[1:], func(a, b ranked) int {
		return cmp.Or(a.fitness.compare(b.fitness), compareAge(a.entry, b.entry))
	})
	return all
}
