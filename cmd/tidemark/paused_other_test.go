//go:build !linux

package main

import "syscall"

// pausedAttributes has nothing to offer here: a process can outlive a test binary that is killed.
func pausedAttributes() *syscall.SysProcAttr { return nil }
