package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

func killRedis(s *stage) {
	for range 2 {
		s.node.Kill(s)
		s.pause(time.Second)
		s.node.Restart(s)
		s.pause(2 * time.Second)
	}
}

func stopRedis(s *stage) {
	for _, d := range []time.Duration{3 * time.Second, 7 * time.Second} {
		s.node.Pause(s)
		s.pause(d)
		s.node.Resume(s)
		s.pause(2 * time.Second)
	}
}

func busyRedis(s *stage) {
	s.Must(s.node.Do(s, "DEBUG", "SLEEP", "2").Error())
	s.pause(time.Second)
	s.Must(s.node.Do(s, "CONFIG", "SET", "busy-reply-threshold", "500").Error())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.node.Do(s, "EVAL", "while true do end", "0").Error() // it is killed
	}()
	s.pause(7 * time.Second)
	s.Must(s.onNewConnection("SCRIPT", "KILL"))
	<-ended
}

// onNewConnection sends a command to the standalone Redis on a new connection.
func (s *stage) onNewConnection(args ...string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.node.Addr()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(s.Context(), client.B().Arbitrary(args...).Build()).Error()
}

// command sends a command to the standalone Redis. It aborts the scenario if the command fails.
func (s *stage) command(args ...string) {
	if err := s.node.Do(s, args...).Error(); err != nil {
		s.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

// checkUnready waits while Redis refuses writes, and records a failure if a service reports that it is ready.
func (s *stage) checkUnready(d time.Duration) {
	const grace = 2 * time.Second // for the services to notice
	s.pause(grace)
	ctx, cancel := context.WithTimeout(s.Context(), d-grace)
	defer cancel()
	ready := map[string]int{}
	checks := 0
	for pace.Sleep(ctx, 2*checkEvery) {
		for _, service := range s.services {
			if service.OK(ctx, "/readyz") {
				ready[service.Name()]++
			}
		}
		checks++
	}
	for name, n := range ready {
		s.complain("%s reported %d of %d times that it was ready while Redis refused writes", name, n, checks)
	}
}

// fillRedis sets the limit below the memory in use. Acknowledgements still work then.
func fillRedis(s *stage) {
	s.command("CONFIG", "SET", "maxmemory", "1mb")
	s.pause(5 * time.Second)
	s.command("CONFIG", "SET", "maxmemory", "0")
}

// readOnly makes the primary a replica of a closed port, so that it keeps its data.
func readOnly(s *stage) {
	s.command("REPLICAOF", "127.0.0.1", "1")
	s.checkUnready(5 * time.Second)
	s.command("REPLICAOF", "NO", "ONE")
}

// masterDown also makes Redis refuse reads.
func masterDown(s *stage) {
	s.command("CONFIG", "SET", "replica-serve-stale-data", "no")
	readOnly(s)
}

// loadSlowly fills the append-only file. Each of its keys takes 0.1 ms to load.
func loadSlowly(s *stage) {
	s.command("EVAL", `for i = 1, tonumber(ARGV[1]) do redis.call("SET", "filler:" .. i, "x", "EX", 600) end return 1`,
		"0", "20000")
	s.pause(2 * time.Second) // until the file has been written
	s.node.Kill(s)
	s.pause(500 * time.Millisecond)
	s.node.Restart(s)
}

// failSaves makes background saves fail. Redis then refuses writes, and PING fails.
func failSaves(s *stage) {
	path := filepath.Join(s.node.Dir(), "dump.rdb")
	s.Must(os.RemoveAll(path))
	s.Must(os.Mkdir(path, 0o700))
	_ = s.node.Do(s, "BGSAVE").Error() // it must fail
	s.checkUnready(5 * time.Second)
	s.Must(os.Remove(path))
	s.Must(s.retry(func() error {
		if err := s.onNewConnection("BGSAVE"); err != nil {
			return err
		}
		info, err := s.node.Do(s, "INFO", "persistence").ToString()
		if err == nil && !strings.Contains(info, "rdb_last_bgsave_status:ok") {
			err = errors.New("background saves still fail")
		}
		return err
	}))
}

// retry calls do until it succeeds, for a few seconds.
func (s *stage) retry(do func() error) error {
	var err error
	for range 50 {
		if err = do(); err == nil {
			return nil
		}
		if !pace.Sleep(s.Context(), 4*checkEvery) {
			return s.Context().Err()
		}
	}
	return err
}

func flushScripts(s *stage) {
	for range 400 {
		s.command("SCRIPT", "FLUSH", "SYNC")
		s.pause(20 * time.Millisecond)
	}
}

// clockFile is the file from which libfaketime reads the offset of Redis's clock.
func (s *stage) clockFile() string { return filepath.Join(s.dir, "clock") }

// fakeClock writes a script that runs redis-server with an adjustable clock, and returns its path.
func fakeClock(s *stage) string {
	if s.settings.faketime == "" {
		s.Fatalf("no libfaketime: use make chaos, or -faketime with the path of the library")
	}
	s.setClock(0)
	preload := fmt.Sprintf("LD_PRELOAD=%q", s.settings.faketime+" libc.so.6") // else jemalloc and libfaketime deadlock
	if strings.HasSuffix(s.settings.faketime, ".dylib") {
		preload = fmt.Sprintf("DYLD_INSERT_LIBRARIES=%q", s.settings.faketime)
	}
	program := fmt.Sprintf("#!/bin/sh\nexec env %s FAKETIME_TIMESTAMP_FILE=%q FAKETIME_NO_CACHE=1 "+
		"FAKETIME_DONT_FAKE_MONOTONIC=1 redis-server \"$@\"\n", preload, s.clockFile())
	path := filepath.Join(s.dir, "redis-server.sh")
	s.Must(os.WriteFile(path, []byte(program), 0o700)) //nolint:gosec // a program
	return path
}

// setClock sets the offset of Redis's clock in seconds.
func (s *stage) setClock(ahead int) {
	next := s.clockFile() + ".next"
	s.Must(os.WriteFile(next, fmt.Appendf(nil, "%+ds\n", ahead), 0o600))
	s.Must(os.Rename(next, s.clockFile()))
}

func jumpClock(s *stage) {
	for _, ahead := range []int{100, 0, -100, 0} {
		s.setClock(ahead)
		s.pause(3 * time.Second)
		s.checkClock(ahead)
	}
}

// checkClock aborts the scenario if Redis's clock did not jump.
func (s *stage) checkClock(ahead int) {
	now, err := s.node.Do(s, "TIME").AsIntSlice()
	s.Must(err)
	if off := now[0] - time.Now().Unix() - int64(ahead); off < -2 || off > 2 {
		s.Fatalf("Redis's clock is %d s from %+d s", off, ahead)
	}
}
