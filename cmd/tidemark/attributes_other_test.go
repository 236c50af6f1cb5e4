//go:build !linux

package main

import "syscall"

// processAttributes has nothing to offer here: a script's process can outlive a test binary that is killed.
func processAttributes() *syscall.SysProcAttr { return nil }
