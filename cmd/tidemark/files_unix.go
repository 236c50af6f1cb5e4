//go:build unix

package main

import (
	"math"
	"syscall"
)

// fileLimit returns the maximum number of open files of the process, or 0 if there is no limit. The Go runtime has
// raised it as far as the process may.
func fileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) >= math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
