package function

import "cmp"

// intervals finds the spans that contain a value, in the logarithm of how many there are for each that does. It is a
// treap by the spans' lower ends, in which each node knows the highest upper end below it. The zero value is empty.
type intervals struct {
	root *interval
	made uint64 // nodes, since ever
}

type interval struct {
	span
	entry       *entry
	priority    uint64 // above those of its children
	top         float64
	left, right *interval
}

func (n *interval) compare(s span, e *entry) int {
	return cmp.Or(cmp.Compare(s.low, n.low), cmp.Compare(e.serial, n.entry.serial))
}

// update computes what depends on the children.
func (n *interval) update() {
	n.top = n.high
	if n.left != nil {
		n.top = max(n.top, n.left.top)
	}
	if n.right != nil {
		n.top = max(n.top, n.right.top)
	}
}

// insert adds a span of an entry, which must have none yet with its lower end.
func (t *intervals) insert(s span, e *entry) {
	t.made++
	n := &interval{span: s, entry: e, priority: scatter(t.made), top: s.high}
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

// splitIntervals gives what is below a node, and what is above it.
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

// remove removes a span that was inserted.
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

// joinIntervals makes one tree of two, all of the first being below the second.
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

// stab visits the entries of spans that contain a value, until visit gives false, and gives whether it never did.
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

// scatter makes numbers that look like chance out of numbers in a row: splitmix64's last step.
func scatter(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
