package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/shardtest"
)

// TestReadTier runs three data centres of four nodes each, with two spare ones, as processes behind proxies. Meanwhile
// authors are written and read through services: no read fails, and nodes continue to answer. In the end each data
// centre alone has the latest values.
func TestReadTier(t *testing.T) {
	t.Parallel()
	server, dcs := redistest.Start(t, redistest.Options{}), []string{"a", "b", "c"}
	shardsCommand(t, server, "layout", "--dc", "a", "--dc", "b", "--dc", "c", "--shards", "4")
	tier := newTier(t, server)
	for _, dc := range dcs {
		tier.Add(t, dc, 6)
	}
	seen := redistest.NewProxy(t, server) // what the service that reads asks Redis
	through := []string{"--cache-shards", "author", "--shard-ping-period", "200ms"}
	a := &authors{
		writer: startServer(t, append(through, "--redis", server.URL())...),
		reader: startServer(t, append(through, "--redis", "redis://"+seen.Addr(), "--shard-timeout", "10s")...),
	}
	for id := range authorCount {
		require.NoError(t, a.write(t.Context(), id))
	}
	tier.All().Start(t)
	tier.AwaitWhole(t, dcs...)
	a.awaitSettled(t, seen)
	reads := shardtest.StartLoad(t, 50,
		func(ctx context.Context, random *rand.Rand) error { return a.read(ctx, random.IntN(authorCount)) })
	// A write goes on when the load stops: one that is cancelled may have been made, and then what is the latest value
	// isn't known.
	writes := shardtest.StartLoad(t, 20, func(ctx context.Context, random *rand.Rand) error {
		return a.write(context.WithoutCancel(ctx), random.IntN(authorCount/2))
	})
	await := func() {
		reads.Await(t, 30)
		a.awaitHits(t, 30)
	}
	await()

	killed := tier.Holder(t, "a", 0)
	tier.AwaitNext(t, "a", 0, func() { killed.Kill(t) })
	await()
	killed.Start(t)

	stopped := tier.Holder(t, "b", 1)
	tier.AwaitNext(t, "b", 1, func() {
		stopped.Signal(t, syscall.SIGSTOP)
		await()
	})
	stopped.Signal(t, syscall.SIGCONT)
	<-stopped[0].Process.Exited() // it has lost its shard
	require.Equal(t, 75, stopped[0].Process.ExitCode(), "EX_TEMPFAIL, as documented")
	stopped.Start(t)

	tier.DC("c").Delay(2 * time.Second)
	await()
	tier.DC("c").Pass()

	for _, shardCount := range []string{"6", "4"} {
		shardsCommand(t, server, "reshard", "--shards", shardCount, "--settle", "1s", "--timeout", "2m")
		await()
	}

	require.Zero(t, a.reader.metric(t, `tidemark_shard_reads_total\{cache="author",outcome="failed"\}`),
		"nodes have answered all the time, so that nothing was read from Redis instead")
	writes.Stop()
	for _, dc := range dcs {
		tier.All().Hold()
		tier.DC(dc).Pass()
		a.awaitSettled(t, seen)
	}
}

// TestFlushedShards: after a FLUSHALL the nodes claim the shards again that they had, without a restart or a command,
// and answer with the values that there are then.
func TestFlushedShards(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	shardsCommand(t, server, "layout", "--dc", "a", "--dc", "b", "--shards", "2")
	tier := newTier(t, server)
	tier.Add(t, "a", 2)
	tier.Add(t, "b", 2)
	seen := redistest.NewProxy(t, server)
	through := []string{"--cache-shards", "author", "--shard-ping-period", "200ms"}
	a := &authors{
		writer: startServer(t, append(through, "--redis", server.URL())...),
		reader: startServer(t, append(through, "--redis", "redis://"+seen.Addr(), "--shard-timeout", "10s")...),
	}
	const lost = authorCount // an author that isn't written again
	writeAll := func() {
		for id := range authorCount {
			require.NoError(t, a.write(t.Context(), id))
		}
	}
	writeAll()
	_, err := requestAuthor(t.Context(), http.MethodPut, a.writer.url, lost, http.StatusNoContent, []byte(`{"id":64}`))
	require.NoError(t, err)
	tier.All().Start(t)
	tier.AwaitWhole(t, "a", "b")
	a.awaitSettled(t, seen)
	holder := func() (hosts []string) {
		for _, dc := range []string{"a", "b"} {
			hosts = append(hosts, tier.Holder(t, dc, 0)[0].Host, tier.Holder(t, dc, 1)[0].Host)
		}
		return hosts
	}
	before := holder()

	require.NoError(t, server.Do(t, "FLUSHALL").Error())
	writeAll()
	tier.AwaitWhole(t, "a", "b")
	require.Equal(t, before, holder())
	a.awaitSettled(t, seen)
	for _, reader := range []*serverProcess{a.reader, a.writer} {
		eventually(t, func() bool {
			_, err := requestAuthor(t.Context(), http.MethodGet, reader.url, lost, http.StatusNotFound, nil)
			return err == nil
		})
	}
	for _, n := range tier.All() {
		select {
		case <-n.Process.Exited():
			t.Errorf("%s has ended", n.Host)
		default:
		}
	}
}

