package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// replies are scenarios in which Redis replies with errors, or has lost a key.
func replies() []scenario {
	return []scenario{
		{
			name: "oom", fault: "`maxmemory` reached for 5 s, then raised: OOM",
			limits: limits{Gap: 8 * time.Second}, inject: fillRedis,
		},
		{
			name: "readonly", fault: "the primary is made a replica for 5 s: READONLY",
			limits: limits{Gap: 8 * time.Second}, inject: readOnly,
		},
		{
			name: "masterdown", fault: "the primary is made a replica that serves no stale data for 5 s: MASTERDOWN",
			limits: limits{Gap: 8 * time.Second}, inject: masterDown,
		},
		{
			name: "loading", fault: "Redis restarted with an append-only file that takes seconds to load: LOADING",
			redis: redisSetup{args: append(alwaysSync(), "--key-load-delay",
				"100")}, limits: limits{Gap: 15 * time.Second}, inject: loadSlowly,
		},
		{
			name: "misconf", fault: "dump.rdb is a directory and BGSAVE fails: MISCONF for 5 s, with constant readiness checks",
			redis: redisSetup{args: []string{"--save", "3600 1"}}, limits: limits{Gap: 8 * time.Second}, inject: failSaves,
		},
		{
			name: "script-flush", fault: "SCRIPT FLUSH every 20 ms for 8 s",
			limits: limits{Gap: 2 * time.Second}, inject: flushScripts,
		},
		{
			name: "key-lost", fault: "the receipt key is deleted and one of two services is restarted; receipts may be " +
				"refused in the second after its start",
			limits: limits{Gap: 3 * time.Second}, inject: loseKey,
		},
	}
}

// another sends a command to the standalone Redis on a new connection.
func (s *stage) another(args ...string) error {
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

// unwritable waits while Redis refuses writes, and records a failure if a service reports that it is ready.
func (s *stage) unwritable(d time.Duration) {
	const grace = 2 * time.Second // for the services to notice
	s.pause(grace)
	ctx, cancel := context.WithTimeout(s.Context(), d-grace)
	defer cancel()
	ready := map[string]int{}
	looks := 0
	for pace.Sleep(ctx, 2*lookEvery) {
		for _, service := range s.services {
			if service.OK(ctx, "/readyz") {
				ready[service.Name()]++
			}
		}
		looks++
	}
	for name, n := range ready {
		s.complain("%s reported %d of %d times that it was ready while Redis refused writes", name, n, looks)
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
	s.unwritable(5 * time.Second)
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
	s.unwritable(5 * time.Second)
	s.Must(os.Remove(path))
	s.Must(s.retry(func() error {
		if err := s.another("BGSAVE"); err != nil {
			return err
		}
		info, err := s.node.Do(s, "INFO", "persistence").ToString()
		if err == nil && !strings.Contains(info, "rdb_last_bgsave_status:ok") {
			err = fmt.Errorf("background saves still fail")
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
		if !pace.Sleep(s.Context(), 4*lookEvery) {
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

// receiptKey is the Redis key in which servers share the key that signs receipts.
const receiptKey = "tidemark.receipt-key"

// keyGrace is how long servers may refuse each other's receipts after a start: until the other one has added its key.
const keyGrace = time.Second

func loseKey(s *stage) {
	service := s.services[0]
	s.command("DEL", receiptKey)
	s.Must(service.End(syscall.SIGTERM))
	s.clients.Messages.AllowForged(readyLimit)
	s.Must(service.Start(s.Context()))
	s.Must(s.awaitReady(service))
	s.clients.Messages.AllowForged(keyGrace)
	s.pause(keyGrace)
	s.note("%d receipts were refused", s.clients.Messages.Judge().Excused)
}
