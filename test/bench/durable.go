package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/api/durable"
	"github.com/tidemark-dev/tidemark/test/launch"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The load on Durable Streams.
const (
	caughtUpMessages = 10_000
	caughtUpBatch    = 100 // messages of an append
	catchUps         = 10  // in a round
	durableReaders   = 1000
)

// durableServer is a server of the Durable Streams protocol.
type durableServer struct {
	*service
	system *system
	name   string
	prefix string // of the paths of streams
}

// durableFigure is a figure of a stream. A time is negative, so that more is better.
type durableFigure struct {
	name    string
	stream  string
	calls   int // of which each has a CPU time; 0: none is reported
	measure func(s *durableServer, path string, calls int) float64
}

// durableResult is a figure, and the CPU time for each call.
type durableResult struct {
	figure        float64
	server, redis time.Duration
}

// durableStreams compares streams of the Durable Streams protocol with those of its reference server.
func durableStreams(b *bench) {
	folder, missing := b.installReference()
	servers := b.startDurable(folder)
	defer func() {
		for _, s := range servers {
			s.system.stop()
		}
	}()
	b.printf("Streams of JSON with messages of %d bytes. An append has one message, and waits for its answer on a connection of "+
		"its own.\nThose in order are of one producer of the protocol; one that overtakes another is refused, and sent again "+
		"after it.\nCatch-up is the time in which a reader from the beginning has %d messages. %d readers follow a stream by "+
		"server-sent\nevents, and the last one has a message so long after the beginning of its append. Tidemark's Redis syncs its "+
		"append-only\nfile every second or, as the protocol's reference server does (npm, its store in files), before it answers. "+
		"All take turns,\non the same cores as the load. Goal: ahead in each.\n\n", contentBytes, caughtUpMessages, durableReaders)
	b.table("figure | server | : | ratio: | goal: |  | CPU of an append: server, Redis:")
	appends := b.requests / 20 // the reference server needs seconds for as many
	for _, figure := range []durableFigure{
		{"appends in order, 1 under way", "one", appends, (*durableServer).appendAlone},
		{"appends, 64 under way", "many", appends, (*durableServer).appendMany},
		{"appends in order, 64 under way", "ordered", appends, (*durableServer).appendInOrder},
		{"catch-up", "history", 0, (*durableServer).catchUp},
		{"last reader", "live", 0, (*durableServer).lastReader},
	} {
		b.compareDurable(&figure, servers)
	}
	if missing != nil {
		progress("the reference server is not measured: %v", missing)
		b.printf("\nThe reference server was not measured: there is no Node, or npm could not install it.\n")
	}
}

// installReference installs the reference server, and returns the folder with it.
func (b *bench) installReference() (string, error) {
	const folder = "tools/durable-streams"
	if _, err := exec.LookPath("node"); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(b.Context(), "npm", "ci", "--prefix", folder, "--loglevel=error", "--no-audit",
		"--no-fund").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("install the packages of %s: %w: %s", folder, err, out)
	}
	return filepath.Abs(folder)
}

// startDurable starts this service twice, and the reference server, if there is a folder with it, as the last one.
func (b *bench) startDurable(folder string) (servers []*durableServer) {
	for _, name := range []string{"Tidemark", "Tidemark, always synced"} {
		u := b.start("--matchmaking", "off")
		servers = append(servers, &durableServer{u.server, u, name, durable.DefaultPrefix})
	}
	servers[1].system.redis.do("CONFIG", "SET", "appendfsync", "always")
	if folder == "" {
		return servers
	}
	u := b.startAlone(&redisServers{bench: b})
	dir := u.tempDir()
	server := u.launch(launch.Options{Program: "node", Listen: []string{""}, Name: "reference", Logs: dir}, "/alive",
		func(p *launch.Service) []string {
			host, port := u.hostPort(p.HTTP)
			return []string{filepath.Join(folder, "serve.mjs"), host, port, filepath.Join(dir, "streams")}
		})
	return append(servers, &durableServer{server, u, "reference server", "/"})
}

// compareDurable measures a figure of all servers, and adds a row for each.
func (b *bench) compareDurable(figure *durableFigure, servers []*durableServer) {
	found := turns(b.rounds, servers, func(round int, s *durableServer) durableResult {
		return s.measure(figure, fmt.Sprintf("%s%s-%d", s.prefix, figure.stream, round))
	})
	all := make([]float64, len(servers))
	for i := range servers {
		all[i] = median(found[i], func(r durableResult) float64 { return r.figure })
	}
	for i, s := range servers {
		value, used := fmt.Sprintf("%.0f/s", all[i]), ""
		if all[i] < 0 {
			value = report.Millis(time.Duration(-all[i]))
		}
		if figure.calls > 0 {
			used = report.Tenths(median(found[i], func(r durableResult) time.Duration { return r.server })) + " + " +
				report.Tenths(median(found[i], func(r durableResult) time.Duration { return r.redis }))
		}
		peer := all[len(all)-1]
		ratio := all[i] / peer
		if peer < 0 {
			ratio = peer / all[i]
		}
		if s.prefix != durable.DefaultPrefix || servers[len(servers)-1].prefix == durable.DefaultPrefix {
			b.row(figure.name, s.name, value, "", "", "", used)
			continue
		}
		b.row(figure.name, s.name, value, fmt.Sprintf("%.2f", ratio), goal("≥", 1), ratio >= 1, used)
	}
}

