//go:build !linux

package main

import "syscall"

// processAttributes returns nothing here: a script's process can outlive a test binary that is killed.
func processAttributes() *syscall.SysProcAttr { return nil }
