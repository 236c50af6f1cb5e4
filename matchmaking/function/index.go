package function

import (
	"cmp"
	"sort"

	"github.com/tidwall/btree"
)

// index finds the waiting entries that an entry may come together with.
//
// It goes one of several paths, each of which leads past all of them: the statistics that one of the entry's own wishes
// allows, the wishes that its statistics fulfil, or all entries by age. Which is the shortest is found out by trying:
// each is gone for some looks, and then for eight times as many, until one has come to its end. So a search looks, for
// each of the paths, at about ten times as many entries as the shortest has, at most. Where all of them are long the
// search is too, as where each of two wishes leaves many and both together none.
type index struct {
	byAge  *btree.BTreeG[*entry]
	values map[string]*btree.BTreeG[point] // by statistic; none is empty
	wishes map[string]*intervals           // by statistic, the spans of the entries whose home it is; none is empty
	free   *btree.BTreeG[*entry]           // those without wishes
	first  int                             // for how many looks each path is tried first
	looks  *int                            // counts entries that were looked at
}

// point is a statistic of an entry.
type point struct {
	value  float64
	serial uint64
	entry  *entry
}

func newIndex(first int, looks *int) *index {
	byAge := func(a, b *entry) bool { return compareAge(a, b) < 0 }
	return &index{
		byAge:  newTree(byAge),
		values: make(map[string]*btree.BTreeG[point]),
		wishes: make(map[string]*intervals),
		free:   newTree(byAge),
		first:  first,
		looks:  looks,
	}
}

// add adds entries. All of their statistics are there before a home is chosen for any of them.
func (x *index) add(entries []*entry) {
	for _, e := range entries {
		e.indexed = true
		x.byAge.Set(e)
		for _, s := range e.stats {
			tree := x.values[s.Name]
			if tree == nil {
				tree = newTree(func(a, b point) bool {
					return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.serial, b.serial)) < 0
				})
				x.values[s.Name] = tree
			}
			tree.Set(point{value: s.Value, serial: e.serial, entry: e})
		}
	}
	for _, e := range entries {
		x.settle(e)
	}
}

// settle makes an entry findable by its rarest wish.
func (x *index) settle(e *entry) {
	if e.home = x.rarest(e.wishes); e.home < 0 {
		x.free.Set(e)
		return
	}
	home := &e.wishes[e.home]
	if len(home.spans) > 0 && x.wishes[home.name] == nil {
		x.wishes[home.name] = &intervals{}
	}
	for _, s := range home.spans {
		x.wishes[home.name].insert(s, e)
	}
}

// rarest gives the wish that the fewest statistics fulfil, -1 where there is none.
func (x *index) rarest(wishes []wish) int {
	if len(wishes) < 2 {
		return len(wishes) - 1
	}
	best, fewest := -1, 0
	for i := range wishes {
		if n := x.count(&wishes[i]); best < 0 || n < fewest {
			best, fewest = i, n
		}
	}
	return best
}

// count gives how many statistics fulfil a wish.
func (x *index) count(w *wish) int {
	tree := x.values[w.name]
	if tree == nil {
		return 0
	}
	n := 0
	for _, s := range w.spans {
		first := sort.Search(tree.Len(), func(i int) bool { p, _ := tree.GetAt(i); return p.value >= s.low })
		after := sort.Search(tree.Len(), func(i int) bool { p, _ := tree.GetAt(i); return p.value > s.high })
		n += after - first
	}
	return n
}

// remove removes an entry, whose statistics and spans are as when it was added.
func (x *index) remove(e *entry) {
	e.indexed = false
	x.byAge.Delete(e)
	for _, s := range e.stats {
		tree := x.values[s.Name]
		tree.Delete(point{value: s.Value, serial: e.serial})
		if tree.Len() == 0 {
			delete(x.values, s.Name)
		}
	}
	if e.home < 0 {
		x.free.Delete(e)
		return
	}
	home := &e.wishes[e.home]
	for _, s := range home.spans {
		x.wishes[home.name].remove(s, e)
	}
	if tree := x.wishes[home.name]; tree != nil && tree.root == nil {
		delete(x.wishes, home.name)
	}
}

// candidates gives all entries that a seed may take.
func (x *index) candidates(r *rules, seed *entry) []*entry {
	paths := x.wished(seed)
	if r.oneSided {
		paths = append(paths, func(visit visitor) { x.byAge.Ascend(seed, visit) })
	} else {
		paths = append(paths, x.wishing(seed), x.byAge.Scan)
	}
	return x.race(paths, 0, func(e *entry) bool { return r.accept(seed, e) })
}

// seeds gives all entries that may take a candidate. Where it goes by age it is content with enough of them, the
// oldest; 0: it never is.
func (x *index) seeds(r *rules, candidate *entry, enough int) []*entry {
	paths := []path{x.wishing(candidate)}
	if r.oneSided {
		paths = append(paths, x.olderThan(candidate))
	} else {
		paths = append(append(paths, x.wished(candidate)...), x.byAge.Scan)
	}
	return x.race(paths, enough, func(e *entry) bool { return r.accept(e, candidate) })
}

// visitor is shown an entry, and gives whether to go on.
type visitor = func(*entry) bool

// path leads past entries, each of them once.
type path func(visit visitor)

// wished gives a path for each of an entry's wishes: past the statistics that fulfil it.
func (x *index) wished(e *entry) []path {
	var paths []path
	for i := range e.wishes {
		paths = append(paths, func(visit visitor) {
			tree := x.values[e.wishes[i].name]
			if tree == nil {
				return
			}
			stopped := false
			for _, s := range e.wishes[i].spans {
				tree.Ascend(point{value: s.low}, func(p point) bool {
					stopped = stopped || p.value <= s.high && !visit(p.entry)
					return !stopped && p.value <= s.high
				})
			}
		})
	}
	return paths
}

// wishing is the path past the entries whose home wish an entry fulfils, and those without wishes.
func (x *index) wishing(e *entry) path {
	return func(visit visitor) {
		for _, s := range e.stats {
			if tree := x.wishes[s.Name]; tree != nil && !tree.stab(s.Value, visit) {
				return
			}
		}
		x.free.Scan(visit)
	}
}

// olderThan is the path past those that are older than an entry, the oldest first.
func (x *index) olderThan(e *entry) path {
	return func(visit visitor) {
		x.byAge.Scan(func(other *entry) bool { return compareAge(other, e) < 0 && visit(other) })
	}
}

// race gives the entries to keep, by the path that comes to its end first. The last path is by age.
func (x *index) race(paths []path, enough int, keep func(*entry) bool) []*entry {
	for limit := x.first; ; limit *= 8 {
		for i, p := range paths {
			content := 0
			if i == len(paths)-1 {
				content = enough
			}
			if kept, ended := x.walk(p, limit, content, keep); ended {
				return kept
			}
		}
	}
}

// walk goes a path for some looks, and gives the entries to keep, and whether they are all or enough.
func (x *index) walk(p path, limit, enough int, keep func(*entry) bool) (kept []*entry, ended bool) {
	looks, ended := 0, true
	p(func(e *entry) bool {
		if looks == limit {
			ended = false
			return false
		}
		looks++
		if keep(e) {
			kept = append(kept, e)
		}
		return enough == 0 || len(kept) < enough
	})
	*x.looks += looks
	return kept, ended
}
