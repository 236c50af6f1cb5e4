package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// redis sends a command to the Redis of a site, and returns its answer.
func (s *site) redis(words ...string) string {
	s.t.Helper()
	c, err := new(net.Dialer).DialContext(s.t.Context(), "unix", filepath.Join(s.data, "redis.sock"))
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, c.Close()) }()
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	_, err = io.WriteString(c, command)
	require.NoError(s.t, err)
	return readReply(s.t, bufio.NewReader(c))
}

// readReply reads a reply that isn't a list.
func readReply(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	line = strings.TrimSpace(line)
	require.NotEqual(t, '-', rune(line[0]), line)
	if line[0] != '$' {
		return line[1:]
	}
	size, err := strconv.Atoi(line[1:])
	require.NoError(t, err)
	text := make([]byte, size+2)
	_, err = io.ReadFull(from, text)
	require.NoError(t, err)
	return string(text[:size])
}

// copyChannels makes channels c00000, c00001, … with a message each, from one number up to another.
func (s *site) copyChannels(from, to int) {
	s.t.Helper()
	const list = `return table.concat(redis.call('KEYS', 'c.{copied}*'), ' ')`
	const copies = `for n = tonumber(ARGV[1]), tonumber(ARGV[2]) - 1 do
			for key in ARGV[3]:gmatch('%S+') do
				redis.call('COPY', key, (key:gsub('copied', string.format('c%05d', n), 1)))
			end
		end
		return 'done'`
	s.publish("copied", object{"text": "hello"})
	keys := s.redis("EVAL", list, "0")
	for at := from; at < to; at += 1000 { // between which Redis serves others
		require.Equal(s.t, "done", s.redis("EVAL", copies, "0", strconv.Itoa(at), strconv.Itoa(min(at+1000, to)), keys))
	}
}

// commands returns how many commands Redis has executed, those of scripts included.
func (s *site) commands() (all int) {
	s.t.Helper()
	for _, m := range regexp.MustCompile(`calls=(\d+)`).FindAllStringSubmatch(s.redis("INFO", "commandstats"), -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(s.t, err)
		all += n
	}
	return all
}

// consolePages are the pages of the navigation, by their headings.
var consolePages = []string{"Overview", "Channels", "Queues", "Records", "Shards", "Access", "Configuration", "Try a call"}

// address returns the address of a page of the navigation.
func (s *site) address(heading string) string {
	if heading == consolePages[0] {
		return s.console + "/console/"
	}
	if heading == "Try a call" {
		return s.console + "/console/call"
	}
	return s.console + "/console/" + strings.ToLower(heading)
}

// request is a request of a page, as the browser has measured it. Sizes are in bytes.
type request struct {
	Name         string
	TransferSize float64 // with an estimate of the head
	DecodedSize  float64 `json:"decodedBodySize"`
}

// opens opens a page of the console from the beginning, as on a first visit, and returns its requests when it shows
// what it has asked for.
func (w window) opens(s *site, heading string) (all []request) {
	w.t.Helper()
	w.do(chromedp.Navigate(s.address(heading)))
	w.settles(heading)
	text := read(w, chromedp.Evaluate[string](`JSON.stringify([...performance.getEntriesByType('navigation'),
		...performance.getEntriesByType('resource')])`))
	require.NoError(w.t, json.Unmarshal([]byte(text), &all))
	return all
}

// settles waits until a page shows what it has asked for, and asks for nothing more.
func (w window) settles(heading string) {
	w.t.Helper()
	w.sees("h1", heading)
	w.do(chromedp.WaitNotPresent(chromedp.CSS(`[aria-label="Loading"]`)), chromedp.Poll[chromedp.Void](
		`(now => { const same = window.requests === now; window.requests = now; return same })
			(performance.getEntriesByType('resource').length)`, chromedp.WithPollingInterval(500*time.Millisecond)))
}

// Bytes that a first visit of a page takes at most. This service is new: later the overview also loads an hour of
// history, which takes as much as TestHistoryIsCompressed allows.
const (
	wire = 120_000
	hour = 30_000
)