// newTier returns a tier for nodes of authors.
func newTier(t *testing.T, server *redistest.Node) *shardtest.Tier {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: server.URL(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	program, err := exec.LookPath("tidemark")
	require.NoError(t, err)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOMAXPROCS=1", "GOMEMLIMIT=64MiB"}
	return shardtest.New(t, shardtest.Options{
		Cache: "author", Layouts: shards.New(conn),
		Listening: regexp.MustCompile(`msg="tidemark is ready" shards=(\S+) `),
		Command: func(n *shardtest.Node) (string, []string, []string) {
			return program, []string{
				"shard", "serve", "--redis", server.URL(), "--cache", "author", "--dc", n.DC, "--host", n.Host,
				"--listen", "127.0.0.1:0",
				"--advertise", n.Address(), "--admin-listen", "off", "--ping-period", "200ms", "--lease-ttl", "2s",
			}, env
		},
	})
}

// shardsCommand runs `tidemark shards` for authors, which must succeed.
func shardsCommand(t *testing.T, server *redistest.Node, args ...string) {
	t.Helper()
	args = append([]string{"shards"}, append(args, "--redis", server.URL(), "--cache", "author")...)
	var out strings.Builder
	require.Zero(t, runHere(t.Context(), &out, &out, nil, args...), &out)
}

const authorCount = 64

// authors are written through one service and read through another.
type authors struct {
	writer, reader *serverProcess
	all            [authorCount]author
}

// author is an author, whose versions are counted.
type author struct {
	writing sync.Mutex // held by its writer
	mu      sync.Mutex
	started int // version that was written last, or is being written
	written int
}

func (a *author) versions() (started, written int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started, a.written
}

// write writes a new version of an author.
func (a *authors) write(ctx context.Context, id int) error {
	author := &a.all[id]
	author.writing.Lock()
	defer author.writing.Unlock()
	author.mu.Lock()
	author.started++
	version := author.started
	author.mu.Unlock()
	body, err := json.Marshal(records.Author{ID: records.ID(strconv.Itoa(id)), Name: strconv.Itoa(version)})
	if err != nil {
		return err
	}
	if _, err := requestAuthor(ctx, http.MethodPut, a.writer.url, id, http.StatusNoContent, body); err != nil {
		return err
	}
	author.mu.Lock()
	defer author.mu.Unlock()
	author.written = version
	return nil
}

// read reads an author, which must have a version that was written.
func (a *authors) read(ctx context.Context, id int) error {
	version, err := a.version(ctx, id)
	if started, _ := a.all[id].versions(); err == nil && (version < 1 || version > started) {
		return fmt.Errorf("author %d has version %d, and %d was written last", id, version, started)
	}
	return err
}

func (a *authors) version(ctx context.Context, id int) (int, error) {
	text, err := requestAuthor(ctx, http.MethodGet, a.reader.url, id, http.StatusOK, nil)
	if err != nil {
		return 0, err
	}
	var got records.Author
	if err := json.Unmarshal(text, &got); err != nil || string(got.ID) != strconv.Itoa(id) {
		return 0, fmt.Errorf("author %d is %s: %w", id, text, err)
	}
	return strconv.Atoi(got.Name)
}

// awaitHits waits until nodes have answered n more reads.
func (a *authors) awaitHits(t *testing.T, n float64) {
	t.Helper()
	hits := func() float64 {
		return a.reader.metric(t, `tidemark_shard_reads_total\{cache="author",outcome="hit"\}`)
	}
	before := hits()
	eventually(t, func() bool { return hits() >= before+n })
}

// awaitSettled waits until nodes answer for all authors, each with the latest value.
func (a *authors) awaitSettled(t *testing.T, seen *redistest.Proxy) {
	t.Helper()
	eventually(t, func() bool {
		before := seen.Count()
		for id := range a.all {
			version, err := a.version(t.Context(), id)
			require.NoError(t, err)
			if _, written := a.all[id].versions(); version != written {
				return false
			}
		}
		return !slices.ContainsFunc(seen.Sent(before), func(command []string) bool {
			return slices.ContainsFunc(command, func(arg string) bool { return strings.Contains(arg, "author:id:") })
		})
	})
}

// requestAuthor sends a request for an author to a service, and returns the body of the answer.
func requestAuthor(ctx context.Context, method, url string, id, status int, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s/v1/cache/author/%d", url, id),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("%s author %d: %s: %s", method, id, response.Status, text)
	}
	return text, err
}
