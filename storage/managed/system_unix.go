//go:build unix

package managed

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// checkSystem returns an error if a child can't be run on this operating system.
func checkSystem() error { return nil }

// tryLock locks a file, for this process and those that inherit it. If another process has locked it, the error is one
// for which isLocked returns true.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func isLocked(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }

// makePrivate makes the files that this process and its children create readable by this user only, and returns a
// function that undoes it.
func makePrivate() (undo func()) {
	mask := syscall.Umask(0o077)
	return func() { syscall.Umask(mask) }
}

// killGroup kills the child with that pid and all processes that it forked. Every
// child leads a process group. The pid must be known to be the child's.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// isOwn reports whether a file belongs to this user.
func isOwn(info fs.FileInfo) bool {
	owner, ok := ownerOf(info)
	return ok && owner == os.Getuid()
}

// ownerOf returns the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (user int, ok bool) {
	if info == nil {
		return 0, false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(owner.Uid), true
}