// TestConsoleSize opens each page for the first time: all that the network carries for it, answers included.
func TestConsoleSize(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	startProgram(t, regexp.MustCompile(`(added hostile contents)`), setting(t, "TIDEMARK_TEST_BINARY"), "demo", "--admin",
		s.console, "--hostile")
	open := browser(t, cuts)
	for _, heading := range consolePages {
		size := 0.0
		if heading == "Overview" {
			size = hour
		}
		for _, r := range open("about:blank").opens(s, heading) {
			size += r.TransferSize
		}
		t.Logf("%s: %.0f bytes", heading, size)
		require.Greater(t, size, 20_000.0, heading)
		require.LessOrEqual(t, size, float64(wire), heading)
	}
}

// TestConsoleWithManyChannels opens each page with some channels, and then with 100,000 of them. Neither what Redis
// does for a page, nor what the page loads and shows, grows with their number.
func TestConsoleWithManyChannels(t *testing.T) {
	t.Parallel()
	const few, many = 1000, 100_000 // the list of channels begins with 500
	const noise = 100               // commands of the service itself while a page loads
	s := startSite(t)
	open := browser(t, cuts)
	look := func() (commands map[string]int, loaded map[string]float64) {
		commands, loaded = map[string]int{}, map[string]float64{}
		w := open("about:blank")
		w.do(chromedp.EmulateViewport(1280, 900))
		for _, heading := range consolePages {
			before := s.commands()
			for _, r := range w.opens(s, heading) {
				if strings.Contains(r.Name, "/v1/") {
					loaded[heading] += r.DecodedSize
				}
			}
			commands[heading] = s.commands() - before
			rows := read(w, chromedp.Evaluate[int](`document.querySelectorAll('[role=row], tr, li').length`))
			require.Less(t, rows, 400, heading)
		}
		return commands, loaded
	}
	s.copyChannels(0, few)
	commands, loaded := look()
	s.copyChannels(few, many)
	require.Greater(t, s.keys(), 2*many)
	commandsOfMany, loadedOfMany := look()
	for _, heading := range consolePages {
		t.Logf("%s: %d commands, of many %d; %.0f bytes, of many %.0f", heading, commands[heading], commandsOfMany[heading],
			loaded[heading], loadedOfMany[heading])
		require.LessOrEqual(t, commandsOfMany[heading], commands[heading]*2+noise, heading)
		require.LessOrEqual(t, loadedOfMany[heading], 2*loaded[heading], heading)
	}

	// A survey, which does grow, is made when a person asks, and can be cancelled.
	w := open(s.console + "/console/records")
	w.click("Count the keys")
	w.sees("span", "Counting: ")
	w.do(chromedp.WaitVisible(chromedp.CSS(`progress`)))
	w.click("Cancel")
	w.sees("span", "before it was cancelled")
	w.sees("button", "Count again")
}

// keys returns how many keys Redis has.
func (s *site) keys() int {
	s.t.Helper()
	n, err := strconv.Atoi(s.redis("DBSIZE"))
	require.NoError(s.t, err)
	return n
}

// cpu returns the processor time that the service has used, and its Redis, in seconds.
func (s *site) cpu() (service, redis float64) {
	s.t.Helper()
	number := func(pattern, text string) float64 {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		require.NotNil(s.t, found, pattern)
		n, err := strconv.ParseFloat(found[1], 64)
		require.NoError(s.t, err)
		return n
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.console+"/metrics", http.NoBody)
	require.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	metrics, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, answer.Body.Close())
	used := s.redis("INFO", "cpu")
	return number(`(?m)^process_cpu_seconds_total (\S+)$`, string(metrics)),
		number(`used_cpu_user:(\S+)`, used) + number(`used_cpu_sys:(\S+)`, used)
}

