package managed

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

const (
	oldestMajor    = 7 // sharded pub/sub and script flags came with 7.0
	versionTimeout = 10 * time.Second
)

// FindBinary returns the path of the server that Open would run. Errors: ErrNoBinary, ErrTooOld, and others.
func FindBinary(asked string) (string, error) { return findBinary(asked, exec.LookPath) }

// findBinary returns the path of the server to run: the configured one, or else
// the first of the known names that is found and new enough.
func findBinary(asked string, lookPath func(string) (string, error)) (string, error) {
	if asked != "" {
		path, err := lookPath(asked)
		if err != nil {
			return "", fmt.Errorf("%w (%w)", ErrNoBinary, err)
		}
		return path, checkVersion(path)
	}
	failure := ErrNoBinary
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := lookPath(name)
		if err != nil {
			continue
		}
		if err := checkVersion(path); err != nil {
			failure = err
			continue
		}
		return path, nil
	}
	return "", failure
}

// checkVersion runs the binary to get its version. It returns ErrTooOld if the binary lacks features that the scripts
// need.
func checkVersion(path string) error {
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: []string{path, "--version"}, Stdout: &out, Stderr: &out, WaitDelay: time.Second}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("get the version of %s: %w", path, err)
	}
	timer := time.AfterFunc(versionTimeout, func() { _ = cmd.Process.Kill() }) // an error means that it has ended
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("get the version of %s: %w: %s", path, err, bytes.TrimSpace(out.Bytes()))
	}
	version, major, err := parseVersion(out.String())
	if err != nil {
		return fmt.Errorf("get the version of %s: %w", path, err)
	}
	if major < oldestMajor {
		return fmt.Errorf("%s is version %s: %w", path, version, ErrTooOld)
	}
	return nil
}

// Redis prints "Redis server v=7.0.15 sha=...", Valkey "Valkey server v=8.0.1 ...".
var versionPattern = regexp.MustCompile(`\bv=((\d+)\.\d+\S*)`)

func parseVersion(printed string) (version string, major int, err error) {
	found := versionPattern.FindStringSubmatch(printed)
	if found == nil {
		return "", 0, fmt.Errorf("no version in %q", printed)
	}
	major, err = strconv.Atoi(found[2])
	return found[1], major, err
}
