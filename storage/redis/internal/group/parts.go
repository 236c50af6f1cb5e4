package group

// Parts divides a list into parts of at most maxItems items and maxBytes bytes, as size counts them. A larger element
// is a part of its own.
func Parts[T any](list []T, size func(T) (items, bytes int), maxItems, maxBytes int) (parts [][]T) {
	first, items, bytes := 0, 0, 0
	for i, thing := range list {
		n, b := size(thing)
		if i > first && (items+n > maxItems || bytes+b > maxBytes) {
			parts = append(parts, list[first:i])
			first, items, bytes = i, 0, 0
		}
		items, bytes = items+n, bytes+b
	}
	if first < len(list) {
		parts = append(parts, list[first:])
	}
	return parts
}
