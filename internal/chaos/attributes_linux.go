package main

import "syscall"

// attributes makes the kernel kill a process when the run ends in whatever way, even one that is stopped.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
