//go:build !unix

package streams

// readsNow reports whether readNow can be used.
const readsNow = false

func readNow(uintptr, []byte) (n int, wait bool) { return 0, false }
