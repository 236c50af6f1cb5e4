package main

import (
	"context"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

var update = flag.Bool("update", false, "write what tests print into the files that they compare it with")

// runScripts runs the scripts of a directory, with additional variables.
func runScripts(t *testing.T, dir string, variables map[string]string) {
	t.Helper()
	commands := backgroundCommands()
	maps.Copy(commands, apiCommands())
	maps.Copy(commands, faultCommands())
	maps.Copy(commands, pasteCommands())
	commands["run"], commands["terminal"] = runCommand, terminal
	program, err := exec.LookPath("tidemark")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Cmds:                commands,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[processesKey{}] = processes{}
			e.Values[scriptsKey{}] = scripts
			e.Setenv("BIN", filepath.Dir(program)) // a PATH without any Redis
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("TIDEMARK_GRPC_LISTEN", "127.0.0.1:0")
			e.Setenv("TIDEMARK_ADMIN_LISTEN", "127.0.0.1:0")
			for name, value := range variables {
				e.Setenv(name, value)
			}
			return nil
		},
	})
}

// runCommand runs a command of the program in this process:
//
//	run [STATUS] tidemark [ARG...]  its exit status must be STATUS, or else 0
//
// This takes milliseconds. A process of its own (exec, status, start) takes a quarter of a second with the race
// detector, and is for a service, standard input, relative names of files, and signals.
func runCommand(ts *testscript.TestScript, neg bool, args []string) {
	want := exitOK
	if status, err := strconv.Atoi(args[0]); err == nil {
		want, args = status, args[1:]
	}
	if neg || args[0] != "tidemark" {
		ts.Fatalf("usage: run [STATUS] tidemark [ARG...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*scriptLimit) // more than a command takes by itself
	defer cancel()
	if got := runHere(ctx, ts.Stdout(), ts.Stderr(), environOf(ts), args[1:]...); got != want {
		ts.Fatalf("tidemark ended with status %d, not %d", got, want)
	}
}

// runHere runs a command of the program in this process, and returns its exit status.
func runHere(ctx context.Context, stdout, stderr io.Writer, environ []string, args ...string) int {
	return run(ctx, cli.Terminal{
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Environ: environ, Version: thisBuild().version,
	}, args)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	project, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	issue(t, dir, "server", "client")
	runScripts(t, "testdata/script", map[string]string{"PROJECT": project, "CERTS": dir})
}

func TestScriptsWithRedis(t *testing.T) {
	t.Parallel()
	const username, password = "tide", "p4ssw0rd"
	locked := redistest.Start(t, redistest.Options{Username: username, Password: password})
	addLeastUser(t, locked)
	secure := redistest.Start(t, redistest.Options{TLS: true})
	dir := t.TempDir()
	issue(t, dir, "server", "client")
	runScripts(t, "testdata/redis", map[string]string{
		"ADDRESS": locked.Addr(), "USERNAME": username, "PASSWORD": password,
		"TLS_ADDRESS": secure.Addr(), "CA_FILE": secure.CAFile(), "CERTS": dir,
	})
}

func TestScriptsWithClusterAndSentinel(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{})
	for _, n := range cluster.Nodes() {
		addLeastUser(t, n)
	}
	sentinels := redistest.StartSentinel(t, redistest.Options{})
	runScripts(t, "testdata/cluster", map[string]string{
		"CLUSTER":   strings.Join(cluster.Addrs()[:2], ","),
		"SENTINELS": strings.Join(sentinels.Addrs(), ","), "MASTER": redistest.MasterName,
	})
}

// addLeastUser adds a user "least" with exactly the rights that the documentation lists.
func addLeastUser(t *testing.T, n *redistest.Node) {
	t.Helper()
	setUser := append([]string{"ACL", "SETUSER", "least"}, documentedRights(t)...)
	if err := n.Do(t, setUser...).Error(); err != nil {
		t.Fatal(err)
	}
}
