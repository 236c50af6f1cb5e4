package docs_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the figures of docs/performance.md")

// TestFiguresOfPerformance checks that the figures of the page are those of docs/benchmarks.md.
func TestFiguresOfPerformance(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/performance.md")
	part := regexp.MustCompile(`(?s)(<!-- figures: .*? -->\n)(.*)(<!-- end of figures -->)`).FindStringSubmatch(page)
	require.NotNil(t, part)
	figures := figuresOf(benchmarks{t, read(t, "docs/benchmarks.md")})
	if *update {
		page = strings.Replace(page, part[0], part[1]+figures+part[3], 1)
		require.NoError(t, os.WriteFile("performance.md", []byte(page), 0o600))
		return
	}
	require.Equal(t, figures, part[2], "go test ./docs -run Performance -update writes them")
}

// figuresOf returns the part of docs/performance.md that follows from the benchmarks.
func figuresOf(b benchmarks) string {
	const requests, many, tickets = "Single requests", "Fetching from many channels", "Matchmaking"
	publish := cost{
		b.cell(requests, "Tidemark", "server CPU per publish, against a net/http handler"),
		b.cell(requests, "Tidemark", "Redis CPU per publish, against the script under redis-benchmark"),
	}
	own := "acknowledges a message and gets one, of the channel's own route"
	next := cost{b.cell(many, "server", own), b.cell(many, "Redis", own)}
	empty := "nothing is there, of the channel's own route"
	wide := "acknowledges a message and gets one"
	const streams, events = "Streams", "server-sent events"

	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	line("**One Redis takes about %s publishes of 256 bytes a second, and a core of the service %s.**",
		perSecond(publish.redis), perSecond(publish.service))
	line("\n| one | CPU time of the service | a second, for a core | CPU time of Redis | a second, for one Redis |")
	line("|---|---:|---:|---:|---:|")
	for _, row := range []struct {
		name string
		cost
	}{
		{"publish of 256 bytes", publish},
		{"`next`: acknowledges a message and gets the next one", next},
		{"`next` of ten messages", cost{redis: b.text(requests, `takes ([\d.]+ µs) of Redis's`)}},
		{"fetch of ten messages", cost{service: b.cell(requests, "Tidemark", "server CPU per fetch of ten, against a net/http handler")}},
		{"ack", cost{service: b.cell(requests, "Tidemark", "server CPU per ack, against a net/http handler")}},
		{"fetch that finds nothing", cost{b.cell(many, "server", empty), b.cell(many, "Redis", empty)}},
		{"fetch from 64 channels that gets a message", cost{b.cell(many, "server", wide, "64"),
			b.cell(many, "Redis", wide, "64")}},
		{"message on one of 1,000 streams of server-sent events", cost{service: b.cell(streams, "server", events)}},
		{"message on one of 1,000 WebSockets", cost{service: b.cell(streams, "server", "WebSocket")}},
		{"ticket, from its creation to its assignment", cost{b.cell(tickets, "server", "1024"),
			b.cell(tickets, "Redis", "1024")}},
	} {
		line("| %s | %s | %s | %s | %s |", row.name, row.service, perSecond(row.service), row.redis,
			perSecond(row.redis))
	}
	line("\nSo 1,000 messages a second for 20 subscribers each, with a `next` for each message, take %.0f%% of Redis's "+
		"core\nand %.0f%% of a core of the services.", (micros(publish.redis)+20*micros(next.redis))/10,
		(micros(publish.service)+20*micros(next.service))/10)

	line("\n| measured, all on 2 cores, with the load | a second |\n|---|---:|")
	line("| tickets, 256 players on a few gRPC connections | %s |", b.cell(tickets, "tickets/s", "256"))
	line("| tickets, 1,024 players, a connection each | %s |", b.cell(tickets, "tickets/s", "1024, a connection each"))
	line("| tickets in 4 queues, on a Cluster of three nodes | %s |", b.cell("On a Cluster", "tickets/s", "4"))
	line("| cached values, through nodes of shards in three data centres | %s |",
		b.cell("Shards", "keys/s", "through nodes"))
	line("| cached values, from Redis by `MGET` | %s |", b.cell("Shards", "keys/s", "from Redis, by MGET"))

	line("\n| time | half of them | 99%% |\n|---|---:|---:|")
	large := "Small publishes beside large fetches"
	line("| publish, while 300 subscribers fetch 4 MiB each | %s | %s |", b.cell(large, "p50"), b.cell(large, "p99"))
	line("| ticket to assignment, at 100 tickets a second | %s | %s |", b.cell(tickets, "p50", "100/s offered"),
		b.cell(tickets, "p99", "100/s offered"))
	line("| the same, as many as 64 players create | %s | %s |", b.cell(tickets, "p50", "64"), b.cell(tickets, "p99", "64"))
	line("| read of 100 values through nodes of shards | %s | %s |", b.cell("Shards", "p50", "all run"),
		b.cell("Shards", "p99", "all run"))
	line("| the same, while a data centre doesn't answer | %s | %s |", b.cell("Shards", "p50", "one data centre is silent"),
		b.cell("Shards", "p99", "one data centre is silent"))

	crowd := "Many subscribers waiting on one channel"
	line("\n| time | |\n|---|---:|")
	for _, n := range []string{"1000", "5000"} {
		line("| one message to %s waiting subscribers, until the last has it | %s |", grouped(micros(n)),
			b.cell(crowd, "last one answered after", n))
	}
	line("| one message to 5,000 streams of server-sent events | %s |", b.cell(streams, "last one has it after", events))
	line("| one message to 5,000 WebSockets | %s |", b.cell(streams, "last one has it after", "WebSocket"))
	line("| matchmaking after the director is stopped by SIGTERM | %s |", b.cell("Takeover", "longest time", "by SIGTERM"))
	line("| after it is killed | %s |", b.cell("Takeover", "longest time", "by SIGKILL"))

	line("\n| memory | service | Redis |\n|---|---:|---:|")
	line("| fetch that waits, connection included | %s | 0 |",
		b.cell("Memory of fetches that wait", "memory each", "on a channel of its own"))
	line("| stream of server-sent events that waits, over HTTP/1.1 | %s | 0 |", b.cell(streams, "memory each", events))
	line("| WebSocket with a subscription that waits | %s | 0 |", b.cell(streams, "memory each", "WebSocket"))
	line("| ticket that waits | %s | %s |", b.cell("Many tickets that wait", "server", "200000"),
		b.cell("Many tickets that wait", "Redis", "200000"))
	line("| idle queue | %s | |", b.cell("What is idle", "memory each", "1000 queues"))
	line("| value in a node of shards, besides key and value | %s | |",
		b.cell("Shards", "memory above them, as the garbage collector leaves it", "1000000"))
	return text.String()
}

