//go:build unix && !linux

package managed

import "syscall"

// childAttributes puts the child into a new process group, so that a
// Ctrl-C on the terminal reaches only the service. If the service is
// killed, the child keeps running, and the next service ends it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
