package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Numbers returns the numbers of a section of INFO. If a line has several, it is the first: a command's number of
// calls.
func (n *Node) Numbers(t testing.TB, section string) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), doLimit)
	defer cancel()
	numbers, err := Numbers(ctx, n.Client(), section)
	if err != nil {
		t.Fatalf("redistest: %s: %v", n.Addr(), err)
	}
	return numbers
}

// Number returns a number of a section of INFO, which must have it.
func (n *Node) Number(t testing.TB, section, field string) float64 {
	t.Helper()
	number, ok := n.Numbers(t, section)[field]
	if !ok {
		t.Fatalf("redistest: %s: INFO %s has no number %s", n.Addr(), section, field)
	}
	return number
}

// Calls returns how often commands were called.
func (n *Node) Calls(t testing.TB, commands ...string) (sum int) {
	t.Helper()
	all := n.Numbers(t, "commandstats")
	for _, command := range commands {
		sum += int(all["cmdstat_"+command]) // a command that was never called has no line
	}
	return sum
}

// CPU returns the CPU time that the server has used.
func (n *Node) CPU(t testing.TB) time.Duration {
	t.Helper()
	all := n.Numbers(t, "cpu")
	return time.Duration((all["used_cpu_user"] + all["used_cpu_sys"]) * float64(time.Second))
}

// Numbers is that of a Node, by any client.
func Numbers(ctx context.Context, client rueidis.Client, section string) (map[string]float64, error) {
	text, err := client.Do(ctx, client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("read INFO %s: %w", section, err)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			all[field] = number
		}
	}
	return all, nil
}
