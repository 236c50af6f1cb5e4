package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// clocks are scenarios in which the clock of Redis jumps.
func clocks() []scenario {
	return []scenario{{
		name: "clock-jump", fault: "Redis's clock jumps 100 s ahead, back, 100 s behind, and back",
		redis: redisSetup{binary: fakeClock}, limits: limits{Gap: 5 * time.Second}, inject: jump,
	}}
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

func jump(s *stage) {
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
