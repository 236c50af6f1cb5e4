package function

import "cmp"

// tree holds intervals of numbers, each with a value, and finds those that contain a number, in O(log n) time for each
// of them. It is a treap ordered by the intervals' lower ends, in which each node has the highest upper end of its
// subtree. The zero value is empty. It must be used by one goroutine at a time.
type tree[T any] struct {
	root     *node[T]
	inserted uint64 // nodes, since the beginning
}

// key identifies an interval: no two of a tree have the same lower end and the same serial number.
type key struct {
	Low    float64
	Serial uint64
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.Low, other.Low), cmp.Compare(k.Serial, other.Serial))
}

type node[T any] struct {
	key
	high        float64
	value       T
	priority    uint64  // higher than those of its children
	top         float64 // highest upper end of the subtree
	left, right *node[T]
}

// update computes top from the children.
func (n *node[T]) update() {
	n.top = n.high
	if n.left != nil {
		n.top = max(n.top, n.left.top)
	}
	if n.right != nil {
		n.top = max(n.top, n.right.top)
	}
}

// Empty reports whether the tree has no intervals.
func (t *tree[T]) Empty() bool { return t.root == nil }

// Insert adds the interval from k.Low to high, including both ends.
func (t *tree[T]) Insert(k key, high float64, value T) {
	t.inserted++
	t.root = insert(t.root, &node[T]{key: k, high: high, value: value, priority: scatter(t.inserted), top: high})
}

func insert[T any](at, n *node[T]) *node[T] {
	switch {
	case at == nil:
		return n
	case n.priority > at.priority:
		n.left, n.right = split(at, n.key)
		n.update()
		return n
	case n.compare(at.key) < 0:
		at.left = insert(at.left, n)
	default:
		at.right = insert(at.right, n)
	}
	at.update()
	return at
}

// split splits a tree into the nodes below k and those above it.
func split[T any](at *node[T], k key) (below, above *node[T]) {
	if at == nil {
		return nil, nil
	}
	if k.compare(at.key) < 0 {
		below, at.left = split(at.left, k)
		above = at
	} else {
		at.right, above = split(at.right, k)
		below = at
	}
	at.update()
	return below, above
}

// Remove removes the interval with a key.
func (t *tree[T]) Remove(k key) { t.root = remove(t.root, k) }

func remove[T any](at *node[T], k key) *node[T] {
	if at == nil {
		return nil
	}
	switch order := k.compare(at.key); {
	case order == 0:
		return join(at.left, at.right)
	case order < 0:
		at.left = remove(at.left, k)
	default:
		at.right = remove(at.right, k)
	}
	at.update()
	return at
}

// join joins two trees. All nodes of the first must be below those of the second.
func join[T any](below, above *node[T]) *node[T] {
	switch {
	case below == nil:
		return above
	case above == nil:
		return below
	case below.priority > above.priority:
		below.right = join(below.right, above)
		below.update()
		return below
	default:
		above.left = join(below, above.left)
		above.update()
		return above
	}
}

// Stab visits the values of the intervals that contain a number until visit returns false, and reports whether it never
// did.
func (t *tree[T]) Stab(number float64, visit func(T) bool) bool { return t.root.stab(number, visit) }

func (n *node[T]) stab(number float64, visit func(T) bool) bool {
	switch {
	case n == nil || n.top < number:
		return true
	case !n.left.stab(number, visit):
		return false
	case n.Low > number:
		return true
	case n.high >= number && !visit(n.value):
		return false
	}
	return n.right.stab(number, visit)
}

// scatter maps consecutive numbers to random-looking ones, with the last step of splitmix64.
func scatter(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
