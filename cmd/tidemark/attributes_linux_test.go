package main

import "syscall"

// processAttributes makes the kernel end a script's process if the test binary is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
