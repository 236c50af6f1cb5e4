package matchmaking

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// usage is what was used: CPU time, by the load too, commands that Redis was sent, and their bytes.
type usage struct {
	server, redis, load time.Duration
	commands            map[string]float64
	in, out             float64 // bytes that Redis received and sent
}

// plainCommands are those that the service sends beside scripts, and that no script runs: Redis counts these in the same place.
var plainCommands = []string{"ssubscribe", "sunsubscribe", "xread", "xdel", "xtrim"}

// meter reads what is used up to now.
type meter struct {
	target   *target.Target
	others   []*target.Process // more servers
	readings []usage
}

func (m *meter) read(ctx context.Context) error {
	u := usage{commands: make(map[string]float64)}
	for _, server := range append([]*target.Process{m.target.Server}, m.others...) {
		cpu, err := server.CPU()
		if err != nil {
			return err
		}
		u.server += cpu
		scripts, err := server.Labelled(ctx, "tidemark_redis_scripts_total", "script")
		if err != nil {
			return err
		}
		for name, calls := range scripts {
			u.commands[name] += calls
		}
	}
	plain, err := m.target.Redis.Calls(ctx, plainCommands)
	if err != nil {
		return err
	}
	for command, calls := range plain {
		u.commands[strings.ToUpper(command)] = calls
	}
	cpu, err := m.target.Redis.CPU(ctx)
	if err != nil {
		return err
	}
	u.redis = time.Duration(cpu * float64(time.Second))
	if u.load, err = target.CPU(os.Getpid()); err != nil {
		return err
	}
	if u.in, err = m.target.Redis.Info(ctx, "stats", "total_net_input_bytes"); err != nil {
		return err
	}
	u.out, err = m.target.Redis.Info(ctx, "stats", "total_net_output_bytes")
	m.readings = append(m.readings, u)
	return err
}

// perTicket returns what each of n tickets has used between the two readings.
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