// measure measures a figure of a new stream.
func (s *durableServer) measure(figure *durableFigure, path string) (r durableResult) {
	s.system.send(s.HTTP, load.Request(http.MethodPut, path, "", durableType))
	r.redis = perCall(max(figure.calls, 1), s.system.redis.cpu, func() {
		r.server = perCall(max(figure.calls, 1), s.cpu, func() { r.figure = figure.measure(s, path, figure.calls) })
	})
	return r
}

// durableType is a header of appends.
const durableType = "Content-Type: application/json\r\n"

// appendAlone returns the appends per second of one producer that waits for each answer.
func (s *durableServer) appendAlone(path string, n int) float64 {
	return s.appendRate(path, n, 1, true)
}

// appendMany returns the appends per second with 64 under way, in any order.
func (s *durableServer) appendMany(path string, n int) float64 {
	return s.appendRate(path, n, 64, false)
}

// appendInOrder returns the appends per second of one producer with 64 under way.
func (s *durableServer) appendInOrder(path string, n int) float64 {
	return s.appendRate(path, n, 64, true)
}

// appendRate returns the appends per second with some under way at a time.
func (s *durableServer) appendRate(path string, n, underWay int, inOrder bool) float64 {
	var next atomic.Int64
	answered := make([]chan struct{}, n+1)
	for i := range answered {
		answered[i] = make(chan struct{})
	}
	close(answered[0])
	group, ctx := errgroup.WithContext(s.bench.Context())
	started := time.Now()
	for range underWay {
		group.Go(func() error {
			c, err := load.Dial(ctx, s.HTTP)
			if err != nil {
				return err
			}
			defer c.Close()
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				headers := []string{durableType}
				if inOrder {
					headers = append(headers, fmt.Sprintf("Producer-Id: bench\r\nProducer-Epoch: 0\r\nProducer-Seq: %d\r\n", i-1))
				}
				request := load.Request(http.MethodPost, path, messageContent, headers...)
				if err := appendInTurn(ctx, c, request, answered[i-1]); err != nil {
					return err
				}
				close(answered[i])
			}
			return nil
		})
	}
	s.bench.Must(group.Wait())
	return float64(n) / time.Since(started).Seconds()
}

// appendInTurn sends an append, and again after the one before was answered if it has overtaken that.
func appendInTurn(ctx context.Context, c *load.Conn, request []byte, before <-chan struct{}) error {
	status, err := c.Copy(request, io.Discard)
	if err == nil && status == http.StatusConflict {
		select {
		case <-before:
		case <-ctx.Done():
			return ctx.Err()
		}
		status, err = c.Copy(request, io.Discard)
	}
	if err == nil && status != http.StatusOK && status != http.StatusNoContent {
		err = fmt.Errorf("an append was answered %d", status)
	}
	return err
}

// catchUp returns the median time in which a reader has all messages of a stream.
func (s *durableServer) catchUp(path string, _ int) float64 {
	batch := "[" + strings.Repeat(messageContent+",", caughtUpBatch-1) + messageContent + "]"
	for range caughtUpMessages / caughtUpBatch {
		s.system.send(s.HTTP, load.Request(http.MethodPost, path, batch, durableType))
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	took := make([]time.Duration, catchUps)
	for i := range took {
		started, bytes := time.Now(), 0
		for offset := "-1"; offset != ""; {
			n, next, err := s.readOnce(client, path+"?offset="+offset)
			s.bench.Must(err)
			bytes, offset = bytes+n, next
		}
		took[i] = time.Since(started)
		if bytes < caughtUpMessages*contentBytes {
			s.bench.Fatalf("a reader of %s has %d bytes", s.name, bytes)
		}
	}
	return -float64(report.Quantile(took, 0.5))
}

// readOnce reads a part of a stream, and returns its size and the offset of the next one, or "" at the end.
func (s *durableServer) readOnce(client *http.Client, target string) (n int, next string, err error) {
	request, err := http.NewRequestWithContext(s.bench.Context(), http.MethodGet, "http://"+s.HTTP+target, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.Copy(io.Discard, response.Body)
	if response.Header.Get("Stream-Up-To-Date") == "" {
		next = response.Header.Get("Stream-Next-Offset")
	}
	return int(body), next, err
}

// lastReader returns the median time until the last of many readers has a message.
func (s *durableServer) lastReader(path string, _ int) float64 {
	u := s.system
	a := u.gather(s.service, durableReaders, func(int) []load.Step { return load.EventsSteps(path + "?offset=now&live=sse") },
		func(int) []byte { return load.Request(http.MethodPost, path, crowdContent, durableType) })
	defer a.crowd.Close()
	defer a.publisher.Close()
	took := make([]time.Duration, lastMessages)
	for n := range took {
		took[n] = slices.Max(a.send(n, 1, 0))
	}
	return -float64(report.Quantile(took, 0.5))
}
