package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
)

// usage is the resources used: CPU time, also by the load, commands sent to Redis, and their bytes.
type usage struct {
	server, redis, load time.Duration
	commands            map[string]float64
	in, out             float64 // bytes that Redis received and sent
}

// plainCommands are the commands that the service sends outside of scripts, and that no script runs: Redis counts both
// together.
var plainCommands = []string{"ssubscribe", "sunsubscribe", "xread", "xdel", "xtrim"}

// meter reads the resources used up to now.
type meter struct {
	system   *system
	servers  []*service
	readings []usage
}

func (m *meter) read() {
	u := usage{commands: make(map[string]float64), redis: m.system.redis.cpu()}
	for _, server := range m.servers {
		u.server += server.cpu()
		for name, calls := range server.labelled("tidemark_redis_scripts_total", "script") {
			u.commands[name] += calls
		}
	}
	for _, command := range plainCommands {
		u.commands[strings.ToUpper(command)] = m.system.redis.calls(command)
	}
	u.load = ownCPU()
	stats := m.system.redis.numbers("stats")
	u.in, u.out = stats["total_net_input_bytes"], stats["total_net_output_bytes"]
	m.readings = append(m.readings, u)
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it can't fail for the process itself
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// play lets players play. It calls mark at the beginning and at the end of the window.
func (b *bench) play(players load.Players, mark func()) load.Matched {
	found, err := players.Run(b.Context(), func() error { mark(); return nil })
	b.Must(err)
	return found
}

// perTicket returns the usage of each of n tickets between the two readings.
func (m *meter) perTicket(n int) usage {
	from, to := m.readings[0], m.readings[1]
	per := usage{
		server: (to.server - from.server) / time.Duration(n), redis: (to.redis - from.redis) / time.Duration(n),
		load: (to.load - from.load) / time.Duration(n),
		in:   (to.in - from.in) / float64(n), out: (to.out - from.out) / float64(n), commands: make(map[string]float64),
	}
	for name, calls := range to.commands {
		per.commands[name] = (calls - from.commands[name]) / float64(n)
	}
	return per
}

// calls returns all commands together.
func (u usage) calls() (sum float64) {
	for _, n := range u.commands {
		sum += n
	}
	return sum
}

// kinds names the commands, the most frequent first.
func (u usage) kinds() string {
	names := slices.SortedFunc(maps.Keys(u.commands), func(a, b string) int {
		return cmp.Or(cmp.Compare(u.commands[b], u.commands[a]), cmp.Compare(a, b))
	})
	var kinds []string
	for _, name := range names {
		if u.commands[name] >= 0.005 {
			kinds = append(kinds, fmt.Sprintf("%s %.2f", name, u.commands[name]))
		}
	}
	return strings.Join(kinds, ", ")
}
