package main

import "syscall"

// pausedAttributes makes the kernel kill a process where the test binary is killed, also one that is stopped.
func pausedAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
