package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/sizing"
)

// Bounds of the values of tidemark size.
const (
	sizeCount = 1_000_000_000
	sizeRate  = 10_000_000 // messages a second
	sizeBytes = 512 << 20  // a string of Redis
)

// sizeCommand is the command size, which only calculates.
type sizeCommand struct {
	sizing.Load
	rate, bytes, ttl string
	json             bool
}

func newSize(t cli.Terminal) *cobra.Command {
	s := &sizeCommand{}
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Estimate the Redis, the bandwidth and the servers that a load needs",
		Long: `Estimate the Redis, the bandwidth and the servers that a load on channels needs.

It calculates only: it needs neither a service nor Redis. The memory is that of Redis 7.0, within a quarter; CPU times
are those of the machine of the benchmarks, and differ by a factor of two between machines. The formula, and what it
leaves out, is in the documentation, under Sizing.`,
		Example: `  tidemark size --channels 1000 --rate 200 --message-size 2KiB --ttl 1h --subscribers 5000
  tidemark size --channels 1000000 --rate 30/m --message-size 200 --ttl 24h --waiters 20000 --json`,
		Args: cli.Arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if err := s.parse(); err != nil {
				return err
			}
			return s.print(t, sizing.Of(s.Load))
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Channels, "channels", 1, "`N` channels that exist at the same time")
	f.StringVar(&s.rate, "rate", "1/s", "`RATE` messages published on all channels: a number per s, m, h or d, such as 0.5/s or 30/m")
	f.StringVar(&s.bytes, "message-size", "256", "`BYTES` of a message's content, such as 512, 64KiB or 1MiB")
	f.StringVar(&s.ttl, "ttl", "24h", "`DURATION` of a message's life, as --channel-ttl of the service")
	f.IntVar(&s.MaxMessages, "max-messages", 0, "messages that a channel keeps at most `N`, as --channel-max-messages; 0: no limit")
	f.IntVar(&s.Subscribers, "subscribers", -1, "`N` subscribers of all channels together; -1: one for each channel")
	f.IntVar(&s.Waiters, "waiters", -1, "`N` of these that wait or stream at the same time; -1: all")
	f.IntVar(&s.NameBytes, "name-size", 16, "bytes of a channel's name, and of the key prefix, `N`")
	f.BoolVar(&s.Cluster, "cluster", false, "Redis is a Cluster")
	f.IntVar(&s.ServerCores, "server-cores", 4, "cores of one server, `N`")
	f.BoolVar(&s.json, "json", false, "print a line of JSON: load, ttlSeconds and estimate")
	return cmd
}

// parse reads the values that have units, and checks all.
func (s *sizeCommand) parse() (err error) {
	if s.Rate, err = parseRate(s.rate); err != nil {
		return cli.Usagef("--rate: %w", err)
	}
	if s.MessageBytes, err = config.ParseBytes(s.bytes); err != nil {
		return cli.Usagef("--message-size: %w", err)
	}
	if s.TTL, err = config.ParseDuration(s.ttl, time.Second); err != nil {
		return cli.Usagef("--ttl: %w", err)
	}
	if s.Subscribers == -1 {
		s.Subscribers = s.Channels
	}
	if s.Waiters == -1 {
		s.Waiters = s.Subscribers
	}
	for _, c := range []struct {
		flag        string
		n, from, to int
	}{
		{"channels", s.Channels, 1, sizeCount}, {"message-size", s.MessageBytes, 1, sizeBytes},
		{"max-messages", s.MaxMessages, 0, sizeCount}, {"subscribers", s.Subscribers, 0, sizeCount},
		{"waiters", s.Waiters, 0, s.Subscribers}, {"name-size", s.NameBytes, 1, 1024},
		{"server-cores", s.ServerCores, 1, 1024},
	} {
		if c.n < c.from || c.n > c.to {
			hint := ""
			if c.flag == "waiters" {
				hint = ", the subscribers"
			}
			return cli.Usagef("--%s: %d isn't from %d to %d%s", c.flag, c.n, c.from, c.to, hint)
		}
	}
	return nil
}

// parseRate parses a number of messages per second, or per s, m, h or d.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), "/")
	per, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || math.IsNaN(n) || strings.HasSuffix(text, "/") {
		return 0, fmt.Errorf("%q isn't a number of messages per s, m, h or d, such as 100, 0.5/s or 30/m", text)
	}
	n /= per.Seconds()
	if n < 0 || n > sizeRate {
		return 0, fmt.Errorf("%q isn't from 0 to %d messages a second", text, sizeRate)
	}
	return n, nil
}

func (s *sizeCommand) print(t cli.Terminal, e sizing.Estimate) error {
	if s.json {
		return cli.WriteLine(t.Stdout, struct {
			Load       sizing.Load     `json:"load"`
			TTLSeconds float64         `json:"ttlSeconds"`
			Estimate   sizing.Estimate `json:"estimate"`
		}{s.Load, s.TTL.Seconds(), e})
	}
	rows := ""
	add := func(what, value, note string) { rows += what + "\t" + value + "\t" + note + "\n" }
	add("messages in Redis", countText(e.Messages), fmt.Sprintf("%s each", bytesText(e.MessageBytes)))
	add("Redis memory", bytesText(e.RedisBytes), fmt.Sprintf("%s per channel, %s per subscriber", bytesText(e.ChannelBytes),
		bytesText(e.ListenerBytes)))
	add("  maxmemory", bytesText(e.MaxMemory), "a quarter more; with maxmemory-policy noeviction")
	add("  of the machines", bytesText(e.MachineBytes), "twice that, for the rewrite of the append-only file")
	add("Redis CPU", coresText(e.RedisCores), fmt.Sprintf("%d %s, each with one core and replicas of its own", e.Primaries,
		plural(e.Primaries, "primary", "primaries")))
	add("Redis network", "in "+bytesText(e.RedisIn)+"/s", "out "+bytesText(e.RedisOut)+"/s")
	add("clients' network", "in "+bytesText(e.ClientsIn)+"/s", "out "+bytesText(e.ClientsOut)+"/s")
	add("servers", strconv.Itoa(e.Servers), fmt.Sprintf("with %d cores and %s each; %s in all; two at least, so that one can fail",
		s.ServerCores, bytesText(e.ServerBytes), coresText(e.ServerCores)))
	return cli.WriteTable(t.Stdout, rows)
}

func plural(n int, singular, many string) string {
	if n == 1 {
		return singular
	}
	return many
}

func coresText(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + " cores" }

func countText(n float64) string { return strconv.FormatFloat(math.Ceil(n), 'f', 0, 64) }

// bytesText returns a number of bytes with a unit and two or three digits.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	precision := 0
	if i > 0 && n < 10 {
		precision = 1
	}
	return strconv.FormatFloat(n, 'f', precision, 64) + " " + units[i]
}
