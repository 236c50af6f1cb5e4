package main

import (
	"time"
)

// stalls are scenarios in which Redis runs but does not reply.
func stalls() []scenario {
	return []scenario{
		{
			name: "redis-stop", fault: "SIGSTOP of Redis for 3 s and for 7 s, longer than --redis-timeout",
			limits: limits{Gap: 10 * time.Second}, inject: stopRedis,
		},
		{
			name: "redis-busy", fault: "DEBUG SLEEP of 2 s, then a script that runs for 7 s: BUSY, and SCRIPT KILL",
			limits: limits{Gap: 10 * time.Second}, inject: busyRedis,
		},
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
	s.Must(s.another("SCRIPT", "KILL"))
	<-ended
}
