//go:build !unix

package managed

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// errSystem is returned by Open, so that the functions below it are never called.
var errSystem = errors.New("a redis-server can't be run as a child on " + runtime.GOOS +
	": set --redis (TIDEMARK_REDIS)")

func checkSystem() error { return errSystem }

func childAttributes() *syscall.SysProcAttr { return nil }

func tryLock(*os.File) error { return errSystem }

func isLocked(error) bool { return false }

func makePrivate() (undo func()) { return func() {} }

func killGroup(int) error { return errSystem }

func isOwn(fs.FileInfo) bool { return false }

func ownerOf(fs.FileInfo) (int, bool) { return 0, false }
