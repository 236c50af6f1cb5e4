package function

import "cmp"

// intervals finds the spans that contain a value, in O(log n) time for each of them. It is a treap ordered by the spans'
// lower ends, in which each node has the highest upper end of its subtree. The zero value is empty.
type intervals struct {
	root     *interval
	inserted uint64 // nodes, since the beginning
}

type interval struct {
	span
	entry       *entry
	priority    uint64  // higher than those of its children
	top         float64 // highest upper end of the subtree
	left, right *interval
}

func (n *interval) compare(s span, e *entry) int {
	return cmp.Or(cmp.Compare(s.low, n.low), cmp.Compare(e.serial, n.entry.serial))
}

// update computes top from the children.
func (n *interval) update() {
	n.top = n.high
	if n.left != nil {
		n.top = max(n.top, n.left.top)
	}
	if n.right != nil {
		n.top = max(n.top, n.right.top)
	}
}

// insert adds a span of an entry. The entry must have no other span with this lower end.
func (t *intervals) insert(s span, e *entry) {
	t.inserted++
	n := &interval{span: s, entry: e, priority: scatter(t.inserted), top: s.high}
	t.root = insertInterval(t.root, n)
}

func insertInterval(at, n *interval) *interval {
	switch {
	case at == nil:
		return n
	case n.priority > at.priority:
		n.left, n.right = splitIntervals(at, n)
		n.update()
		return n
	case at.compare(n.span, n.entry) < 0:
		at.left = insertInterval(at.left, n)
	default:
		at.right = insertInterval(at.right, n)
	}
	at.update()
	return at
}

// splitIntervals splits a tree into the nodes below n and those above it.
func splitIntervals(at, n *interval) (below, above *interval) {
	if at == nil {
		return nil, nil
	}
	if at.compare(n.span, n.entry) < 0 {
		below, at.left = splitIntervals(at.left, n)
		above = at
	} else {
		at.right, above = splitIntervals(at.right, n)
		below = at
	}
	at.update()
	return below, above
}

// remove removes an inserted span.
func (t *intervals) remove(s span, e *entry) { t.root = removeInterval(t.root, s, e) }

func removeInterval(at *interval, s span, e *entry) *interval {
	if at == nil {
		return nil
	}
	switch order := at.compare(s, e); {
	case order == 0:
		return joinIntervals(at.left, at.right)
	case order < 0:
		at.left = removeInterval(at.left, s, e)
	default:
		at.right = removeInterval(at.right, s, e)
	}
	at.update()
	return at
}

// joinIntervals joins two trees. All nodes of the first must be below those of the second.
func joinIntervals(below, above *interval) *interval {
	switch {
	case below == nil:
		return above
	case above == nil:
		return below
	case below.priority > above.priority:
		below.right = joinIntervals(below.right, above)
		below.update()
		return below
	default:
		above.left = joinIntervals(below, above.left)
		above.update()
		return above
	}
}

// stab visits the entries whose spans contain a value until visit returns false, and reports whether it never did.
func (t *intervals) stab(value float64, visit visitor) bool { return t.root.stab(value, visit) }

func (n *interval) stab(value float64, visit visitor) bool {
	switch {
	case n == nil || n.top < value:
		return true
	case !n.left.stab(value, visit):
		return false
	case n.low > value:
		return true
	case n.high >= value && !visit(n.entry):
		return false
	}
	return n.right.stab(value, visit)
}

// scatter maps consecutive numbers to random-looking ones, with the last step of splitmix64.
func scatter(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
