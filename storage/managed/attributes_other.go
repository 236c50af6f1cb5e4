//go:build !linux

package managed

import "syscall"

// childAttributes puts the child into a process group of its own, so that a
// Ctrl-C on the terminal reaches only the service. Nothing here ends the child
// with a service that is killed: the next service does that.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
