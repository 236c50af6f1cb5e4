//go:build !linux

package main

import "syscall"

// attributes has nothing to set here: a process can outlive a run that is killed.
func attributes() *syscall.SysProcAttr { return nil }
