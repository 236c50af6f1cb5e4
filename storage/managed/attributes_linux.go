package managed

import "syscall"

// childAttributes puts the child into a new process group, so that a
// Ctrl-C on the terminal reaches only the service, and makes the kernel send it
// a SIGTERM when the thread that started it ends, as after a SIGKILL of the
// service.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
