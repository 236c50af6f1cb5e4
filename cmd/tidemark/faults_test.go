package main

import (
	"errors"

	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// faultCommands are commands that cause faults, or check for them.
//
//	kill-redis PIDFILE              sends SIGKILL to the process
//	ended PIDFILE                   waits until the process has ended
//	capture-port VARIABLE VARIABLE  puts the port of the URL in the first variable into the second
//	broken-pipe PROGRAM [ARG...]    runs it with a standard output that nobody reads; it must succeed
func faultCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"kill-redis": killRedis, "ended": ended, "capture-port": capturePort, "broken-pipe": brokenPipe,
	}
}

// pidOf returns the process ID in a file, or 0 if the process does not exist any more.
func pidOf(ts *testscript.TestScript, path string) int {
	text, err := os.ReadFile(ts.MkAbs(path))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	ts.Check(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	ts.Check(err)
	return pid
}

func killRedis(ts *testscript.TestScript, _ bool, args []string) {
	pid := pidOf(ts, args[0])
	if pid == 0 {
		ts.Fatalf("%s doesn't name a process", args[0])
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
}

func ended(ts *testscript.TestScript, _ bool, args []string) {
	limit := time.After(scriptLimit)
	for {
		pid := pidOf(ts, args[0])
		if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		select {
		case <-limit:
			ts.Fatalf("process %d of %s hasn't ended", pid, args[0])
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func capturePort(ts *testscript.TestScript, _ bool, args []string) {
	u, err := url.Parse(ts.Getenv(args[0]))
	ts.Check(err)
	ts.Setenv(args[1], u.Port())
}

func brokenPipe(ts *testscript.TestScript, _ bool, args []string) {
	reader, writer, err := os.Pipe()
	ts.Check(err)
	ts.Check(reader.Close())
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environOf(ts), writer, ts.Stderr()
	err = cmd.Run()
	ts.Check(errors.Join(err, writer.Close()))
}