// scroll is a function that scrolls a list to its end, by so many pixels a frame. It returns the times between frames
// in ms, sorted, and how many rows were in the document at most.
const scroll = `(pixels => new Promise(done => {
	const list = document.querySelector('[role=table]'), times = [];
	let last = performance.now(), most = 0;
	const step = now => {
		times.push(now - last);
		last = now;
		most = Math.max(most, list.querySelectorAll('[role=row]').length);
		list.scrollTop += pixels;
		const rows = Number(list.getAttribute('aria-rowcount')) - 1;
		if (rows >= 10000 && list.scrollTop + list.clientHeight >= list.scrollHeight - 1) {
			times.sort((a, b) => a - b);
			done(JSON.stringify({most, times}));
		} else requestAnimationFrame(step);
	};
	requestAnimationFrame(step);
}))`

// BenchmarkConsole measures what docs/console.md says that the console costs, on loopback:
//
//	make e2e ARGS='-run NONE -bench Console -benchtime 1x -timeout 20m'
func BenchmarkConsole(b *testing.B) {
	s := startSite(b, "--cache-shards", "topic")
	startProgram(b, regexp.MustCompile(`(added hostile contents)`), setting(b, "TIDEMARK_TEST_BINARY"), "demo", "--admin",
		s.console, "--hostile", "--duration", "10s")
	b.Run("paint", func(b *testing.B) { benchmarkPaint(b, s) })
	const window = time.Minute
	var idle, idleRedis, idleCommands float64
	use := func(b *testing.B) (service, redis, commands float64) {
		b.Helper()
		before, redisBefore := s.cpu()
		calls := s.commands()
		time.Sleep(window) //nolint:forbidigo // the period of the measurement
		after, redisAfter := s.cpu()
		return (after - before) / window.Seconds() * 100, (redisAfter - redisBefore) / window.Seconds() * 100,
			float64(s.commands()-calls) / window.Seconds()
	}
	b.Run("no page", func(b *testing.B) {
		time.Sleep(135 * time.Second) //nolint:forbidigo // the demo ends, and then its tickets
		idle, idleRedis, idleCommands = use(b)
		b.ReportMetric(idle, "%core")
		b.ReportMetric(idleRedis, "%core-redis")
		b.ReportMetric(idleCommands, "commands/s")
	})
	for _, heading := range consolePages {
		b.Run(heading, func(b *testing.B) {
			w := browser(b, cuts)("about:blank")
			w.opens(s, heading)
			service, redis, commands := use(b)
			b.ReportMetric(service-idle, "%core")
			b.ReportMetric(redis-idleRedis, "%core-redis")
			b.ReportMetric(commands-idleCommands, "commands/s")
		})
	}
	b.Run("scroll 10,000 rows", func(b *testing.B) { benchmarkScroll(b, s) })
}

// benchmarkPaint loads each page five times, with nothing in the browser's cache.
func benchmarkPaint(b *testing.B, s *site) {
	b.Helper()
	const loads = 5
	w := browser(b, cuts)("about:blank")
	w.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, t, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
		return chromedp.Void{}, err
	})
	var paints []float64
	for range loads {
		for _, heading := range consolePages {
			w.opens(s, heading)
			paints = append(paints, read(w, chromedp.Evaluate[float64](
				`performance.getEntriesByName('first-contentful-paint')[0].startTime`)))
		}
	}
	slices.Sort(paints)
	b.ReportMetric(paints[len(paints)/2], "ms-first-paint-p50")
	b.ReportMetric(paints[len(paints)-1], "ms-first-paint-max")
}

func benchmarkScroll(b *testing.B, s *site) {
	b.Helper()
	s.copyChannels(0, 10_000)
	w := browser(b, cuts)(s.console + "/console/channels")
	w.do(chromedp.EmulateViewport(1280, 900), chromedp.WaitVisible(chromedp.CSS(`[role=row]`)))
	var measured struct{ Times []float64 }
	text := read(w, chromedp.Evaluate[string](scroll+`(700)`, chromedp.EvalAwaitPromise))
	require.NoError(b, json.Unmarshal([]byte(text), &measured))
	times := measured.Times
	late := 0
	for _, ms := range times {
		if ms > 1.5*1000/60 {
			late++
		}
	}
	b.ReportMetric(times[len(times)/2], "ms-frame-p50")
	b.ReportMetric(times[len(times)*99/100], "ms-frame-p99")
	b.ReportMetric(100*float64(late)/float64(len(times)), "%late")
}
