package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// scriptLimit bounds a wait of a script, so that it fails and shows its state.
const scriptLimit = time.Minute

// eventually waits until a condition holds.
func eventually(t testing.TB, holds func() bool, about ...any) {
	t.Helper()
	for began := time.Now(); !holds(); <-time.After(pace.Look(began)) {
		if time.Since(began) > scriptLimit {
			require.FailNow(t, "the condition does not hold after "+scriptLimit.String(), about...)
		}
	}
}

// output collects the output of a process, and lets others wait for it.
type output struct {
	mu      sync.Mutex
	data    bytes.Buffer
	changed chan struct{} // closed at the next change
	file    io.Writer     // gets a copy
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data.Write(p)
	close(o.changed)
	o.changed = make(chan struct{})
	return o.file.Write(p)
}

// find returns the submatches of a pattern, and the channel to wait for if there are none yet.
func (o *output) find(pattern *regexp.Regexp) (match []string, changed <-chan struct{}, all string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return pattern.FindStringSubmatch(o.data.String()), o.changed, o.data.String()
}

// background is a process that a script started.
type background struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output *output // both of its streams
	done   chan struct{}

	expected bool // finish has waited for its end
}

// processes is the processes of one script, by their names in it.
type processes map[string]*background

func backgroundOf(ts *testscript.TestScript, name string) *background {
	p, ok := ts.Value(processesKey{}).(processes)[name]
	if !ok {
		ts.Fatalf("there is no process %s", name)
	}
	return p
}

type processesKey struct{}

// backgroundCommands are commands for processes that run beside a script. What they print goes to NAME.out and
// NAME.err too.
//
//	start NAME [VARIABLE=VALUE...] PROGRAM [ARG...]
//	await NAME PATTERN [VARIABLE]   waits until it has printed PATTERN, and puts the first submatch into VARIABLE
//	send NAME TEXT                  writes a line to its standard input; without TEXT it closes it
//	signal NAME TERM|INT|HUP|KILL|STOP|CONT
//	finish NAME [STATUS]            waits until it has ended; its exit status must be STATUS, or else 0
//	status STATUS PROGRAM [ARG...]  runs it in the foreground, and its exit status must be that
func backgroundCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"start": start, "await": await, "send": send, "signal": sendSignal, "finish": finish, "status": status,
	}
}

func start(ts *testscript.TestScript, _ bool, args []string) {
	name, args := args[0], args[1:]
	environ := environOf(ts)
	for ; strings.Contains(args[0], "="); args = args[1:] {
		environ = append(environ, args[0])
	}
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	p := &background{cmd: exec.Command(path, args[1:]...), done: make(chan struct{})}
	out, err := os.Create(filepath.Join(ts.Getenv("WORK"), name+".out"))
	ts.Check(err)
	errs, err := os.Create(filepath.Join(ts.Getenv("WORK"), name+".err"))
	ts.Check(err)
	shared := &output{changed: make(chan struct{}), file: io.Discard}
	p.output = shared
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(out, shared), io.MultiWriter(errs, shared)
	p.cmd.Dir, p.cmd.Env = ts.MkAbs("."), environ
	p.cmd.SysProcAttr = processAttributes()
	p.stdin, err = p.cmd.StdinPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // finish looks at the status
		close(p.done)
	}()
	ts.Value(processesKey{}).(processes)[name] = p
	ts.Defer(func() {
		hadEnded := p.cmd.Process.Signal(syscall.SIGTERM) != nil
		select {
		case <-p.done:
		case <-time.After(scriptLimit):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		if hadEnded && !p.expected {
			_, _, all := p.output.find(regexp.MustCompile("$"))
			ts.Logf("%s had ended by itself (%s), printing:\n%s", name, p.cmd.ProcessState, all)
		}
		_, _ = out.Close(), errs.Close()
	})
}

// environOf returns the script's environment as far as programs need it, since testscript shows single variables only.
func environOf(ts *testscript.TestScript) []string {
	names := []string{"TIDEMARK_GRPC_LISTEN", "TIDEMARK_ADMIN_LISTEN", "PATH", "HOME", "WORK", "TMPDIR", "GORACE"}
	script := filepath.Join(ts.Value(scriptsKey{}).(string), ts.Name()+".txtar")
	names = append(names, ofProgram.FindAllString(ts.ReadFile(script), -1)...)
	slices.Sort(names)
	var environ []string
	for _, name := range slices.Compact(names) {
		if value := ts.Getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// ofProgram matches the names of the variables that the program reads.
var ofProgram = regexp.MustCompile(`\bTIDEMARK_[A-Z_]+`)

// scriptsKey is the key of the directory of the scripts.
type scriptsKey struct{}

func await(ts *testscript.TestScript, _ bool, args []string) {
	p, pattern := backgroundOf(ts, args[0]), regexp.MustCompile("(?m)"+args[1])
	limit := time.After(scriptLimit)
	for {
		match, changed, all := p.output.find(pattern)
		if match != nil {
			if len(args) == 3 {
				ts.Setenv(args[2], match[1])
			}
			return
		}
		select {
		case <-changed:
		case <-p.done:
			if again, _, _ := p.output.find(pattern); again == nil {
				ts.Fatalf("%s ended without printing %q:\n%s", args[0], pattern, all)
			}
		case <-limit:
			ts.Fatalf("%s hasn't printed %q:\n%s", args[0], pattern, all)
		}
	}
}

func send(ts *testscript.TestScript, _ bool, args []string) {
	p := backgroundOf(ts, args[0])
	if len(args) == 1 {
		ts.Check(p.stdin.Close())
		return
	}
	_, err := fmt.Fprintln(p.stdin, args[1])
	ts.Check(err)
}

func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP,
		"CONT": syscall.SIGCONT, "QUIT": syscall.SIGQUIT,
	}
	sig, ok := signals[args[1]]
	if !ok {
		ts.Fatalf("there is no signal %s", args[1])
	}
	ts.Check(backgroundOf(ts, args[0]).cmd.Process.Signal(sig))
}

func finish(ts *testscript.TestScript, _ bool, args []string) {
	p, want := backgroundOf(ts, args[0]), "0"
	if len(args) == 2 {
		want = args[1]
	}
	select {
	case <-p.done:
		p.expected = true
	case <-time.After(scriptLimit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
		<-p.done
		_, _, all := p.output.find(regexp.MustCompile("$"))
		ts.Fatalf("%s hadn't ended:\n%s", args[0], all)
	}
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != want {
		_, _, all := p.output.find(regexp.MustCompile("$"))
		ts.Fatalf("%s ended with status %s (%s), not %s:\n%s", args[0], got, p.cmd.ProcessState, want, all)
	}
}

func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s ended with status %d, not %s", args[1], got, args[0])
	}
}