// cost is the CPU time of one call, as in "30.5 µs"; empty where it isn't measured.
type cost struct{ service, redis string }

// micros returns the number of a figure.
func micros(figure string) float64 {
	number, _, _ := strings.Cut(figure, " ")
	value, _ := strconv.ParseFloat(number, 64)
	return value
}

// perSecond returns how often a cost fits into a second, to two digits.
func perSecond(cost string) string {
	if cost == "" {
		return ""
	}
	rate := 1e6 / micros(cost)
	unit := math.Pow(10, math.Floor(math.Log10(rate))-1)
	return grouped(math.Round(rate/unit) * unit)
}

// grouped returns a number below a million with a comma before its last three digits.
func grouped(n float64) string {
	return regexp.MustCompile(`(\d)(\d{3})$`).ReplaceAllString(strconv.Itoa(int(n)), "$1,$2")
}

// benchmarks is docs/benchmarks.md.
type benchmarks struct {
	t    *testing.T
	page string
}

// section returns the text below a heading.
func (b benchmarks) section(heading string) string {
	at := regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(heading) + `$`).FindStringIndex(b.page)
	require.NotNil(b.t, at, "docs/benchmarks.md has no section %q", heading)
	text, _, _ := strings.Cut(b.page[at[1]:], "\n## ")
	return text
}

// text returns what the group of a pattern matches in a section.
func (b benchmarks) text(heading, pattern string) string {
	found := regexp.MustCompile(pattern).FindStringSubmatch(b.section(heading))
	require.NotNil(b.t, found, "docs/benchmarks.md, %s: %s", heading, pattern)
	return found[1]
}

// cell returns what a section's table has in a column, in the first row that has all labels.
func (b benchmarks) cell(heading, column string, labels ...string) string {
	at := -1 // the column's place in the present table
	var header []string
	for line := range strings.Lines(b.section(heading)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			header = nil
		case header == nil:
			header, at = cells, slices.Index(cells, column)
		case at >= 0 && at < len(cells) && !strings.HasPrefix(line, "|--") &&
			!slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(cells, l) }):
			return cells[at]
		}
	}
	require.Fail(b.t, "no such figure", "docs/benchmarks.md, %s: %s of %q", heading, column, labels)
	return ""
}
