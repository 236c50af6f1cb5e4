package function

import (
	"sort"

	"github.com/tidwall/btree"
)

// index finds the waiting entries that can be matched with an entry.
//
// A search follows one of several paths, each of which visits all of them: the statistics within one of the entry's own
// requirements, the requirements that its statistics satisfy, or all entries by age. The shortest path is found by
// trial: each is followed for some steps, and then for eight times as many, until one ends. So a search takes, for each
// path, at most about ten times as many steps as the shortest path has. It is long only if all paths are, for example
// if each of two requirements is satisfied by many entries and both together by none.
type index struct {
	byAge        *btree.BTreeG[*entry]
	values       map[string]*btree.BTreeG[point] // by statistic; no tree is empty
	requirements map[string]*spans               // by statistic: the spans of entries with this home; none is empty
	free         *btree.BTreeG[*entry]           // entries without requirements
	first        int                             // steps for which each path is tried first
	steps        *int                            // counts all steps
}

// spans finds the entries with a span that contains a value.
type spans = tree[*entry]

// point is a statistic of an entry.
type point struct {
	value float64
	entry *entry // nil: before all others with the value
}

func (p point) before(other point) bool {
	if p.value != other.value || other.entry == nil { // neither is NaN
		return p.value < other.value
	}
	return p.entry == nil || p.entry.serial < other.entry.serial
}

func newIndex(first int, steps *int) *index {
	byAge := func(a, b *entry) bool { return compareAge(a, b) < 0 }
	return &index{
		byAge:        newTree(byAge),
		values:       make(map[string]*btree.BTreeG[point]),
		requirements: make(map[string]*spans),
		free:         newTree(byAge),
		first:        first,
		steps:        steps,
	}
}

// add adds entries: first all their statistics, then the home of each, which depends on them.
func (x *index) add(entries []*entry) {
	for _, e := range entries {
		e.indexed = true
		x.byAge.Set(e)
		for _, s := range e.stats {
			tree := x.values[s.Name]
			if tree == nil {
				tree = newTree(point.before)
				x.values[s.Name] = tree
			}
			tree.Set(point{value: s.Value, entry: e})
		}
	}
	for _, e := range entries {
		x.setHome(e)
	}
}

// setHome indexes an entry by its rarest requirement.
func (x *index) setHome(e *entry) {
	if e.home = x.rarest(e); e.home < 0 {
		x.free.Set(e)
		return
	}
	home, _ := e.requirement(int(e.home))
	for _, s := range home {
		if !isSpan(s) {
			continue
		}
		tree := x.requirements[s.Name]
		if tree == nil {
			tree = &spans{}
			x.requirements[s.Name] = tree
		}
		tree.Insert(key{Low: s.MinValue, Serial: e.serial}, s.MaxValue, e)
	}
}

// rarest returns the first span of the requirement that the fewest statistics satisfy, or -1 if there are no
// requirements.
func (x *index) rarest(e *entry) int32 {
	best, fewest := -1, 0
	for at := 0; at < len(e.spans); {
		r, next := e.requirement(at)
		if best < 0 && next == len(e.spans) {
			return int32(at)
		}
		if n := x.count(r); best < 0 || n < fewest {
			best, fewest = at, n
		}
		at = next
	}
	return int32(best)
}

// count returns the number of statistics that satisfy a requirement.
func (x *index) count(r requirement) int {
	tree := x.values[r[0].Name]
	if tree == nil {
		return 0
	}
	n := 0
	for _, s := range r {
		if !isSpan(s) {
			continue
		}
		first := sort.Search(tree.Len(), func(i int) bool { p, _ := tree.GetAt(i); return p.value >= s.MinValue })
		after := sort.Search(tree.Len(), func(i int) bool { p, _ := tree.GetAt(i); return p.value > s.MaxValue })
		n += after - first
	}
	return n
}

// remove removes an entry, whose statistics and spans must be unchanged since add.
func (x *index) remove(e *entry) {
	e.indexed = false
	x.byAge.Delete(e)
	for _, s := range e.stats {
		tree := x.values[s.Name]
		tree.Delete(point{value: s.Value, entry: e})
		if tree.Len() == 0 {
			delete(x.values, s.Name)
		}
	}
	if e.home < 0 {
		x.free.Delete(e)
		return
	}
	home, _ := e.requirement(int(e.home))
	tree := x.requirements[home[0].Name]
	if tree == nil {
		return // nothing satisfies the requirement
	}
	for _, s := range home {
		tree.Remove(key{Low: s.MinValue, Serial: e.serial})
	}
	if tree.Empty() {
		delete(x.requirements, home[0].Name)
	}
}

// candidates returns all candidates of a seed.
func (x *index) candidates(r *rules, seed *entry) []*entry {
	paths := x.required(seed)
	if !r.oneSided {
		paths = append(paths, x.accepting(seed))
	}
	return x.race(append(paths, x.byAge.Scan), 0, func(e *entry) bool { return r.accept(seed, e) })
}

// seeds returns all entries that an entry is a candidate of. On the path by age it stops after enough of them, the
// oldest, unless enough is 0.
func (x *index) seeds(r *rules, candidate *entry, enough int) []*entry {
	paths := []path{x.accepting(candidate)}
	if !r.oneSided {
		paths = append(paths, x.required(candidate)...)
	}
	return x.race(append(paths, x.byAge.Scan), enough, func(e *entry) bool { return r.accept(e, candidate) })
}

// visitor is called with an entry, and reports whether to continue.
type visitor = func(*entry) bool

// path visits entries, each of them once.
type path func(visit visitor)

// required returns a path for each of an entry's requirements: the statistics that satisfy it.
func (x *index) required(e *entry) []path {
	var paths []path
	for at := 0; at < len(e.spans); {
		var r requirement
		r, at = e.requirement(at)
		paths = append(paths, func(visit visitor) {
			tree := x.values[r[0].Name]
			if tree == nil {
				return
			}
			stopped := false
			for _, s := range r {
				tree.Ascend(point{value: s.MinValue}, func(p point) bool {
					stopped = stopped || p.value <= s.MaxValue && !visit(p.entry)
					return !stopped && p.value <= s.MaxValue
				})
			}
		})
	}
	return paths
}

// accepting returns the path of the entries whose home requirement an entry satisfies, and of those without
// requirements.
func (x *index) accepting(e *entry) path {
	return func(visit visitor) {
		for _, s := range e.stats {
			if tree := x.requirements[s.Name]; tree != nil && !tree.Stab(s.Value, visit) {
				return
			}
		}
		x.free.Scan(visit)
	}
}

// race returns the entries to keep, by the path that ends first. The last path is by age.
func (x *index) race(paths []path, enough int, keep func(*entry) bool) []*entry {
	for limit := x.first; ; limit *= 8 {
		for i, p := range paths {
			stopAt := 0
			if i == len(paths)-1 {
				stopAt = enough
			}
			if found, ended := x.walk(p, limit, stopAt, keep); ended {
				return found
			}
		}
	}
}

// walk follows a path for at most limit steps. It returns the entries to keep, and whether they are all or enough.
func (x *index) walk(p path, limit, enough int, keep func(*entry) bool) (found []*entry, ended bool) {
	steps, ended := 0, true
	p(func(e *entry) bool {
		if steps == limit {
			ended = false
			return false
		}
		steps++
		if keep(e) {
			found = append(found, e)
		}
		return enough == 0 || len(found) < enough
	})
	*x.steps += steps
	return found, ended
}
